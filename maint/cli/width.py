"""Fit what people read to the width of their terminal: tables, lines, pages of the help."""

import os
import re
import shutil
import sys
from collections.abc import Iterator, Sequence

# What is quoted stays on one line, such as a command between backquotes.
_WORD = re.compile(r"""(?:`[^`]+`|(?<!\w)'[^'\s][^']*'|(?<!\w)"[^"]*"|\S)+""")
_WHOLE = re.compile(r"://|SHA256:|[A-Za-z0-9]{50}")  # in addresses, fingerprints and keys
_AFTER = re.compile(r".*[/,._:@|-]", re.DOTALL)  # where a word that is too long is parted
_LEAST = 8  # characters of a column
_NARROW = 16  # characters of a column in which nothing is indented
_TABULAR = 60  # characters of a terminal, below which a table whose words have no room is told in blocks
_BESIDE = 25  # characters, at least, of what a listing says beside a name
_HANG = 2  # spaces before what goes on
_TABLE, _FENCE = "|", "```"
_CELLS = re.compile(r"(?<!\\)\|")
_ITEM = re.compile(r"(- |\d+\. )")
_REMARK = re.compile(r"^( *)(\S.*?) +(# .+)$")
_GAP = re.compile(r".*\S {2,}(?=\S)")
STAYS = "\0"  # a blank in a table at which no line ends
_OPTION = re.compile(r"(--[\w-]+) (?![-\[])")  # an option and its value stay together
_LABEL = re.compile(r" *(?:\d+\. )?(?:READ|CHANGE|DESTROY) +(?=\S)|.{0,20}\S {2,}(?=\S)")  # an effect, or a gap
_CODE = " " * 4
_COMMANDS = ("maint ", "export ")


def columns() -> int | None:
    """Return how wide a line may be: `COLUMNS`, else the terminal's width; None where a program reads along."""
    if os.environ.get("COLUMNS", "").isdigit() or sys.stdout.isatty():
        return max(shutil.get_terminal_size().columns, _LEAST)
    return None


def folded(text: str, width: int | None, *, whole: str = "") -> str:
    """Return a text with its long lines broken between words; what goes on stands below what its label is about.

    Args:
        whole: what is quoted by it is never parted, and neither is a line that is a command.
    """
    if width is None:
        return text
    return "\n".join(part for line in text.split("\n") for part in _parts(line, width, whole))


def _parts(line: str, width: int, whole: str) -> list[str]:
    if len(line) <= width or (whole and line.lstrip().startswith(_COMMANDS)):
        return [line]
    label = _LABEL.match(line)
    first = label[0] if label else " " * (len(line) - len(line.lstrip()))
    return _filled(line[len(first) :], width, first, " " * (len(first) + (0 if label else _HANG)), whole=whole)


def _filled(text: str, width: int, first: str, then: str, *, whole: str = "") -> list[str]:
    """Return a text as lines: how the first begins, and how the others do; what is quoted by `whole` is not parted."""
    lines, line = list[str](), first
    for word in _WORD.findall(text):
        for piece in [word] if len(then) + len(word) <= width or {*whole} & {*word} else word.split():
            if len(line) > len(then if lines else first) and len(line) + 1 + len(piece) > width:
                lines.append(line)
                line = then
            line += f" {piece}" if len(line) > len(then if lines else first) else piece
    return [*lines, line]


def fitted(rows: Sequence[Sequence[str]], width: int | None, rule: bool = False) -> str:
    """Return rows in columns as wide as they need, or as the width has room for; else each as a block of `NAME: value`.

    Args:
        rows: the headings, then what is listed.
        rule: a line under the first; without one it is a listing, whose commands between backquotes are never parted.
    """
    natural = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    least = [max((len(word) for row in rows for word in row[at].split()), default=0) for at in range(len(natural))]
    between, whole = 2 * (len(natural) - 1), "" if rule else "`"
    if width is not None and len(rows) > 1 and width < min(_TABULAR, sum(least) + between):
        return "\n".join(_blocks(rows, width)).replace(STAYS, " ")
    widths = natural if width is None else _widths(natural, least, width - between)
    lines = [line for row in rows for line in _row(row, widths, whole)]
    if rule:
        under = len(_row(rows[0], widths))
        lines.insert(under, "  ".join("-" * one for one in widths))
    return "\n".join(lines).replace(STAYS, " ")


def _blocks(rows: Sequence[Sequence[str]], width: int) -> Iterator[str]:
    """Yield a row as what names it, and below that the rest by its headings, but for empty cells."""
    for first, *cells in rows[1:]:
        yield from _cell(first, width, "`")
        for name, text in zip(rows[0][1:], cells, strict=True):
            said = f"{name}: {text}" if len(cells) > 1 else text
            yield from (" " * _HANG + line for line in _cell(said, width - _HANG, "`") if text)


