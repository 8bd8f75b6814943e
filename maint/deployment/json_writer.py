"""Spell texts and decoded elements as the redacted copy shows them, in the server's style (contract section 2.3)."""

from collections.abc import Callable
from functools import lru_cache
from json.encoder import encode_basestring
from typing import cast

from maint.deployment.fast_lists import Run
from maint.deployment.records import Config, Elements, Flag, Group, Item, Role, Text, UnsetType, items_of
from maint.deployment.secret_index import Known
from maint.deployment.sensitive import readable, sensitive

_REMEMBERED = 8192  # texts; a document repeats few of them very often
_LONG = 1000  # characters; longer texts are not remembered
_FLAG = '"sensitive" : true\n'


class Speller:
    """Spells texts as JSON, every secret in them replaced.

    Args:
        known: the secrets that are looked for inside free text.
        fingerprint: what to write in place of a secret.
    """

    def __init__(self, known: Known, fingerprint: Callable[[str], str]) -> None:
        self._known, self._fingerprint = known, fingerprint
        self.free = lru_cache(maxsize=_REMEMBERED)(self._scrubbed)
        self.name = lru_cache(maxsize=_REMEMBERED)(encode_basestring)

    def secret(self, value: str) -> str:
        """Spell the fingerprint of a secret."""
        return encode_basestring(self._fingerprint(value))

    def holds_secret(self, text: str) -> bool:
        """Tell whether a known secret is inside a text."""
        return next(self._known.found(text), None) is not None

    def _scrubbed(self, text: str) -> str:
        pieces, at = [], 0
        for start, end in self._known.found(text):
            pieces += [text[at:start], self._fingerprint(text[start:end])]
            at = end
        return encode_basestring("".join(pieces) + text[at:])


