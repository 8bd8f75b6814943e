"""How functions become commands, and commands a tree: options, help, wrong words, one wrapper that runs them all."""

import gc
import inspect
import re
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from functools import cache, partial
from importlib import import_module
from typing import Any, TypeAlias

import msgspec
import typer
from msgspec.structs import FieldInfo, fields
from typer.core import TyperCommand, TyperGroup

from maint.cli.boundary import foreseen, guarded
from maint.cli.options import CHOOSING, COMMON, ESTATE, Flags, Options, Said, Several, merged, output, together
from maint.cli.screen import to_stdout
from maint.cli.width import call
from maint.errors import UsageError
from maint.model.formatting import parse_duration

Made: TypeAlias = Any  # what typer builds of a command, and its context: it exports no names for them
_FEW = 2  # shared options among a command's own, examples of a group, commands named for a wrong verb
_TYPES = r"<(list)?[^>]+>"
_NAMES = {"help_option_names": ["-h", "--help"]}
_WrongUsage: type[Exception] = typer.BadParameter.__mro__[1]  # typer exports no name for all wrong usage
_LOOKS = {"output": r"-[qvy]*o(.*)|--output(?:=(.*))?", "log_format": r"--log-format(?:=(.*))?"}
_LIMIT = r"--timeout(?:=(.*))?"
_MAY_BE_EMPTY = {"value"}  # arguments that say what a thing shall be, not which


class DeclaredCommand(msgspec.Struct, frozen=True):
    """A command before typer has built it.

    Attributes:
        function: what it does; receives `Flags` and its own options, one by one or as records, and returns an exit
            code (None is 0).
        groups: the options that it shares with other commands, beside the common ones.
        outputs: what `-o` takes beside table, json and yaml.
        cls: how its words are read, where typer's own way does not do.
        several: how it goes about several sites; None where it knows one only.
        playbooks: the shipped ones that it carries out, each with the words that choose it.
    """

    function: Callable[..., int | None]
    groups: tuple[Options, ...]
    outputs: Sequence[str]
    cls: type["OwnFirst"]
    several: Several | None
    playbooks: Sequence[str]

    def build(self, name: str, example: str = "") -> Made:
        """Return the command as typer builds it, with a call of it for its help."""
        own, records = _own(self.function)
        shown, common = together(self.groups), {**COMMON, "output": output(self.outputs)}
        more = {**shown, **(ESTATE if self.several else {})}

        def run(context: typer.Context, **values: Any) -> None:  # Any: typer hands over whatever the options hold
            flags = context.obj if isinstance(context.obj, Flags) else Flags()
            shared = {key: values.pop(key) for key in (*more, *COMMON)}
            _refuse_empty(context)

            def work() -> int | None:
                said = _keyed(merged(flags, shared), command_words(context), values)
                if self.several and said.several:
                    return _for_each(said, self.several, words_of(context, {*shared}))
                _refuse_several(said)
                for key, record in records.items():
                    values[key] = record(**{name: values.pop(name) for name in record.__struct_fields__})
                try:
                    return self.function(said, **values)
                except UsageError as wrong:
                    if wrong.way_on == UsageError.otherwise:
                        wrong.hint = f"`{context.command_path} --help` shows what it takes"
                    raise

            gc.freeze()  # what is imported stays: the garbage of the work alone is looked for
            gc.enable()
            screen = merged(flags, {key: shared[key] for key in COMMON}).screen
            raise typer.Exit(guarded(screen, work, self.outputs))

        parameters = [_CONTEXT, *own, *declared(more), *declared(common)]
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # typer reads it from here
        run.__annotations__ = {one.name: one.annotation for one in parameters}
        text = inspect.getdoc(self.function)
        alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
        alone.command(name, cls=self.cls, help=text, context_settings=_NAMES)(run)
        made = typer.main.get_command(alone)
        assert isinstance(made, OwnFirst)
        made.example = example
        made.shared = (tuple(shown), tuple(COMMON))
        made.estate = tuple(ESTATE) if self.several else ()
        for param in made.params:
            if param.param_type_name == "argument":
                param.metavar = param.name.upper()
        return made


def _keyed(flags: Flags, words: Sequence[str], values: Mapping[str, object]) -> Flags:
    """Return the flags with the command's words, and what tells it from others under the same key, if there is one."""
    flags = msgspec.structs.replace(flags, command=" ".join(words))
    if not flags.run_key:
        return flags
    given = {key: value for key, value in sorted(values.items()) if value not in (None, "", []) and value is not False}
    own = [f"{key}={value!r}" for key, value in given.items()]
    asked = "\n".join([" ".join(words), flags.vc, repr(flags.connection), *own])
    return msgspec.structs.replace(flags, asked=asked)