def _widths(natural: Sequence[int], least: Sequence[int], room: int) -> Sequence[int]:
    """Return how wide each column is to be: no word is parted where that can be, and the longest cells get the rest."""
    if sum(natural) <= room or room < _LEAST * len(natural):
        return natural
    widths = [min(whole, max(word + _hang(word), _LEAST)) for whole, word in zip(natural, least, strict=True)]
    while sum(widths) > room:  # what names a row stays whole where it leaves the others half the room
        others = widths[1:] if widths[0] <= room // 2 and max(widths[1:], default=0) > _LEAST else widths
        widths[len(widths) - len(others) + others.index(max(others))] -= 1
    while sum(widths) < room:
        widths[max(range(len(widths)), key=lambda at: natural[at] / max(widths[at], 1))] += 1
    return widths


def _row(row: Sequence[str], widths: Sequence[int], whole: str = "") -> list[str]:
    """Return a row as lines; what is too long for its column and stays whole has the rest of its line to itself."""
    lines, begin = list[str](), 0
    for text, width in zip(row, widths, strict=True):
        at = 0
        for part in _cell(text, width, whole):
            while at < len(lines) and begin and len(lines[at]) > begin - 2:
                at += 1
            lines += [""] * (at + 1 - len(lines))
            lines[at] = (lines[at].ljust(begin) + part).rstrip()
            at += 1
        begin += width + 2
    return lines


def _cell(text: str, width: int, whole: str = "") -> list[str]:
    if len(text) <= width:
        return [text]
    lines = _filled(text, width, "", " " * _hang(width), whole=whole)
    return [part for line in lines for part in ([line] if {*whole} & {*line} else _cut(line, width))]


def _hang(width: int) -> int:
    """Return how far what goes on in a column is indented."""
    return _HANG if width >= _NARROW else 0


def _cut(line: str, width: int) -> Iterator[str]:
    """Yield a line whose one word is too long in parts, each but the last ending where names have a joint.

    What is copied, such as an address or a key, stays whole.
    """
    while len(line) > width and not _WHOLE.search(line):
        joint = _AFTER.match(line[:width])
        at = joint.end() if joint and joint.end() > width // 2 else width
        yield line[:at]
        line = " " * _hang(width) + line[at:].lstrip()
    yield line


def page(text: str, width: int) -> str:
    """Return a page of the help as it is shown: paragraphs, lists and tables at a width, code as it stands.

    In code a remark that has no room stands above its line, a call of ours goes on behind a backslash, and what a
    listing says goes on below itself.
    """
    return "\n".join(_page(text.split("\n"), width))


def _page(lines: Sequence[str], width: int) -> Iterator[str]:
    at = 0
    while at < len(lines):
        end = at + 1
        if lines[at].startswith(_FENCE):
            end = lines.index(_FENCE, at + 1) + 1
            yield from lines[at:end]
        elif lines[at].startswith(_CODE):
            yield from _code(lines[at], width)
        elif lines[at].startswith(_TABLE):
            while end < len(lines) and lines[end].startswith(_TABLE):
                end += 1
            yield fitted(_cells(lines[at:end]), width, rule=True)
        elif not lines[at] or lines[at].startswith("#"):
            yield lines[at]
        else:
            while end < len(lines) and lines[end] and not _begins(lines[end]):
                end += 1
            yield from _paragraph(lines[at:end], width)
        at = end


def _paragraph(lines: Sequence[str], width: int) -> list[str]:
    """Return a paragraph, or an item of a list, whose further lines stand below its first word."""
    indent, item = len(lines[0]) - len(lines[0].lstrip()), _ITEM.match(lines[0].lstrip())
    then = " " * (indent + (len(item[1]) if item else 0))
    return _filled(" ".join(line.strip() for line in lines), width, " " * indent, then)


def _begins(line: str) -> bool:
    return line.startswith((_TABLE, _FENCE, "#")) or _ITEM.match(line.lstrip()) is not None


def _cells(lines: Sequence[str]) -> list[list[str]]:
    """Return the cells of a table, without the line below its head."""
    rows = [[cell.strip().replace("\\|", "|") for cell in _CELLS.split(line)[1:-1]] for line in lines]
    return [rows[0], *rows[2:]]


def _code(line: str, width: int) -> list[str]:
    if len(line) <= width:
        return [line]
    if remark := _REMARK.match(line):
        return [*_filled(remark[3], width, remark[1], f"{remark[1]}# "), *_code(remark[1] + remark[2], width)]
    if line.startswith(f"{_CODE}maint "):
        return call(line.strip(), width, _CODE)
    gap = _GAP.match(line)
    if gap and gap.end() <= width - _BESIDE:
        said = _cell(line[gap.end() :], width - gap.end())
        return [line[: gap.end()] + said[0], *(" " * gap.end() + one for one in said[1:])]
    return [line]


def call(text: str, width: int, indent: str) -> list[str]:
    """Return a call of ours as lines that can be copied: an option and its value stay together."""
    more = "" if " [" in text else " \\"  # the square brackets of a usage line are not to be copied
    words = _OPTION.sub(f"\\1{STAYS}", text)
    filled = _filled(words, width - len(more), indent, indent + _CODE, whole="'\"")
    lines = [one.replace(STAYS, " ") for one in filled]
    return [*(f"{one}{more}" for one in lines[:-1]), lines[-1]]
