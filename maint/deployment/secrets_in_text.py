"""Secrets within a text that is none as a whole: what stands beside the name of a secret."""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache

import msgspec

from maint.deployment.secrets import SecretIndex, readable, secret_name
from maint.model.json import Json
from maint.model.secret import MASK

_LINE = r"[^\r\n\\]*(?:\\(?:\r\n|.)[^\r\n\\]*)*"  # goes on behind a backslash
# A password may hold what parts it from the next one.
_WORD = r"[^\s&;\"'<>]*(?:[&;](?!(?:amp;)?[\w.-]+=|\s|$)[^\s&;\"'<>]*)*"
_ELEMENT = r"[^<]*"
_OF_JSON = r"[^\s,\]}]*"
# Some passwords hold a bare @ although none belongs there: up to the last one before the host.
_OF_ADDRESS = r"[^@]*(?:@[^\s/@\"'<>,;&?#]*(?=@))*"
# By what opens it: the other quote may stand within; YAML and SQL double the one that opened it.
_QUOTED = {
    '"': r"[^\"\\]*(?:\\.[^\"\\]*)*",
    "'": r"[^'\\]*(?:(?:\\.|'')[^'\\]*)*",
    '\\"': r"[^\"\\]*",
    "\\'": r"[^'\\]*",
}


class _Form(msgspec.Struct, frozen=True):
    """What stands before a secret, and what the secret is made of.

    Attributes:
        lead: its group `name`, where it has one, must be that of a secret; `opens` is the quote before the secret,
            `flow` says that it is one of several in a line, `block` that it takes lines of its own, as deep as YAML has
            them, below `indent`; `arguments` may hold further secrets.
        value: the secret, where no such group tells.
        within: what the text must hold besides.
        whole: what has another name is passed over up to its value; else further names may stand in that.
    """

    lead: str
    value: str = _LINE
    within: str = ""
    whole: bool = False


