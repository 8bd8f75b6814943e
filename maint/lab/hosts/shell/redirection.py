"""Open what a command is redirected to, and put things back afterwards."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from maint.lab.hosts.shell.call import Failed
from maint.lab.hosts.shell.expansion import Expander
from maint.lab.hosts.shell.state import State, Stream
from maint.lab.hosts.shell.syntax import Redirection
from maint.lab.hosts.shell.tree import Tree

_FLAGS = {
    "<": os.O_RDONLY,
    ">": os.O_WRONLY | os.O_CREAT | os.O_TRUNC,
    ">>": os.O_WRONLY | os.O_CREAT | os.O_APPEND,
}


@contextmanager
def redirected(
    state: State, tree: Tree, expander: Expander, redirections: tuple[Redirection, ...], *, keep: bool = False
) -> Iterator[None]:
    """Redirect for the length of the block, or for good (`keep`, for `exec`); Failed where a file cannot be opened."""
    if not redirections:
        yield
        return
    before, opened = dict(state.streams), list[Stream]()
    try:
        for redirection in redirections:
            stream = _opened(state, tree, expander, redirection, opened)
            if stream is None:
                state.streams.pop(redirection.fd, None)
            else:
                state.streams[redirection.fd] = stream
        yield
    finally:
        if not keep:
            state.streams.clear()
            state.streams.update(before)
            for stream in opened:
                stream.close()


def _opened(
    state: State, tree: Tree, expander: Expander, redirection: Redirection, opened: list[Stream]
) -> Stream | None:
    text = expander.text(redirection.target)
    if redirection.operator in ("<&", ">&"):
        return _duplicated(state, text)
    stream = _open(state, tree, text, redirection.operator)
    opened.append(stream)
    return stream


def _duplicated(state: State, number: str) -> Stream | None:
    if number == "-":
        return None
    if not number.isdigit() or int(number) not in state.streams:
        raise Failed(f"{number}: bad fd number", 2)
    return state.streams[int(number)]


def _open(state: State, tree: Tree, text: str, operator: str) -> Stream:
    path = state.path(text)
    try:
        if "C" in state.options and operator == ">" and tree.exists(path) and tree.entry(path).is_file:
            raise Failed(f"cannot create {text}: File exists", 2)
        return tree.open(path, _FLAGS[operator], 0o666 & ~state.umask)
    except OSError as error:
        verb = "open" if operator == "<" else "create"
        reason = {"No such file or directory": "No such file" if verb == "open" else "Directory nonexistent"}
        said = error.strerror or ""
        raise Failed(f"cannot {verb} {text}: {reason.get(said, said)}", 2) from None
