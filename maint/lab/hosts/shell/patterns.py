"""Shell patterns: `*`, `?`, `[…]`, where a backslash takes the meaning from the next character."""

import re
from functools import lru_cache

from maint.lab.hosts.shell.tree import Tree

_MAGIC = "*?["
CLASSES = {
    "alpha": "a-zA-Z",
    "digit": "0-9",
    "alnum": "a-zA-Z0-9",
    "space": r"\s",
    "blank": r" \t",
    "upper": "A-Z",
    "lower": "a-z",
    "xdigit": "0-9A-Fa-f",
    "punct": r"!-/:-@\[-`{-~",
    "cntrl": r"\x00-\x1f\x7f",
    "print": " -~",
    "graph": "!-~",
}


def escape(text: str) -> str:
    """Return a pattern that matches a text and nothing else."""
    return "".join("\\" + char if char in "*?[]\\!-" else char for char in text)


def unescape(pattern: str) -> str:
    """Return the text of a pattern whose magic is not wanted."""
    return re.sub(r"\\(.)", r"\1", pattern, flags=re.DOTALL)


def is_magic(pattern: str) -> bool:
    """Return whether a pattern can match anything but one text."""
    return any(char in _MAGIC for char in re.sub(r"\\.", "", pattern, flags=re.DOTALL))


@lru_cache(maxsize=512)
def regex(pattern: str, *, shortest: bool = False) -> "re.Pattern[str]":
    """Return a pattern as a regular expression without anchors."""
    done, at = "", 0
    lazy = "?" if shortest else ""
    while at < len(pattern):
        char = pattern[at]
        at += 1
        if char == "\\" and at < len(pattern):
            done += re.escape(pattern[at])
            at += 1
        elif char == "*":
            done += ".*" + lazy
        elif char == "?":
            done += "."
        elif char == "[" and (found := bracket(pattern, at)):
            done += found[0]
            at = found[1]
        else:
            done += re.escape(char)
    return re.compile(done, re.DOTALL)


def bracket(pattern: str, at: int) -> tuple[str, int] | None:
    """Return the set that begins after a `[` and where it ends, or None where there is no end."""
    start, inside = at, ""
    negated = pattern[at : at + 1] in ("!", "^")
    at += negated
    first = at
    while at < len(pattern) and (pattern[at] != "]" or at == first):
        named = re.match(r"\[:(\w+):\]", pattern[at:])
        if named and named[1] in CLASSES:
            inside += CLASSES[named[1]]
            at += len(named[0])
            continue
        if pattern[at] == "\\" and at + 1 < len(pattern):
            at += 1
            inside += re.escape(pattern[at])
        else:
            inside += "-" if pattern[at] == "-" else re.escape(pattern[at])
        at += 1
    if at >= len(pattern) or at == start:
        return None
    return f"[{'^' if negated else ''}{inside}]", at + 1


def matches(pattern: str, text: str) -> bool:
    """Return whether a pattern matches the whole text."""
    return regex(pattern).fullmatch(text) is not None


def glob(tree: Tree, cwd: str, pattern: str) -> list[str]:
    """Return the sorted paths that a pattern matches; relative ones where it is relative."""
    parts = pattern.split("/")
    found = [""]
    for place, part in enumerate(parts):
        last = place == len(parts) - 1
        found = [path for base in found for path in _step(tree, cwd, base, part, place == 0, last)]
    return sorted(found)


def _step(tree: Tree, cwd: str, base: str, part: str, first: bool, last: bool) -> list[str]:
    if not is_magic(part):
        path = base + unescape(part)
        keep = last and (not part or tree.exists(_absolute(cwd, path), follow=False))
        return ([path] if keep else []) if last else [path + "/"]
    folder = _absolute(cwd, base) if base else ("/" if first and cwd == "/" else cwd)
    try:
        names = tree.names(folder)
    except OSError:
        return []
    visible = [n for n in names if matches(part, n) and (not n.startswith(".") or part.startswith("."))]
    if last:
        return [base + name for name in visible]
    return [f"{base}{n}/" for n in visible if _is_folder(tree, _absolute(cwd, base + n))]


def _is_folder(tree: Tree, path: str) -> bool:
    return tree.exists(path) and tree.entry(path).is_folder


def _absolute(cwd: str, path: str) -> str:
    return path if path.startswith("/") else f"{cwd.rstrip('/')}/{path}"