# What a server flags is a whole value. Where an advanced snippet, options of Java, an environment or an address holds a
# password beside other things, nothing is flagged (M7.1), and only the name beside it says what it is.
# Comments are followed for a while only: time grows with the length of the text. No group is repeated possessively:
# Python up to 3.11.4 does not match that right.
_Q = r"\\*+[\"']"  # a quote, within quoted text, too
_LEFT = r"(?<![\w.-])"
_BETWEEN = r"(?:\s++|<!--(?:(?!-->)(?s:.)){0,500}-->|<(?!name>|value>)\w++>[^<]*+</\w++>){0,8}"
_ATTRIBUTES = r"(?:\s++(?!value=)[\w:-]++=(?:\"[^\"<>]*+\"|'[^'<>]*+')){0,4}"
_ARGUMENTS = r"(?=\s)(?P<arguments>(?:\"[^\"\r\n]*+\"|'[^'\r\n]*+'|\\\r?\n|[^\r\n|;&\"']){0,400}?)"
_LDAP = r"ldap(?:add|compare|delete|exop|modify|modrdn|passwd|search|whoami)"
_TITLE = rf"{_LEFT}(?:name|key)=[\"'](?P<name>[\w.-]++)[\"']"
_ITEM = r"(?m:^)[ \t]*+(?:-[ \t]++)?"
_FORMS = (
    # <name>password</name><value>x</value>, and the other way round; <password>x</password>
    _Form(
        rf"<name>\s*+(?P<name>[^<>\s]++)\s*+</name>{_BETWEEN}<value>\s*+<!\[CDATA\[",
        r".*?(?=\]\]>|\Z)",
        whole=True,
    ),
    _Form(rf"<name>\s*+(?P<name>[^<>\s]++)\s*+</name>{_BETWEEN}<value>", _ELEMENT, whole=True),
    _Form(rf"<value>(?=[^<]*+</value>{_BETWEEN}<name>\s*+(?P<name>[^<>\s]++)\s*+</name>)", _ELEMENT),
    _Form(r"<(?P<name>[\w.:-]++)(?:\s[^<>]*+)?>(?=[^<]++</)", _ELEMENT),
    # <property name="password" value="x"/>, and the other way round; <property name="password">x</property>
    _Form(rf"{_TITLE}{_ATTRIBUTES}\s++value=(?P<opens>[\"'])", whole=True),
    _Form(rf"{_TITLE}[^<>]{{0,200}}+(?<!/)>", _ELEMENT),
    _Form(rf"{_LEFT}value=(?P<opens>[\"'])(?=[^\"'<>]{{0,500}}+[\"']\s++(?:name|key)=[\"'](?P<name>[\w.-]++)[\"'])"),
    # {"name": "password", "value": "x"}, also as YAML
    _Form(
        rf"(?:{_ITEM}|{_LEFT})(?:name|key)(?:{_Q})?\s*+:\s*+(?:{_Q})?(?P<name>[\w.-]++)(?:{_Q})?\s*+(?P<flow>,)?\s*+"
        rf"(?:{_Q})?value(?:{_Q})?\s*+:\s*+(?P<opens>{_Q})?"
    ),
    _Form(r"-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----", r".*?(?=-----END|\Z)"),
    # curl -u user:x
    _Form(r"(?<!\S)--?(?:u|(?:proxy-)?user)[ \t=]*+[\"']?(?!jdbc:)[^\s:\"'/<>=]++:", r"[^\s\"']*", within="curl"),
    # password: x, as YAML
    _Form(
        rf"(?:(?P<indent>{_ITEM})|(?P<flow>[{{,][ \t]*+))(?P<name>[\w.-]++)[ \t]*+::?[ \t]++"
        r"(?:(?P<block>[|>][-+\d]{0,2}[ \t]*+\r?\n[ \t]*+)|(?P<opens>[\"']))?"
    ),
    # spark.password x
    _Form(r"(?m:^)[ \t]*+(?P<name>\w[\w-]*+\.[\w.-]++)[ \t]++(?![:=])"),
    # "password": "x"; password=x, alone in its line or not
    _Form(rf"{_LEFT}(?P<name>[\w.-]++){_Q}\s*+:\s*+(?P<opens>{_Q})?", _OF_JSON),
    _Form(
        rf"(?m:^)[ \t]*+(?:(?:export|set)[ \t]++)?(?P<name>[\w.][\w.-]*+)(?:{_Q})?\s*+:?=>?\s*+(?P<opens>{_Q})?",
    ),
    _Form(rf"{_LEFT}(?P<name>[\w.-]++)(?:{_Q})?\s*+:?=>?\s*+(?P<opens>{_Q})?", _WORD),
    # bindpw x; machine h login user password x
    _Form(r"(?m:^)[ \t]*+(?P<name>\w*pw)[ \t]++(?![:=])"),
    _Form(r"(?<!\S)(?:machine\s++\S++|default)\s++login\s++\S++\s++password\s++", r"\S*"),
    # ldapsearch -D user -w x; mysql -px, whose next word would be a database
    _Form(rf"{_LEFT}{_LDAP}{_ARGUMENTS}\s-[a-zA-Z]?w[ \t]*+(?P<opens>{_Q})?", _WORD),
    _Form(rf"{_LEFT}(?:beeline|sshpass){_ARGUMENTS}\s-p[ \t]++(?P<opens>{_Q})?", _WORD),
    _Form(
        rf"{_LEFT}(?:mysql|mariadb)[\w-]*+{_ARGUMENTS}\s-p(?=\S)(?!(?i:ass|asswd|assword|ath|ort)[\s=])"
        rf"(?P<opens>{_Q})?",
        _WORD,
    ),
    # --password x
    _Form(rf"{_LEFT}(?P<name>--?[\w.-]++)[ \t]++(?!-)(?P<opens>{_Q})?", _WORD),
    # IDENTIFIED BY 'x'
    _Form(rf"{_LEFT}(?i:identified\s++by|password)[ \t]++(?P<opens>')"),
    # Authorization: Basic x
    _Form(rf"(?<=uthorization)(?:{_Q})?\s*+[:=]\s*+(?:{_Q})?(?i:basic|bearer)[ \t]++", r"[^\s\"'\\,;]*"),
    # jdbc:oracle:thin:user/x@host; https://user:x@host
    _Form(r"(?i:oracle:(?:thin|oci8?):)[^\s/:@\"'<>]*+/(?=[^\s/@\"'<>]++@)", _OF_ADDRESS),
    _Form(r"://[^\s/:@\"'<>;=]*+:(?=[^\s/@\"'<>]++@)", _OF_ADDRESS),
)
_BESIDE = "|".join(f"(?P<form{n}>{one.lead.replace('(?P<', f'(?P<form{n}_')})" for n, one in enumerate(_FORMS))
_WITHIN = {one.within for one in _FORMS if one.within}
_COLON = re.compile(r"[\"'\s]:|:\s")
_WORDS = re.compile(rf"(?i:pass|pw|secret|token|key|credential|identified|authtok|curl|{_LDAP}|beeline|mysql|mariadb)")
# Beside those of `secret_name`, of which the counts of stored snapshots are made.
_SHORT_NAME = re.compile(
    r"(?:encryption|fernet)_?key$|(?:^|_|my)pwd$|(?:^|_|store|key|require)pass$|(?:bind|root)pw$|pass_word$|authtok$|"
    r"(?:^|_)sig$"
)
_NO_SECRET = re.compile(
    r"(?i:true|false|none|null|yes|no|)|\$(?:\{[^{}]*\}?|\([^()]*\)?)\s*|/(?:etc|opt|var|home|usr|run|tmp|root)/\S*|\s+"
).fullmatch
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[.-]+")


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.DOTALL)  # on first use: it takes a while


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
    users = "LoginModule" in text  # of JAAS, which names a user's password after the user: user_ann="x"
    absent = {word for word in _WITHIN if word not in text}
    search = _compiled(_BESIDE).search
    while found := search(text, after):
        form = _FORMS[int(str(found.lastgroup).removeprefix("form"))]
        if (name := _part(found, "name")) and not (_of_secret(name) or (users and name.startswith("user_"))):
            after = found.end() if form.whole else min(_further(found), found.end())
            continue
        start = after = found.end()
        if (passed := _part(found, "arguments")) and (inner := veiled(passed, veil)) != passed:
            begin, end = found.span(f"{found.lastgroup}_arguments")
            pieces += [text[at:begin], inner]
            at = end
        if form.within in absent:
            continue
        end = _compiled(_pattern(found, form)).match(text, start).end()  # type: ignore[union-attr]  # each matches nothing, too
        value = text[start:end]
        if readable(value) and not _NO_SECRET(value):
            pieces += [text[at:start], veil(value)]
            at = after = end
    return "".join(pieces) + text[at:] if pieces else text


