"""Tell in a way that an installed package offers."""

from collections.abc import Callable, Mapping
from typing import TypeAlias, cast

from maint import plugins
from maint.adapters.notify.way import Say
from maint.config.notices import NoticeSettings
from maint.config.suggestions import meant
from maint.errors import Invalid
from maint.model.notice import Notice

Tell: TypeAlias = Callable[[Mapping[str, str], Notice, Say], None]


def tell(one: NoticeSettings, notice: Notice, say: Say) -> None:
    """Hand the notice to the package; raises Invalid where it cannot be loaded, and whatever it raises itself."""
    if one.plugin is None:
        return
    kind, known = one.plugin.kind, plugins.offered(plugins.NOTIFY)
    if kind not in known:
        words = f"no installed package offers notices named {kind!r}"
        raise Invalid(words, hint=meant(kind, known, "install it beside maint"))
    plugins.load(known[kind], "notice", _function, "it is a function of settings, notice and say")(
        one.plugin.settings, notice, say
    )


def _function(found: object) -> Tell | None:
    return cast(Tell, found) if callable(found) else None
