"""The flags that every command has, and the one wrapper through which every command runs."""

import functools
import inspect
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from maint.cli.boundary import guarded
from maint.cli.connection_options import NOTHING, Options, Way, taken_from
from maint.cli.empty_values import refusing_empty
from maint.cli.ondemand import makers_of, single
from maint.cli.screen import Screen


@dataclass(frozen=True, slots=True)
class Flags:
    """What the operator said beside the command itself; None is "not said"."""

    site: str | None = None
    config: str | None = None
    output: str | None = None
    quiet: bool = False
    verbose: bool = False
    color: str | None = None
    yes: bool = False
    confirm: str | None = None
    dry_run: bool = False
    timeout: str | None = None
    insecure: bool = False
    allow_plain: bool = False
    no_safety_net: str = ""  # why backup guards are lifted; an option of the commands that destroy
    way: Way = field(default_factory=Way)  # an option of the commands that read a store
    state: str | None = None  # no flag: where the demo keeps its state
    vendor: bool = False  # no flag: whether the documented client's configuration may stand for a missing one

    def screen(self) -> Screen:
        """Return the screen that these flags ask for."""
        output = self.output or os.environ.get("MAINT_OUTPUT") or "table"
        color = self.color or os.environ.get("MAINT_COLOR") or "auto"
        return Screen(output, quiet=self.quiet, verbose=self.verbose, color=color)


_OPTIONS: dict[str, tuple[object, object]] = {
    "site": (Annotated[str | None, typer.Option("--site", help="Which site of the config.")], None),
    "config": (Annotated[str | None, typer.Option("--config", help="The config file.")], None),
    "output": (Annotated[str | None, typer.Option("-o", "--output", help="table, json or yaml.")], None),
    "quiet": (Annotated[bool, typer.Option("-q", "--quiet", help="Only errors and warnings.")], False),
    "verbose": (Annotated[bool, typer.Option("-v", "--verbose", help="Every step of the way.")], False),
    "color": (Annotated[str | None, typer.Option("--color", help="always, never or auto.")], None),
    "yes": (Annotated[bool, typer.Option("--yes", "-y", help="Answer y/N questions with yes.")], False),
    "confirm": (Annotated[str | None, typer.Option("--confirm", help="The name that a DESTROY asks for.")], None),
    "dry_run": (Annotated[bool, typer.Option("--dry-run", help="Show the plan, change nothing.")], False),
    "timeout": (
        Annotated[str | None, typer.Option("--timeout", help="Limit for the whole command, such as 25m.")],
        None,
    ),
    "insecure": (
        Annotated[bool, typer.Option("--insecure", help="For labs: do not verify TLS; warns every time.")],
        False,
    ),
    "allow_plain": (
        Annotated[bool, typer.Option("--allow-plain", help="Send passwords in clear although manager.ca is set.")],
        False,
    ),
}

_before: Flags = Flags()


def remember(**values: Any) -> None:  # Any: typer hands over whatever the options hold
    """Keep the flags that stood before the noun, for the command that follows."""
    global _before  # typer offers no other way from a callback to a command's wrapper
    _before = Flags(**values)


def command(
    group: typer.Typer,
    name: str,
    way: Options = NOTHING,
    cls: type[TyperCommand] | None = None,
    outputs: Sequence[str] = (),
) -> Callable[[Callable[..., int | None]], Callable[..., None]]:
    """Register a function as a command; it receives `flags` and returns an exit code (None is 0).

    Args:
        group: the noun.
        name: the verb.
        way: which flags it has to say where store and manager are; they arrive in `flags.way`.
        cls: how its words are read, where that is not as usual.
        outputs: what it can print beside the outputs that every command has.
    """

    def register(function: Callable[..., int | None]) -> Callable[..., None]:
        @functools.wraps(function)
        def run(**values: Any) -> None:  # Any: typer hands over whatever the options hold
            own = {key: values.pop(key) for key in _OPTIONS}
            flags = replace(merged(_before, own), way=taken_from(way, values))
            raise typer.Exit(guarded(flags.screen, lambda: function(flags, **values), outputs))

        def make() -> Any:  # Any: see `ondemand.Made`
            signature = _signature(function, way)
            run.__signature__ = signature  # type: ignore[attr-defined]  # typer reads the signature from here
            run.__annotations__ = {p.name: p.annotation for p in signature.parameters.values()}
            return refusing_empty(single(run, name, cls, inspect.getdoc(function)))

        makers_of(group)[name] = make
        return run

    return register


def merged(before: Flags, own: dict[str, Any]) -> Flags:  # Any: see `remember`
    """Return the flags before the noun with those after the verb on top."""
    return replace(before, **{key: value for key, value in own.items() if value not in (None, False)})


def options() -> list[inspect.Parameter]:
    """Return the common flags as parameters of a signature."""
    return _parameters(_OPTIONS)


def _parameters(given: Options) -> list[inspect.Parameter]:
    return [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default)
        for name, (annotation, default) in given.items()
    ]


def _signature(function: Callable[..., int | None], way: Options) -> inspect.Signature:
    own = list(inspect.signature(function, eval_str=True).parameters.values())[1:]
    keyword = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in own]
    return inspect.Signature([*keyword, *_parameters(way), *options()])