def without_secrets(text: str) -> str:
    """Return a text as it may be shown: dots stand for the secrets in it."""
    return veiled(text, lambda _: MASK)


def shown(value: Json) -> Json:
    """Return a value as it may be shown: dots stand for the secrets in its texts, wherever else in it they stand."""
    found = SecretIndex()
    veil = found.noting(lambda _: MASK)
    return _each_text(_each_text(value, lambda text: veiled(text, veil)), lambda text: found.masked(text, veil))


def _each_text(value: Json, change: Callable[[str], str]) -> Json:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {key: _each_text(one, change) for key, one in value.items()}
    return [_each_text(one, change) for one in value] if isinstance(value, Sequence) else value


def _part(found: re.Match[str], what: str) -> str:
    # "" where the form that was found has no such group.
    name = f"{found.lastgroup}_{what}"
    return found[name] or "" if name in found.re.groupindex else ""


def _further(found: re.Match[str]) -> int:
    # What begins before a name, such as with the line, may have hidden another form that begins with it.
    begin, end = found.span(f"{found.lastgroup}_name")
    return begin if begin > found.start() else end


def _of_secret(name: str) -> bool:
    spelled = _HUMP.sub("_", name).lower()
    return not spelled.endswith("_alias") and (secret_name(spelled) or _SHORT_NAME.search(spelled) is not None)


def _pattern(found: re.Match[str], form: _Form) -> str:
    if quote := _part(found, "opens"):
        return _QUOTED[quote[-2:]]
    if block := _part(found, "block"):
        return _block(_part(found, "indent"), block)
    return _OF_JSON if _part(found, "flow") else form.value


def _block(indent: str, block: str) -> str:
    # Of YAML: all lines that are indented as the first one is; none where that is not more than its key.
    depth = len(block) - block.rfind("\n") - 1
    if depth <= len(indent) - len(indent.lstrip(" \t")):
        return ""
    return rf"[^\n]*(?:\n(?:[ \t]{{{depth}}}[^\n]*|[ \t]*(?=\n)))*"
