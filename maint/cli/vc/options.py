"""Options that Typer does not know: numbered ones, and a flag whose value may be left out."""

import re
from collections.abc import Collection, Iterator, Sequence
from typing import Any

from typer.core import TyperCommand

from maint.cli.vc.payloads import YES_NO
from maint.errors import UsageError

_NUMBERED = re.compile(r"-{2}mount-(\d{1,3})-(resource|prefix)(?:=(.*))?", re.DOTALL)
_DECLARED = {"resource": "--mount-N-resource", "prefix": "--mount-N-prefix"}
_OPTIONAL = "--schedule-enabled"


class ClientCommand(TyperCommand):
    """A command with `--mount-N-resource` and `--mount-N-prefix` for any N, and `--schedule-enabled[=true]`.

    It declares them as repeatable options named with the letter N, whose values arrive as `number=value`.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # Any: Typer's own Context, which it does not export
        """Bring the options into the form in which they are declared."""
        valued = {
            text
            for option in self.params
            if not getattr(option, "is_flag", True)
            for text in getattr(option, "opts", ())
        }
        return list(super().parse_args(ctx, list(declared(args, valued))))


def declared(words: Sequence[str], valued: Collection[str]) -> Iterator[str]:
    """Yield the words of a command line with its special options as they are declared.

    Args:
        words: what was typed.
        valued: the options that take the word after them, whatever it looks like.
    """
    rest = iter(words)
    for word in rest:
        numbered = _NUMBERED.fullmatch(word)
        if word == "--":
            yield word
            yield from rest
        elif numbered:
            number, kind, value = numbered.groups()
            yield _DECLARED[kind]
            value = next(rest, None) if value is None else value
            if value is not None:
                yield f"{number}={value}"
        elif word == _OPTIONAL:
            following = next(rest, None)
            answers = following is not None and following.lower() in YES_NO
            yield f"{_OPTIONAL}={following if answers else 'true'}"
            if following is not None and not answers:
                yield from declared([following, *rest], valued)
        elif word in valued:
            yield word
            yield from (value for value in [next(rest, None)] if value is not None)
        else:
            yield word


def numbered(values: Sequence[str] | None) -> dict[int, str]:
    """Return `number=value` pairs by number.

    Raises:
        UsageError: a number is given twice.
    """
    found: dict[int, str] = {}
    for text in values or ():
        number, _, value = text.partition("=")
        if not number.isdigit():
            raise UsageError(f"{text!r} has no number", hint="such as --mount-1-resource NAME")
        if int(number) in found:
            raise UsageError(f"mount {number} is given twice", hint="number the mounts 1, 2, 3, …")
        found[int(number)] = value
    return found
