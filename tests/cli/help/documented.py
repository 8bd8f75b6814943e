"""The code blocks of README and help pages: where they are, which are marked as not run and why, and their commands."""

import re
from dataclasses import dataclass
from pathlib import Path

from tests.house.source import PACKAGE, ROOT

PAGES = [ROOT / "README.md", *(path for path in sorted((PACKAGE / "help").glob("*.md")) if path.name != "README.md")]
_MARK = re.compile(r"<!-- (not run|ends with|taken as): (.+) -->")
_PROMPT = "$ "
# What differs from run to run, and what it reads as in a comparison.
_FOLDS = (
    (re.compile(r"\d{8}T\d{6}\.\d{3}Z-[0-9a-f]{4}"), "ID"),
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"), "TIME"),
    (re.compile(r"\b\d{4}-\d\d-\d\d\b"), "DATE"),
    (re.compile(r"\b\d\d:\d\d(?= UTC)"), "TIME"),
    (re.compile(r"\d+(\.\d+)?(ms|s|m|h)( \d+s)?\b"), "DURATION"),
    (re.compile(r"\d+(\.\d+)? (B|kB|MB|GB)\b"), "SIZE"),
    (re.compile(r"(?<=127\.0\.0\.1:)\d+|(?<=127\.0\.0\.1  )\d+"), "PORT"),
    (re.compile(r"[ \t]+"), " "),
)


@dataclass(frozen=True)
class Block:
    """A code block.

    Attributes:
        place: page and line.
        reason: why it is not run, "" where nobody says so.
        ends: the exit codes that its last command may have.
        taken_as: what kind of file it is, where it is one that is read: config, playbook, steps, test, toml or python.
    """

    place: str
    lines: tuple[str, ...]
    reason: str = ""
    ends: tuple[int, ...] = (0,)
    taken_as: str = ""

    @property
    def commands(self) -> list[tuple[str, list[str]]]:
        """The commands, without what a remark says of them, each with the output that is shown for it."""
        found: list[tuple[str, list[str]]] = []
        prompted = any(line.startswith(_PROMPT) for line in self.lines)
        for line in filter(None, self.lines):
            if not prompted or line.startswith(_PROMPT):
                found.append((re.split(r" +#(?= )", line.removeprefix(_PROMPT))[0].strip(), []))
            elif found:
                found[-1][1].append(line)
        return found

    @property
    def can_run(self) -> bool:
        """Whether every line is a command of ours."""
        return all(words.startswith("maint ") for words, _ in self.commands)


def blocks(page: Path) -> list[Block]:
    """Return the code blocks of a page, indented ones and those between fences."""
    lines, found, at = page.read_text().splitlines(), list[Block](), 0
    while at < len(lines):
        if lines[at].startswith("```"):
            end = lines.index("```", at + 1)
            kind = lines[at].removeprefix("```")
            found.append(_block(page, lines, at, lines[at + 1 : end], kind))
            at = end + 1
            continue
        end = at
        while end < len(lines) and (
            lines[end].startswith("    ")
            or (end > at and not lines[end] and "".join(lines[end + 1 : end + 2]).startswith("    "))
        ):
            end += 1
        if end == at or (at and lines[at - 1].strip()):
            at = max(end, at + 1)
            continue
        found.append(_block(page, lines, at, [line[4:] for line in lines[at:end]]))
        at = end
    return found


def _block(page: Path, lines: list[str], at: int, text: list[str], kind: str = "") -> Block:
    """Return the block that begins at a line; what the mark above it says comes before the kind beside its fence."""
    mark = next((_MARK.match(line) for line in reversed(lines[:at]) if line.strip()), None)
    said = {mark[1]: mark[2]} if mark else {}
    ends = tuple(map(int, re.findall(r"\d+", said["ends with"].partition(";")[0]))) if "ends with" in said else (0,)
    reason, taken_as = said.get("not run", ""), said.get("taken as", "" if "not run" in said else kind)
    return Block(f"{page.relative_to(ROOT)}:{at + 1}", tuple(text), reason, ends, taken_as)


def folded(text: str) -> list[str]:
    """Return lines of output without what differs from run to run."""
    for pattern, word in _FOLDS:
        text = pattern.sub(word, text)
    return [line.strip() for line in text.splitlines() if line.strip()]
