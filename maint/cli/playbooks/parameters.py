"""The help of `maint playbook run NAME` and `plan NAME`: the playbook's parameters, below the command's own options."""

from collections.abc import Sequence

from maint.cli.command import Made, OwnFirst
from maint.errors import MaintError
from maint.model.formatting import show_duration
from maint.model.json import Json
from maint.model.plan import Parameter, ParameterType, Playbook

_WORDS = "maint.words"  # what was typed, kept for the help, which is shown before anything is parsed


class WithParameters(OwnFirst):
    """A command whose first argument names a playbook."""

    def parse_args(self, ctx: Made, args: list[str]) -> list[str]:
        """Keep what was typed."""
        ctx.meta[_WORDS] = list(args)
        parsed: list[str] = super().parse_args(ctx, args)
        return parsed

    def format_options(self, ctx: Made, formatter: Made) -> None:
        """Write the parameters of the playbook that is named, then the options."""
        try:
            playbook = _named(ctx.meta.get(_WORDS, ()))
        except (MaintError, OSError) as error:
            with formatter.section("Parameters"):
                formatter.write_text(str(error))
            playbook = None
        if playbook is not None:
            rows = [(f"{one.name} ({one.type.value})", _told(one)) for one in playbook.parameters]
            with formatter.section(f"Parameters of {playbook.name}, given as --set NAME=VALUE"):
                formatter.write_dl(rows or [("none", "it takes no parameters")])
        super().format_options(ctx, formatter)


def _named(words: Sequence[str]) -> Playbook | None:
    from maint.engine.load import library  # a start that shows no playbook's help needs none of this

    shipped = library()
    for word in words:
        if word in shipped.texts or (word.endswith((".yaml", ".yml")) and not word.startswith("-")):
            return shipped.find(word)
    return None


def _told(parameter: Parameter) -> str:
    words = parameter.help.rstrip(".")
    if parameter.required:
        return f"{words}. [required]" if words else "[required]"
    default = _shown(parameter)
    return f"{words}. [default: {default}]" if words else f"[default: {default}]"


def _shown(parameter: Parameter) -> str:
    value: Json = parameter.default
    if parameter.source is not None and value is None:
        return f"{parameter.source.replace('_', ' ')} of the site"
    if parameter.type is ParameterType.DURATION and isinstance(value, int | float):
        return show_duration(value)
    if isinstance(value, list):
        return ",".join(map(str, value)) or "none"
    if isinstance(value, bool):
        return str(value).lower()
    return "none" if value in (None, "") else str(value)