class ElementSpeller:
    """Spells lists of decoded elements exactly as their events would be spelled."""

    def __init__(self, speller: Speller) -> None:
        self._speller = speller
        self._name = speller.name
        self._harmless: set[object] = set()  # texts in which no secret was found

    def spell(self, run: Run, pad: str) -> str:
        """Return elements as they stand between the brackets of their list.

        Args:
            run: what to spell.
            pad: a line break and the blanks before each of their fields.
        """
        elements = cast(Elements, run.elements)  # as its condenser decodes by default
        edited = self._edited(elements, run.content)
        return self._list(elements, pad) if edited is None else edited

    def _edited(self, elements: Elements, content: bytes) -> str | None:
        """Return the document's own words with its secrets replaced; None where more than that has to be done.

        Possible where all items are flagged, and no free text holds a secret. The decoded elements say how many
        secrets there are, in their order; finding another number in the words means that they are in another style.
        """
        items = _items(elements)
        flags = [item.sensitive for item in items]
        secrets = [item.value for item in items if item.sensitive is True]
        if len(secrets) + flags.count(False) != len(flags) or not self._is_harmless(elements, items):
            return None
        pieces = content.decode().split(_FLAG)
        if len(pieces) != len(secrets) + 1:
            return None
        before_flag = pieces[0][pieces[0].rfind(",") :]  # a comma, a line break, and the blanks of this list
        for place, value in enumerate(secrets):
            if not isinstance(value, str):
                return None
            shown = self._speller.secret(value) if readable(value) else encode_basestring(value)
            end = f'"value" : {encode_basestring(value)}{before_flag}'
            if not pieces[place].endswith(end):
                return None
            pieces[place] = f'{pieces[place][: -len(end)]}"value" : {shown}{before_flag}'
        return _FLAG.join(pieces)

    def _is_harmless(self, elements: Elements, items: list[Item]) -> bool:
        texts: set[object] = {item.value for item in items if item.sensitive is False}
        texts.update(element.displayName for element in elements if isinstance(element, Group))
        for text in texts - self._harmless:
            if isinstance(text, str):
                if self._speller.holds_secret(text):
                    return False
                if len(text) > _LONG:
                    continue
            self._harmless.add(text)
        if len(self._harmless) > _REMEMBERED:
            self._harmless.clear()
        return True

    def _list(self, elements: Elements, pad: str) -> str:
        return ", ".join([self._element(element, pad) for element in elements])

    def _element(self, element: Item | Role | Group, pad: str) -> str:
        if isinstance(element, Item):
            return self._item(element, pad)
        return self._role(element, pad) if isinstance(element, Role) else self._group(element, pad)

    def _item(self, item: Item, pad: str) -> str:
        name, value, flag = item.name, item.value, item.sensitive
        if not isinstance(name, str) or not isinstance(value, str):
            return self._odd_item(item, pad)
        secret = sensitive(name, flag) and readable(value)
        shown = self._speller.secret(value) if secret else self._speller.free(value)
        text = f'{{{pad}"name" : {self._name(name)},{pad}"value" : {shown}'
        if isinstance(flag, UnsetType):
            return f"{text}{pad[:-2]}}}"
        return f'{text},{pad}"sensitive" : {_flag(flag)}{pad[:-2]}}}'

    def _odd_item(self, item: Item, pad: str) -> str:
        shown = item.value
        if isinstance(shown, str) and sensitive(item.name, item.sensitive) and readable(shown):
            value = [f'"value" : {self._speller.secret(shown)}']
        else:
            value = _field("value", shown, self._speller.free)
        return _object([*_field("name", item.name, self._name), *value, *_flagged("sensitive", item.sensitive)], pad)

    def _role(self, role: Role, pad: str) -> str:
        inner = pad + "  "
        fields = [*_field("name", role.name, self._name), *_field("type", role.type, self._name)]
        if host := role.hostRef:
            place = [*_field("hostId", host.hostId, self._name), *_field("hostname", host.hostname, self._name)]
            fields.append(f'"hostRef" : {_object(place, inner)}')
        fields += self._config(role.config, inner)
        if group := role.roleConfigGroupRef:
            named = _field("roleConfigGroupName", group.roleConfigGroupName, self._name)
            fields.append(f'"roleConfigGroupRef" : {_object(named, inner)}')
        return _object(fields, pad)

    def _group(self, group: Group, pad: str) -> str:
        inner = pad + "  "
        fields = [
            *_field("name", group.name, self._name),
            *_field("displayName", group.displayName, self._speller.free),
            *_field("roleType", group.roleType, self._name),
            *_flagged("base", group.base),
        ]
        if owner := group.serviceRef:
            named = [
                *_field("clusterName", owner.clusterName, self._name),
                *_field("serviceName", owner.serviceName, self._name),
            ]
            fields.append(f'"serviceRef" : {_object(named, inner)}')
        return _object([*fields, *self._config(group.config, inner)], pad)

    def _config(self, config: Config | UnsetType, pad: str) -> list[str]:
        if isinstance(config, UnsetType):
            return []
        if isinstance(config.items, UnsetType):
            return ['"config" : { }']
        shown = f" {self._list(config.items, pad + '  ')} " if config.items else " "
        return [f'"config" : {{{pad}"items" : [{shown}]{pad[:-2]}}}']


def _items(elements: Elements) -> list[Item]:
    found: list[Item] = []
    for element in elements:
        if isinstance(element, Item):
            found.append(element)
        else:
            found += items_of(element)
    return found


def _object(fields: list[str], pad: str) -> str:
    return f"{{{pad}{f',{pad}'.join(fields)}{pad[:-2]}}}" if fields else "{ }"


def _field(name: str, value: Text, spell: Callable[[str], str]) -> list[str]:
    if isinstance(value, UnsetType):
        return []
    return [f'"{name}" : {"null" if value is None else spell(value)}']


def _flagged(name: str, flag: Flag) -> list[str]:
    return [] if isinstance(flag, UnsetType) else [f'"{name}" : {_flag(flag)}']


def _flag(flag: bool | None) -> str:
    return "null" if flag is None else "true" if flag else "false"