def command(
    *groups: Options,
    outputs: Sequence[str] = (),
    cls: type["OwnFirst"] | None = None,
    several: Several | None = None,
    playbooks: Sequence[str] = (),
) -> Callable[[Callable[..., int | None]], DeclaredCommand]:
    """Make a command of a function; see `DeclaredCommand` for what the arguments are."""
    return lambda function: DeclaredCommand(function, groups, outputs, cls or OwnFirst, several, playbooks)


def _help_option(self: Made, ctx: Made) -> Made:
    """Return the option that shows a command's help: an output that takes none of it is told as everywhere."""
    found = TyperCommand.get_help_option(self, ctx)
    if found is not None:
        found.callback = _show_help
    return found


def _show_help(context: Made, _param: Made, wanted: bool) -> None:
    if wanted and not context.resilient_parsing:
        to_stdout(f"{context.get_help()}\n")
        context.exit()


class OwnFirst(TyperCommand):
    """A command whose help shows its own options first, then those that it shares with others."""

    shared: tuple[Sequence[str], Sequence[str]] = ((), ())
    estate: Sequence[str] = ()
    example = ""
    get_help_option = _help_option

    def collect_usage_pieces(self, ctx: Made) -> list[str]:
        """Return the words of the usage line: an argument that must be given stands as its name alone."""
        return [piece.replace("{", "").replace("}", "") for piece in super().collect_usage_pieces(ctx)]

    def format_options(self, ctx: Made, formatter: Made) -> None:
        """Write the options, those of a kind together."""
        _write_options(self, ctx, formatter, *self.shared, self.estate)
        _write_examples(formatter, [self.example])


def _write_options(
    command: Made, ctx: Made, formatter: Made, shared: Sequence[str], common: Sequence[str], estate: Collection[str]
) -> None:
    kinds: dict[str, list[tuple[str, str]]]
    kinds = {kind: [] for kind in ("Arguments", "Options", "Several sites", "Connection", "Common options")}
    for param in command.get_params(ctx):
        record = param.get_help_record(ctx)
        kind = "Common options" if common and param.name in (*common, "help") else "Options"
        kind = "Arguments" if param.param_type_name == "argument" else kind
        kind = "Several sites" if param.name in estate else kind
        kind = "Connection" if param.name in shared and len(shared) > _FEW else kind
        kinds[kind] += [(re.sub(_TYPES, _placeholder, record[0]), record[1])] if record else []
    for kind, records in kinds.items():
        if records:
            with formatter.section(kind):
                formatter.write_dl(records)


def _write_examples(formatter: Made, examples: Sequence[str]) -> None:
    if examples:
        with formatter.section("Example" if len(examples) == 1 else "Examples"):
            for example in examples:
                for line in call(example, formatter.width, " " * formatter.current_indent):
                    formatter.write(f"{line}\n")


def _placeholder(found: re.Match[str]) -> str:
    return "TEXT…" if found[1] else "TEXT"


class Tree(msgspec.Struct, frozen=True):
    """The whole of the command line.

    Attributes:
        nouns: the words before a group's verbs → what it is about.
        commands: the words of a command → where it is, `module:name` below `maint.cli`, how it is listed, and what
            follows its words in an example.
        before: the words of a group → the options that may stand before its verbs.
    """

    nouns: Mapping[str, str]
    commands: Mapping[str, tuple[str, str, str]]
    before: Mapping[str, Options]

    def example(self, name: str) -> str:
        """Return a call of a command, as somebody would type it."""
        return f"maint {name} {self.commands[name][2]}".strip()

    def group(self, words: str = "") -> typer.Typer:
        """Return a group of commands by its words; the program itself when there are none."""
        tree = self

        class Group(LazyGroup):
            def fill(self) -> None:
                for name, (place, listed, _) in tree.commands.items():
                    if name.rpartition(" ")[0] == words:
                        example = tree.example(name)
                        self.add_lazily(name, listed, partial(_built, place, example))
                        self.shown += [example] if words else []
                for name, listed in tree.nouns.items():
                    if name and name.rpartition(" ")[0] == words:
                        self.add_lazily(name, listed, partial(_group, tree, name))

            def elsewhere(self, verb: str) -> list[str]:
                return [name for name in tree.commands if name.rpartition(" ")[2] == verb]

        group = typer.Typer(
            cls=Group, name=words.rpartition(" ")[2] or "maint", help=self.nouns[words], no_args_is_help=True,
            add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None, context_settings=_NAMES,
        )  # fmt: skip
        group.callback()(remembering(self.before.get(words, {})))
        return group


