"""Secrets within texts that are none as a whole: what stands beside the name of a secret."""

import re
from collections.abc import Callable

from maint.deployment.secrets import readable, secret_name

# What a server flags is a whole value. Where an advanced snippet, options of Java, an environment or an address holds a
# password beside other things, nothing is flagged (M7.1), and only the name beside it says what it is.
# Comments are followed for a while only: time grows with the length of the text. No group is repeated possessively:
# Python up to 3.11.4 does not match that right.
_BETWEEN = r"(?:\s++|<!--(?:(?!-->)(?s:.)){0,500}-->|<(?!name>|value>)\w++>[^<]*+</\w++>){0,8}"
_ESCAPED = r"\\*+[\"']"  # a quote, within quoted text, too
_ATTRIBUTES = r"(?:\s++(?!value=)[\w:-]++=(?:\"[^\"<>]*+\"|'[^'<>]*+')){0,4}"
_BESIDE = re.compile(
    rf"<name>\s*+(?P<snippet>[^<>\s]++)\s*+</name>{_BETWEEN}<value>(?:\s*+(?P<cdata><!\[CDATA\[))?"
    rf"|<value>(?=[^<]*+</value>{_BETWEEN}<name>\s*+(?P<after>[^<>\s]++)\s*+</name>)"
    r"|<(?P<element>[\w.:-]++)(?:\s[^<>]*+)?>(?=[^<]++</)"
    rf"|(?<![\w.-])(?:name|key)=[\"'](?P<attribute>[\w.-]++)[\"']{_ATTRIBUTES}\s++value=(?P<opened>[\"'])"
    r"|(?<![\w.-])(?:name|key)=[\"'](?P<titled>[\w.-]++)[\"'][^<>]{0,200}+(?<!/)>"
    r"|(?<![\w.-])value=(?P<ahead>[\"'])(?=[^\"'<>]{0,500}+[\"']\s++(?:name|key)=[\"'](?P<behind>[\w.-]++)[\"'])"
    rf"|(?:(?m:^)[ \t]*+(?:-[ \t]++)?|(?<![\w.-]))(?:name|key)(?:{_ESCAPED})?\s*+:\s*+(?:{_ESCAPED})?"
    rf"(?P<entry>[\w.-]++)(?:{_ESCAPED})?\s*+(?P<comma>,)?\s*+(?:{_ESCAPED})?value(?:{_ESCAPED})?\s*+:\s*+(?P<given>{_ESCAPED})?"
    r"|-----BEGIN [A-Z ]{0,30}PRIVATE KEY(?P<pem>-----)"
    r"|(?<!\S)--?(?:u|(?:proxy-)?user)[ \t=]*+[\"']?(?!jdbc:)[^\s:\"'/]++(?P<curl>:)"
    r"|(?:(?P<indent>(?m:^)[ \t]*+(?:-[ \t]++)?)|(?P<flow>[{,][ \t]*+))(?P<key>[\w.-]++)[ \t]*+::?[ \t]++"
    r"(?:(?P<block>[|>][-+\d]{0,2}[ \t]*+\r?\n[ \t]*+)|(?P<begun>[\"']))?"
    r"|(?m:^)[ \t]*+(?P<dotted>[\w-]++\.[\w.-]++)[ \t]++(?![:=])"
    rf"|(?<![\w.-])(?P<name>[\w.-]++)(?:{_ESCAPED}\s*+:\s*+|(?:{_ESCAPED})?\s*+:?=>?\s*+)(?P<quote>{_ESCAPED})?"
    rf"|(?<![\w.-])(?P<option>--?[\w.-]++)[ \t]++(?!-)(?P<worded>{_ESCAPED})?"
    r"|(?<![\w.-])(?i:identified\s++by|password)[ \t]++(?P<sql>')"
    rf"|(?<=uthorization)(?:{_ESCAPED})?\s*+[:=]\s*+(?:{_ESCAPED})?(?i:basic|bearer)(?P<scheme>[ \t]++)"
    r"|(?i:oracle:(?:thin|oci8?):)[^\s/:@\"'<>]*+/(?=[^\s/@\"'<>]++@)"
    r"|://[^\s/:@\"'<>]*+:(?=[^\s/@\"'<>]++@)"
)
_IN_XML = ("snippet", "after", "element", "titled")
_NAMES = (*_IN_XML, "attribute", "behind", "entry", "key", "dotted", "name", "option")
_OWN = ("snippet", "attribute")
_QUOTES = ("quote", "opened", "ahead", "begun", "given", "worded", "sql")
_COLON = re.compile(r"[\"'\s]:|:\s")
_WORDS = re.compile(r"(?i:pass|pw|secret|token|key|credential|identified|authtok|curl)")
# A password may hold what parts it from the next one.
_WORD = re.compile(r"[^\s&;\"'<>]*(?:[&;](?!(?:amp;)?[\w.-]+=|\s|$)[^\s&;\"'<>]*)*")
_LINE = re.compile(r"[^\r\n\\]*(?:\\(?:\r\n|.)[^\r\n\\]*)*", re.DOTALL)  # goes on behind a backslash
# Some passwords hold a bare @ although none belongs there: up to the last one before the host.
_IN_ADDRESS = re.compile(r"[^@]*(?:@[^\s/@\"'<>,;&?#]*(?=@))*")
_IN_SNIPPET = re.compile(r"[^<]*")
_IN_CDATA = re.compile(r".*?(?=\]\]>|\Z)", re.DOTALL)
_IN_JSON = re.compile(r"[^\s,\]}]*")
_IN_HEADER = re.compile(r"[^\s\"'\\,;]*")
_IN_ARGUMENT = re.compile(r"[^\s\"']*")
_IN_PEM = re.compile(r".*?(?=-----END|\Z)", re.DOTALL)
_NOTHING = re.compile("")
# By what opens it: the other quote may stand within; YAML and SQL double the one that opened it.
_QUOTED = {
    '"': re.compile(r"[^\"\\]*(?:\\.[^\"\\]*)*", re.DOTALL),
    "'": re.compile(r"[^'\\]*(?:(?:\\.|'')[^'\\]*)*", re.DOTALL),
    '\\"': re.compile(r"[^\"\\]*"),
    "\\'": re.compile(r"[^'\\]*"),
}
_NO_SECRET = re.compile(
    r"(?i:true|false|none|null|yes|no|)|\$(?:\{[^{}]*\}?|\([^()]*\)?)\s*|/(?:etc|opt|var|home|usr|run|tmp|root)/\S*|\s+"
).fullmatch
_LEAD = 80  # characters before a name that are looked at: a line may be as long as the text, and full of names
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[.-]+")


