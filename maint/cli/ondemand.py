"""Commands that are read in when somebody asks for them: most runs need one of a hundred."""

from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from typing import Any, ClassVar, TypeAlias

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command, get_group

Made: TypeAlias = Any  # what typer builds of a command; it exports no name for it
Maker: TypeAlias = Callable[[], Made]


class OnDemand(TyperGroup):
    """A group whose commands are made when they are asked for; whoever looks through `commands` has all of them made.

    Attributes:
        makers: what makes each command, in the order in which they are listed.
    """

    makers: ClassVar[dict[str, Maker]] = {}

    def __init__(self, **given: Any) -> None:  # Any: typer hands over whatever a group is made of
        self._made: dict[str, Made] = {}
        super().__init__(**given)
        _take_text_as_it_is(self)

    @property
    def commands(self) -> dict[str, Made]:
        """All commands, by name."""
        return {name: self.get_command(None, name) for name in self.makers}

    @commands.setter
    def commands(self, given: Mapping[str, Made]) -> None:
        assert not given, "a command was registered past `flags.command`"

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002  # as the base class is called; Any: see Made
        """Return the names of all commands."""
        return list(self.makers)

    def get_command(self, ctx: Any, cmd_name: str) -> Made | None:  # noqa: ARG002  # as the base class is called
        """Return a command, made now if it was not; None where there is none of that name."""
        if cmd_name not in self._made and cmd_name in self.makers:
            self._made[cmd_name] = self.makers[cmd_name]()
        return self._made.get(cmd_name)


def makers_of(group: typer.Typer) -> dict[str, Maker]:
    """Return the table of a group's commands, to add to it."""
    cls: object = group.info.cls
    if isinstance(cls, type) and issubclass(cls, OnDemand):
        return cls.makers
    makers: dict[str, Maker] = {}
    group.info.cls = type("OnDemandOf", (OnDemand,), {"makers": makers})
    return makers


def add_groups(group: typer.Typer, modules: Mapping[str, str]) -> None:
    """Put further groups below a group.

    Args:
        group: the upper one.
        modules: name → module, whose `group` it is.
    """
    for name, module in modules.items():
        makers_of(group)[name] = _group_maker(name, module)


def add_commands(group: typer.Typer, modules: Mapping[str, str]) -> None:
    """Put single commands into a group: name → module, in whose own `group` it is registered under that name."""
    for name, module in modules.items():
        makers_of(group)[name] = _command_maker(name, module)


def single(run: Callable[..., None], name: str, cls: type[TyperCommand] | None, help_text: str | None) -> Made:
    """Make one command of a function whose signature says what its options are."""
    alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
    alone.command(name, cls=cls, help=help_text)(run)
    made = get_command(alone)
    _take_text_as_it_is(made)
    return made


class _AsItIs:
    """Takes text as text and defaults as they are; for that alone, typer would build pydantic models of all options.

    Args:
        param: the option; what is neither is left to what it had.
    """

    def __init__(self, param: Any) -> None:  # Any: typer exports no type for it
        self._usual = param.get_runtime_param
        self._kind = param.type_descriptor.annotation
        self._several = param.multiple or param.nargs == -1

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:  # Any: as typer calls it, with types of its own
        """Return the value."""
        if value is None:
            return () if self._several else None
        if self._several and self._kind == list[str] and not isinstance(value, str):
            return [str(one) for one in value]
        return value if type(value) is self._kind else self._usual().coerce(value, param=param, ctx=ctx)


def _take_text_as_it_is(command: Made) -> None:
    for param in command.params:
        _lighten(param)
    command.get_help_option = partial(_light_help, command.get_help_option)


def _light_help(usual: Callable[[Any], Any], ctx: Any) -> Any:  # Any: as typer calls it, with types of its own
    option = usual(ctx)
    if option is not None:
        _lighten(option)
    return option


def _lighten(param: Any) -> None:  # Any: typer exports no type for it
    described = param.type_descriptor
    if not (described.is_path or described.is_file or described.is_choice):
        param.get_runtime_param = partial(_the, _AsItIs(param))


def _the(plain: _AsItIs) -> _AsItIs:
    return plain


def _group_maker(name: str, module: str) -> Maker:
    def make() -> Made:
        made = get_group(import_module(module).group)
        made.name, made.rich_markup_mode = name, None
        return made

    return make


def _command_maker(name: str, module: str) -> Maker:
    return lambda: makers_of(import_module(module).group)[name]()
