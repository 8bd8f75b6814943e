"""The server's options file: add one Java property to CMF_JAVA_OPTS, and take exactly that away (M7.1)."""

import re
from collections.abc import Iterator

UNIT = "cloudera-scm-server"
PATH = "/etc/default/cloudera-scm-server"
PROPERTY = "-Dcom.cloudera.api.redaction"
LINE = f'export CMF_JAVA_OPTS="${{CMF_JAVA_OPTS}} {PROPERTY}=false"'
_VALUE = rb"-Dcom\.cloudera\.api\.redaction=(\w+)"


def redaction_is_off(content: bytes) -> bool:
    """Whether the file as it stands already switches redaction off: the last value on a line in force wins."""
    values = [
        match.group(1)
        for line in _joined(content).split(b"\n")
        if not line.lstrip().startswith(b"#")
        for match in re.finditer(_VALUE, line)
    ]
    return bool(values) and values[-1].lower() == b"false"


def opened(content: bytes) -> bytes:
    """Return the file with redaction switched off by one more line at its end: Java believes the last value."""
    gap = b"" if not content or content.endswith(b"\n") else b"\n"
    if content.rstrip(b"\n").endswith(b"\\"):
        gap += b"\n"  # the last line wants to be continued: an empty one ends it
    return content + gap + LINE.encode() + b"\n"


def closed(content: bytes) -> bytes:
    """Return a file that somebody else has edited meanwhile, without the line that `opened` added.

    Where something was added to that very line, it stays.
    """
    ours, property_ = LINE.encode(), f" {PROPERTY}=false".encode()
    lines = (line for line in content.split(b"\n") if line.strip() != ours)
    begun = ours.removesuffix(b'"') + b" "
    return b"\n".join(line.replace(property_, b"", 1) if line.lstrip().startswith(begun) else line for line in lines)


def closings(content: bytes) -> Iterator[bytes]:
    """Yield what the file may have been before `opened`: one of them has the digest that it had."""
    for end in (b"", b"\n", b"\n\n"):
        line = end + LINE.encode() + b"\n"
        if content.endswith(line):
            yield content.removesuffix(line)


def _joined(content: bytes) -> bytes:
    # Continued lines put together.
    return content.replace(b"\\\n", b" ")
