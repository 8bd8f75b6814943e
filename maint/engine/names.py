"""Hold what a playbook names against the config: hosts, groups of hosts, virtual clusters, notices."""

from collections.abc import Collection, Iterator, Mapping, Sequence

from maint.config.schema import SiteSettings
from maint.config.suggestions import did_you_mean
from maint.engine.parameters import alone, in_text, render
from maint.engine.read_step import is_template, texts
from maint.errors import Invalid
from maint.model.json import Json
from maint.model.notice import Kind
from maint.model.plan import Playbook, StepText
from maint.steps.registry import STEPS


def unknown_names(
    playbook: Playbook, settings: SiteSettings, given: Mapping[str, Json] | None = None
) -> Iterator[Invalid]:
    """Yield each name that the config of a site does not have, with its place.

    What only a parameter without a default would tell is not judged; neither is what an included playbook names itself.

    Args:
        given: the parameters of a run, where they are known.
    """
    defaults: dict[str, Json] = {item.name: item.default for item in playbook.parameters if item.default is not None}
    defaults |= given or {}
    every = known_names(settings)
    for step in playbook.steps:
        if step.do is None or step.do not in STEPS:
            continue
        for key, kind in _named(step, every).items():
            known = every[kind]
            for name in names_given(step, key, defaults):
                if name not in known:
                    guess = did_you_mean(name, sorted(known))
                    hint = (
                        f"did you mean {guess!r}?" if guess else f"the config has {', '.join(sorted(known)) or 'none'}"
                    )
                    words = f"site {settings.name} has no {kind} {name!r}"
                    yield Invalid(words, at=step.argument_places.get(key, step.at), hint=hint)


def known_names(settings: SiteSettings) -> Mapping[str, set[str]]:
    """Return the names that the config of a site has, by what they are the names of."""
    hosts = (*settings.hosts, *settings.hosts_in("manager"))
    return {
        "host": {host.name for host in hosts},
        "group of hosts": {group for host in hosts for group in host.groups},
        "notice that takes messages": {one.name for one in settings.notify if one.ways(Kind.MESSAGE.value, "")},
        "virtual cluster": {one.name for one in settings.virtual_clusters},
    }


def _named(step: StepText, kinds: Collection[str]) -> Mapping[str, str]:
    """Return the keys of a step's arguments that name what the config has, and what that is."""
    arguments = STEPS[step.do or ""].arguments
    own = {"vc": "virtual cluster"} if "vc" in arguments.model_fields else {}
    named = {**getattr(arguments, "in_config", {}), **own}  # a plugin's may lack it, or say what means nothing here
    return {key: kind for key, kind in named.items() if kind in kinds}


def names_given(step: StepText, key: str, defaults: Mapping[str, Json]) -> Sequence[str]:
    """Return the names that an argument of a step has, as far as the parameters that are known tell."""
    value = step.arguments.get(key)
    try:
        if any(not in_text(text) <= defaults.keys() for text, _ in texts(value, ()) if is_template(text)):
            return ()
        variable = alone(value)
        found = render(value, defaults) if variable is None else defaults[variable]
    except Invalid:  # a template that is none, which is a mistake of its own
        return ()
    listed = found if isinstance(found, list) else [found]
    return [one for one in listed if isinstance(one, str) and one]
