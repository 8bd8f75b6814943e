"""Read CMF_JAVA_OPTS from the server's defaults file as a shell and java would (contract section 7.1)."""

import re

_ASSIGNMENT = re.compile(r"(?:export\s+)?([A-Za-z_]\w*)=(.*)", re.DOTALL)
_VARIABLE = re.compile(r"\$(?:\{(\w+)(?::?-([^}]*))?\}|(\w+))")
REDACTION = "com.cloudera.api.redaction"


def java_options(text: str, variable: str = "CMF_JAVA_OPTS") -> list[str]:
    """Return the words of a variable after the file has been read from top to bottom."""
    values: dict[str, str] = {}
    for line in _logical_lines(text):
        for assignment in _assignments(line):
            found = _ASSIGNMENT.fullmatch(assignment)
            if found:
                values[found[1]] = _value(found[2], values)
    return values.get(variable, "").split()


def redaction_property(text: str) -> bool | None:
    """Return what the file says about redaction, None where it does not; the last -D wins."""
    said = None
    for option in java_options(text):
        name, _, value = option.removeprefix("-D").partition("=")
        if option.startswith("-D") and name == REDACTION:
            said = value.lower() == "true"
    return said


def _logical_lines(text: str) -> list[str]:
    lines: list[str] = []
    current, quoted, index = "", "", 0
    while index < len(text):
        letter = text[index]
        if letter == "\\" and quoted != "'" and index + 1 < len(text):
            current += "" if text[index + 1] == "\n" else text[index : index + 2]
            index += 2
            continue
        if not quoted and letter == "#" and (not current or current[-1] in " \t;"):
            index = text.find("\n", index) if "\n" in text[index:] else len(text)
            continue
        if letter in "\"'" and quoted in ("", letter):
            quoted = "" if quoted else letter
        if letter in "\n;" and not quoted:
            lines.append(current.strip())
            current = ""
        else:
            current += letter
        index += 1
    return [line for line in [*lines, current.strip()] if line]


def _assignments(line: str) -> list[str]:
    """Return the words of a line that consists of assignments only; [] for any other command."""
    words = _words(line)
    if words and words[0] == "export":
        words = words[1:]
    return words if all(_ASSIGNMENT.fullmatch(word) for word in words) else []


def _words(line: str) -> list[str]:
    return re.findall(r"""(?:[^\s"'\\]|\\.|"(?:[^"\\]|\\.)*"|'[^']*')+""", line, re.DOTALL)


def _value(raw: str, values: dict[str, str]) -> str:
    parts = re.findall(r"""'[^']*'|"(?:[^"\\]|\\.)*"|(?:[^"'\\]|\\.)+""", raw, re.DOTALL)
    return "".join(_part(part, values) for part in parts)


def _part(part: str, values: dict[str, str]) -> str:
    if part.startswith("'"):
        return part[1:-1]
    inner = part[1:-1] if part.startswith('"') else part
    expanded = _VARIABLE.sub(lambda found: values.get(found[1] or found[3], found[2] or ""), inner)
    return re.sub(r"\\(.)", r"\1", expanded)
