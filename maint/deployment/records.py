"""The elements that a deployment is mostly made of, decoded as whole lists: roles, config groups, config items.

Nine tenths of a large export are such lists. Decoding one at once is ten times as fast as following its events, and
says as much: a list is only taken when nothing in it is unknown. Whatever else comes is left to the events.
"""

from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple, TypeAlias, cast

import msgspec
from msgspec import UNSET, Struct
from msgspec import UnsetType as UnsetType  # for whoever asks what is left out

# A field that the document leaves out is UNSET, which is false; null is None.
Text: TypeAlias = str | UnsetType | None
Flag: TypeAlias = bool | UnsetType | None


# gc=False: they hold no circles, and there are very many of them for a moment.
class Item(Struct, gc=False, forbid_unknown_fields=True):
    """A config item; flagged from API 14 on."""

    name: Text = UNSET
    value: Text = UNSET
    sensitive: Flag = UNSET


class Config(Struct, gc=False, forbid_unknown_fields=True):
    """A list of config items."""

    items: list[Item] | UnsetType = UNSET


class HostRef(Struct, gc=False, forbid_unknown_fields=True):
    """The host that a role stands on."""

    hostId: Text = UNSET
    hostname: Text = UNSET


class GroupRef(Struct, gc=False, forbid_unknown_fields=True):
    """The config group that a role belongs to."""

    roleConfigGroupName: Text = UNSET


class Role(Struct, gc=False, forbid_unknown_fields=True):
    """A role of a service."""

    name: Text = UNSET
    type: Text = UNSET
    hostRef: HostRef | UnsetType = UNSET
    config: Config | UnsetType = UNSET
    roleConfigGroupRef: GroupRef | UnsetType = UNSET


class ServiceRef(Struct, gc=False, forbid_unknown_fields=True):
    """The service that a config group belongs to."""

    clusterName: Text = UNSET
    serviceName: Text = UNSET


class Group(Struct, gc=False, forbid_unknown_fields=True):
    """A config group of a service."""

    name: Text = UNSET
    displayName: Text = UNSET
    roleType: Text = UNSET
    base: Flag = UNSET
    serviceRef: ServiceRef | UnsetType = UNSET
    config: Config | UnsetType = UNSET


class Host(Struct, gc=False, forbid_unknown_fields=True):
    """A host of the manager."""

    hostId: Text = UNSET
    ipAddress: Text = UNSET
    hostname: Text = UNSET
    rackId: Text = UNSET
    config: Config | UnsetType = UNSET


class _Label(Struct, gc=False):
    """What a role or group is known by, where nothing else takes part in that (see `flatten.identity`)."""

    name: Annotated[str, msgspec.Meta(max_length=1000)]
    product: None = None
    hostId: None = None
    clusterRef: None = None


class _HostLabel(Struct, gc=False):
    """What a host is known by."""

    name: Annotated[str, msgspec.Meta(max_length=1000)] = msgspec.field(name="hostId")
    product: None = None
    clusterRef: None = None


class _Name(Struct, gc=False):
    name: str


class _Names(Struct, gc=False):
    items: list[_Name]


class _Named(Struct, gc=False):
    """The names of an element's settings."""

    config: _Names


class Unparsed(NamedTuple):
    """A role or group of which only the name was read; that it is JSON has been seen."""

    kind: bytes
    name: str
    content: bytes


class Unsplit:
    """A list of roles, groups or hosts of which nothing was read; that it is JSON has been seen.

    Attributes:
        kind: the name of the field that holds it.
        content: the whole list.
        pieces: its elements, as places in `content`.
    """

    __slots__ = ("content", "kind", "pieces")

    def __init__(self, kind: bytes, content: bytes, pieces: Sequence[msgspec.Raw]) -> None:
        self.kind = kind
        self.content = content
        self.pieces = pieces

    def let_go(self) -> None:
        """Hold nothing any more."""
        self.content, self.pieces = b"", ()