class LazyGroup(TyperGroup):
    """A group of commands that are made when asked for: `makers` by name, `shown` their examples."""

    get_help_option = _help_option

    def __init__(self, **given: Any) -> None:  # Any: typer hands over whatever a group is made of
        super().__init__(**given)
        self.makers: dict[str, Callable[[], Made]] = {}
        self.shown = list[str]()
        self.fill()

    def main(self, *args: Any, **given: Any) -> Any:  # Any: as above
        """Run the command line; wrong usage, and what fails before a command begins, is told as every other failure."""
        words = args[0] if args else given.get("args")
        words = sys.argv[1:] if words is None else words
        if limit := _said(_LIMIT, words):
            from maint.files import wait_for_pipes  # a file may be read for what the words mean

            with suppress(ValueError):  # told where the option is read
                wait_for_pipes(parse_duration(limit))
        try:
            code = super().main(*args, **{**given, "standalone_mode": False})
        except Exception as failed:  # what fails in a command is told there
            code = _told(self, failed, words)
        raise SystemExit(code)

    def fill(self) -> None:
        """Add the commands."""

    def add_lazily(self, words: str, listed: str, make: Callable[[str], Made]) -> None:
        """Add a command: its words, how it is listed, and what makes it of its name."""
        name = words.rpartition(" ")[2]
        self.commands[name] = TyperCommand(name, help=listed)
        self.makers[name] = cache(partial(make, name))

    def format_options(self, ctx: Made, formatter: Made) -> None:
        """Write the options that may stand before a command, then the commands, and examples of the first of them."""
        _write_options(self, ctx, formatter, (), (), ESTATE)
        with formatter.section("Commands"):
            formatter.write_dl([(name, one.help or "") for name, one in self.commands.items()])
        _write_examples(formatter, self.shown[:_FEW])

    def elsewhere(self, verb: str) -> list[str]:  # noqa: ARG002  # for groups that know of others
        """Return the commands of other groups with this verb."""
        return []

    def resolve_command(self, ctx: Made, args: list[str]) -> tuple[str | None, Made, list[str]]:
        """Find the command of the words; where other nouns alone have such a verb, they are named."""
        verb = args[0]
        others = self.elsewhere(verb) if verb not in self.commands else []
        if 0 < len(others) <= _FEW:
            named = " or ".join(f"`maint {name}`" for name in others)
            raise _WrongUsage(f"No such command {verb!r}. Did you mean {named}?", ctx)
        return super().resolve_command(ctx, args)

    def get_command(self, ctx: Made, cmd_name: str) -> Made:  # noqa: ARG002  # as the base class is called
        """Return a command, None where there is none of that name."""
        return self.makers[cmd_name]() if cmd_name in self.makers else None


def _told(program: "LazyGroup", wrong: Made, words: Sequence[str]) -> int:
    """Tell what no command tells, and return its exit code; what is asked of the output counts wherever it stands."""
    screen = merged(Flags(), {name: _said(look, words) for name, look in _LOOKS.items()}).screen()
    failure = None if isinstance(wrong, _WrongUsage) else foreseen(wrong)
    if failure is not None:
        screen.error(failure)
        return failure.exit_code
    message = wrong.format_message()
    helped = "\n" in message  # a group without a verb shows its help
    if helped and not screen.to_systemd and "json" not in (screen.output, screen.log_format):
        wrong.show()
    else:
        path = wrong.ctx.command_path if wrong.ctx else _command_in(program, words)  # one that lacks its value has none
        screen.error(UsageError("Missing command." if helped else message, hint=f"`{path} --help`"))
    return UsageError.exit_code


def _command_in(program: Made, words: Sequence[str]) -> str:
    """Return the command that a call is of, as far as its words name one."""
    found = ["maint"]
    for start in range(len(words)):  # what is given to an option may be a command's name, too
        group, path = program, ["maint"]
        for word in words[start:]:
            if isinstance(group, LazyGroup) and (inner := group.get_command(None, word)) is not None:
                group, path = inner, [*path, word]
        found = max(found, path, key=len)
    return " ".join(found)


def _said(option: str, words: Sequence[str]) -> str:
    """Return the value of an option in a call that could not be read; empty where it is not there."""
    value = ""
    for word, then in zip(words, [*words, ""][1:], strict=True):
        if word == "--":
            break
        if found := re.fullmatch(option, word):
            value = next(filter(None, found.groups()), then)
    return value


