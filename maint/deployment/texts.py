"""Secrets within texts that are none as a whole: what stands beside the name of a secret."""

import re
from collections.abc import Callable

from maint.deployment.secrets import readable, secret_name

# What a server flags is a whole value. Where an advanced snippet, options of Java, an environment or an address holds a
# password beside other things, nothing is flagged (M7.1), and only the name beside it says what it is.
# Comments are followed for a while only: time grows with the length of the text. No group is repeated possessively:
# Python up to 3.11.4 does not match that right.
_BETWEEN = r"(?:\s++|<!--(?:(?!-->)(?s:.)){0,500}-->|<(?!name>|value>)\w++>[^<]*+</\w++>){0,8}"
_BESIDE = re.compile(
    rf"<name>\s*+(?P<snippet>[^<>\s]++)\s*+</name>{_BETWEEN}<value>(?:\s*+(?P<cdata><!\[CDATA\[))?"
    rf"|<value>(?=[^<]*+</value>{_BETWEEN}<name>\s*+(?P<after>[^<>\s]++)\s*+</name>)"
    r"|<(?P<element>[\w.:-]++)>(?=[^<]++</)"
    r"|(?<![\w.-])name=[\"'](?P<attribute>[\w.-]++)[\"']\s++value=(?P<opened>[\"'])"
    r"|(?m:^)[ \t]*+(?:-[ \t]++)?(?P<key>[\w.-]++)[ \t]*+:[ \t]++(?P<begun>[\"'])?"
    r"|(?<![\w.-])(?P<name>[\w.-]++)(?:\\?[\"']\s*+:\s*+|\\?[\"']?\s*+=\s*+)(?P<quote>\\?[\"'])?"
    r"|://[^\s/:@\"'<>]*+:(?=[^\s/@\"'<>]++@)"
)
_NAMES = ("snippet", "after", "element", "attribute", "key", "name")
_COLON = re.compile(r"[\"'\s]:|:\s")
# A password may hold what parts it from the next one.
_WORD = re.compile(r"[^\s&;\"'<>]*(?:[&;](?![\w.-]+=|\s|$)[^\s&;\"'<>]*)*")
_LINE = re.compile(r"[^\r\n\\]*(?:\\(?:\r\n|.)[^\r\n\\]*)*", re.DOTALL)  # goes on behind a backslash
# Some passwords hold a bare @ although none belongs there: up to the last one before the host.
_IN_ADDRESS = re.compile(r"[^@]*(?:@[^\s/@\"'<>,;&?#]*(?=@))*")
_IN_SNIPPET = re.compile(r"[^<]*")
_IN_CDATA = re.compile(r".*?(?=\]\]>|\Z)", re.DOTALL)
_IN_JSON = re.compile(r"[^\s,\]}]*")
# By what opens it: the other quote may stand within.
_QUOTED = {
    '"': re.compile(r"[^\"\\]*(?:\\.[^\"\\]*)*", re.DOTALL),
    "'": re.compile(r"[^'\\]*(?:\\.[^'\\]*)*", re.DOTALL),
    '\\"': re.compile(r"[^\"\\]*"),
    "\\'": re.compile(r"[^'\\]*"),
}
_NO_SECRET = re.compile(r"(?i:true|false|none|null|yes|no|)|\$(?:\{[^{}]*\}?|\([^()]*\)?)\s*").fullmatch
_LEAD = 80  # characters before a name that are looked at: a line may be as long as the text, and full of names
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[.-]+")


def veiled(text: str, veil: Callable[[str], str]) -> str:
    """Return a text with a veil over each secret in it, told by the name beside it or its place in an address."""
    # One of these stands in whatever `_BESIDE` finds, and in few texts of a document, which has very many.
    if not ("=" in text or "</" in text or "@" in text or (":" in text and _COLON.search(text))):
        return text
    pieces, at = [], 0
    for found in _BESIDE.finditer(text):
        name = _name(found)
        if found.start() < at or (name and not secret_name(_HUMP.sub("_", name))):
            continue
        start = found.end()
        end = _pattern(found, name, text).match(text, start).end()  # type: ignore[union-attr]  # each matches nothing, too
        value = text[start:end]
        if readable(value) and not _NO_SECRET(value):
            pieces += [text[at:start], veil(value)]
            at = end
    return "".join(pieces) + text[at:] if pieces else text


def _name(found: re.Match[str]) -> str:
    # "" in an address.
    return next((found[one] for one in _NAMES if found[one]), "")


def _pattern(found: re.Match[str], name: str, text: str) -> re.Pattern[str]:
    if found["cdata"]:
        return _IN_CDATA
    if found["snippet"] or found["after"] or found["element"]:
        return _IN_SNIPPET
    if not name:
        return _IN_ADDRESS
    if quote := found["quote"] or found["opened"] or found["begun"]:
        return _QUOTED[quote]
    if found["key"]:
        return _LINE
    if ":" in found[0]:
        return _IN_JSON
    lead = text[max(found.start() - _LEAD, 0) : found.start()]
    before = lead[lead.rfind("\n") + 1 :].strip()
    return _LINE if before in ("", "export", "set") and name[0] != "-" else _WORD