Elements: TypeAlias = list[Item] | list[Role] | list[Group]
Decoded: TypeAlias = Elements | list[Host]
KINDS = (b"roles", b"roleConfigGroups", b"items")
_DECODERS: dict[bytes, Any] = {  # of different kinds
    b"roles": msgspec.json.Decoder(list[Role]),
    b"roleConfigGroups": msgspec.json.Decoder(list[Group]),
    b"items": msgspec.json.Decoder(list[Item]),
    b"hosts": msgspec.json.Decoder(list[Host]),
}
_RAW = msgspec.json.Decoder(list[msgspec.Raw])
_LABELS: dict[bytes, Any] = {  # of different kinds
    b"roles": msgspec.json.Decoder(list[_Label]),
    b"roleConfigGroups": msgspec.json.Decoder(list[_Label]),
    b"hosts": msgspec.json.Decoder(list[_HostLabel]),
}
_NAMED = msgspec.json.Decoder(_Named)
_ENCODER = msgspec.json.Encoder()
_BLANK = b" \t\r\n"
_ILL = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


def decode(kind: bytes, content: bytes) -> Decoded | None:
    """Decode a JSON list of elements; None where it is no JSON, or says more than an element of this kind holds.

    Args:
        kind: the name of the field that holds the list, one of `KINDS`, or `hosts`.
        content: the whole list.

    A key that stands twice in an object would go unseen by decoding. Spelling what was decoded tells: it is never
    longer than the original, and as long only when nothing was dropped (and all is spelled as the server does).
    """
    try:
        found: Decoded = _DECODERS[kind].decode(content)
    except _ILL:
        return None
    spelled = _ENCODER.encode(found)
    whole = len(content.translate(None, _BLANK)) == len(spelled) - spelled.count(b" ")
    return found if whole else None


def unsplit(kind: bytes, content: bytes) -> Decoded | Sequence[Unsplit] | None:
    """Return a JSON list of elements as one piece, seen to be JSON; what may be redacted is decoded."""
    escaped = b"\\" in content and b"\\u" in content  # which may spell the word; single bytes are looked for faster
    if escaped or b"REDACTED" in content:
        return decode(kind, content)
    try:
        return [Unsplit(kind, content, _RAW.decode(content))]
    except _ILL:
        return None


def split(whole: Unsplit) -> list[Unparsed] | None:
    """Take a list apart without reading more than its elements' names; None where these do not tell."""
    try:
        labels = _LABELS[whole.kind].decode(whole.content)
    except _ILL:
        return None
    kind = whole.kind
    return [Unparsed(kind, label.name, bytes(raw)) for label, raw in zip(labels, whole.pieces, strict=True)]


def named_once(content: bytes) -> bool:
    """Tell whether an element has settings, and each has a name of its own."""
    try:
        items = _NAMED.decode(content).config.items
    except _ILL:
        return False
    return len({item.name for item in items}) == len(items)


def settings_of(kind: bytes, content: bytes) -> list[Item] | None:
    """Return all config items of a JSON list of elements; None where that is not certain.

    A list that stands twice in an object would go unseen by decoding; but then more values are spelled than decoded.
    """
    try:
        elements = _DECODERS[kind].decode(content)
    except _ILL:
        return None
    items = [item for one in elements if one.config and one.config.items for item in one.config.items]
    valued = sum([item.value is not UNSET for item in items])
    return items if content.count(b'"value"') == valued else None


def proven(kind: bytes, content: bytes) -> Elements | None:  # noqa: ARG001  # as whoever takes lists is called
    """Return no elements of a JSON list, only that it is one; None where it is none."""
    try:
        _RAW.decode(content)
    except _ILL:
        return None
    return cast(Elements, [])


def plain(elements: Decoded) -> list[dict[str, Any]]:
    """Return elements as the plain objects that the document holds."""
    return cast(list[dict[str, Any]], msgspec.to_builtins(elements))


def text(field: Text) -> str | None:
    """Return a field's text; None where it is left out or null."""
    return field if isinstance(field, str) else None


def items_of(element: Role | Group | Host) -> Sequence[Item]:
    """Return the config items of a role, group or host."""
    return (element.config.items or ()) if element.config else ()