def _built(place: str, example: str, name: str) -> Made:
    return loaded(place).build(name, example)


def _group(tree: Tree, words: str, name: str) -> Made:
    made = typer.main.get_command(tree.group(words))
    made.name = name
    return made


def loaded(place: str) -> DeclaredCommand:
    """Return the command at `module:name` below `maint.cli`."""
    module, _, name = place.partition(":")
    found = getattr(import_module(f"maint.cli.{module}"), name)
    assert isinstance(found, DeclaredCommand), f"{place} is not a command"
    return found


def remembering(options: Options) -> Callable[..., None]:
    """Return what keeps the options that stood before a noun or a verb, for the command that follows."""

    def remember(context: typer.Context, **values: Any) -> None:  # Any: typer hands over whatever the options hold
        before = context.obj if isinstance(context.obj, Flags) else Flags()
        context.obj = merged(before, {key: value for key, value in values.items() if key in Flags.__struct_fields__})

    parameters = [_CONTEXT, *declared(options)]
    remember.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # typer reads it from here
    remember.__annotations__ = {one.name: one.annotation for one in parameters}
    return remember


def declared(options: Options) -> list[inspect.Parameter]:
    """Return options as parameters of a signature."""
    return [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default)
        for name, (annotation, default) in options.items()
    ]


_CONTEXT = inspect.Parameter("context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)


def _own(function: Callable[..., int | None]) -> tuple[list[inspect.Parameter], dict[str, type[msgspec.Struct]]]:
    """Return a function's own options: its parameters without the flags; a record stands for its fields."""
    found, records = list[inspect.Parameter](), dict[str, type[msgspec.Struct]]()
    for one in list(inspect.signature(function, eval_str=True).parameters.values())[1:]:
        if isinstance(one.annotation, type) and issubclass(one.annotation, msgspec.Struct):
            records[one.name] = one.annotation
            found += declared({field.name: (field.type, _default(field)) for field in fields(one.annotation)})
        else:
            found.append(one.replace(kind=inspect.Parameter.KEYWORD_ONLY))
    return found, records


def _default(field: FieldInfo) -> object:
    if field.default_factory is not msgspec.NODEFAULT:
        return field.default_factory()
    return inspect.Parameter.empty if field.required else field.default


def _for_each(flags: Flags, several: Several, said: Said) -> int:
    from maint.cli.estate.for_each import for_each  # few calls are for several sites

    return for_each(flags, several, said)


def _refuse_several(flags: Flags) -> None:
    if flags.several:
        raise UsageError(
            "this command works on one site", detail=[f"--site {name}" for name in flags.sites], hint="name one of them"
        )


def command_words(context: Made) -> list[str]:
    """Return the words of a command, however the program itself was called."""
    names, above = list[str](), context
    while above.parent is not None:
        names.insert(0, above.info_name)
        above = above.parent
    return names


def words_of(context: Made, leave: Collection[str]) -> Said:
    """Return the words of a call: the command's, and those of its own that were said, without shared options."""
    given: dict[str, list[str]] = {}
    for param in context.command.params:
        source, value = context.get_parameter_source(param.name), context.params.get(param.name)
        if param.name in leave or source is None or source.name != "COMMANDLINE" or value is None:
            continue
        values = list(value) if isinstance(value, list | tuple) else [value]
        if param.param_type_name == "argument":
            given[param.name] = ["--", *map(str, values)]
        elif isinstance(value, bool):
            given[param.name] = [param.opts[0] if value else param.secondary_opts[0]]
        else:
            given[param.name] = [f"{param.opts[0]}={one}" for one in values]
    return Said(command_words(context), dict(sorted(given.items(), key=lambda one: "--" in one[1])))


def _refuse_empty(context: Made) -> None:
    """Refuse an empty word where one chooses what is acted on, exit 2."""
    for param in context.command.params:
        argument, value = param.param_type_name == "argument", context.params.get(param.name)
        given = [value] if argument or not isinstance(value, list | tuple) else value
        empty = any(isinstance(one, str) and not one.strip(" \t,") for one in given)
        source = context.get_parameter_source(param.name)
        chooses = (argument and param.name not in _MAY_BE_EMPTY) or CHOOSING & {*param.opts}
        if empty and chooses and source is not None and source.name == "COMMANDLINE":
            way = "say which is meant" if param.required else "leave it out, or say which is meant"
            raise typer.BadParameter(f"it is empty; {way}", ctx=context, param=param)
