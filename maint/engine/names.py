"""Hold what a playbook names against the config: hosts, groups of hosts, virtual clusters, notices."""

from collections.abc import Iterator, Mapping, Sequence

from maint.config.schema import SiteSettings
from maint.config.suggestions import did_you_mean
from maint.engine.parameters import render
from maint.engine.read_step import is_template, texts
from maint.errors import Invalid
from maint.model.json import Json
from maint.model.notice import Kind
from maint.model.plan import Playbook, StepText
from maint.render import template
from maint.steps.flow import NotifyArguments
from maint.steps.hosts.files import FetchArguments
from maint.steps.hosts.selection import HostsArguments
from maint.steps.registry import STEPS


def unknown_names(playbook: Playbook, settings: SiteSettings) -> Iterator[Invalid]:
    """Yield each name that the config of a site does not have, with its place.

    What only a parameter without a default would tell is not judged; neither is what an included playbook names itself.
    """
    defaults = {item.name: item.default for item in playbook.parameters if item.default is not None}
    for step in playbook.steps:
        if step.do is None or step.do not in STEPS:
            continue
        for key, known, kind in _known(step, settings):
            for name in _given(step, key, defaults):
                if name not in known:
                    guess = did_you_mean(name, sorted(known))
                    hint = (
                        f"did you mean {guess!r}?" if guess else f"the config has {', '.join(sorted(known)) or 'none'}"
                    )
                    words = f"site {settings.name} has no {kind} {name!r}"
                    yield Invalid(words, at=step.argument_places.get(key, step.at), hint=hint)


def _known(step: StepText, settings: SiteSettings) -> Sequence[tuple[str, set[str], str]]:
    arguments = STEPS[step.do or ""].arguments
    configured = (*settings.hosts, *settings.hosts_in("manager"))
    hosts, groups = {host.name for host in configured}, {group for host in configured for group in host.groups}
    found = []
    if issubclass(arguments, HostsArguments):
        found += [("hosts", hosts, "host"), ("groups", groups, "group of hosts")]
    if issubclass(arguments, FetchArguments):
        found.append(("host", hosts, "host"))
    if issubclass(arguments, NotifyArguments):
        told = {one.name for one in settings.notify if one.ways(Kind.MESSAGE.value, "")}
        found.append(("to", told, "notice that takes messages"))
    if "vc" in arguments.model_fields:
        found.append(("vc", {one.name for one in settings.virtual_clusters}, "virtual cluster"))
    return found


def _given(step: StepText, key: str, defaults: Mapping[str, Json]) -> Sequence[str]:
    value = step.arguments.get(key)
    try:
        if any(not template(text).names() <= defaults.keys() for text, _ in texts(value, ()) if is_template(text)):
            return ()
        found = render(value, defaults)
    except Invalid:  # a template that is none, which is a mistake of its own
        return ()
    listed = found if isinstance(found, list) else [found]
    return [one for one in listed if isinstance(one, str) and one]