def veiled(text: str, veil: Callable[[str], str]) -> str:
    """Return a text with a veil over each secret in it, told by the name beside it or its place in an address."""
    # One of these stands in whatever `_BESIDE` finds, and in few texts of a document, which has very many.
    if not (
        "=" in text
        or "</" in text
        or "@" in text
        or (":" in text and _COLON.search(text))
        or ((" " in text or "\t" in text) and _WORDS.search(text))
    ):
        return text
    pieces, at, after = [], 0, 0
    users = "LoginModule" in text  # names each user's password after the user
    fetches = "curl" in text
    while found := _BESIDE.search(text, after):
        kind, name = next(((one, found[one]) for one in _NAMES if found[one]), ("", ""))
        if kind and not secret_name(_HUMP.sub("_", name)) and not (users and name.startswith("user_")):
            # What follows a name may hold further ones, but for a value that has found its own.
            after = found.end() if kind in _OWN else min(found.end(kind), found.end())
            continue
        start = found.end()
        after = start
        if found["curl"] and not fetches:
            continue
        end = _pattern(found, name, text).match(text, start).end()  # type: ignore[union-attr]  # each matches nothing, too
        value = text[start:end]
        if readable(value) and not _NO_SECRET(value):
            pieces += [text[at:start], veil(value)]
            at = after = end
    return "".join(pieces) + text[at:] if pieces else text


def _pattern(found: re.Match[str], name: str, text: str) -> re.Pattern[str]:
    if found["cdata"]:
        return _IN_CDATA
    if any(found[one] for one in _IN_XML):
        return _IN_SNIPPET
    if quote := next((found[one] for one in _QUOTES if found[one]), ""):
        return _QUOTED[quote[-2:]]
    if found["pem"]:
        return _IN_PEM
    if not name:
        return _IN_HEADER if found["scheme"] else _IN_ARGUMENT if found["curl"] else _IN_ADDRESS
    if found["block"]:
        return _block(found["indent"] or "", found["block"])
    if found["flow"] or found["comma"]:
        return _IN_JSON
    if found["key"] or found["entry"] or found["dotted"]:
        return _LINE
    if found["option"]:
        return _WORD
    if ":" in found[0] and "=" not in found[0]:
        return _IN_JSON
    lead = text[max(found.start() - _LEAD, 0) : found.start()]
    before = lead[lead.rfind("\n") + 1 :].strip()
    return _LINE if before in ("", "export", "set") and name[0] != "-" else _WORD


def _block(indent: str, block: str) -> re.Pattern[str]:
    # Of YAML: all lines that are indented as the first one is; none where that is not more than its key.
    depth = len(block) - block.rfind("\n") - 1
    if depth <= len(indent) - len(indent.lstrip(" \t")):
        return _NOTHING
    return re.compile(rf"[^\n]*(?:\n(?:[ \t]{{{depth}}}[^\n]*|[ \t]*(?=\n)))*")
