"""Judge the shape of a document: lists where lists are due, and a name wherever things are found by it (contract 7.2).

A server may take a document in another shape for an empty one, and would then restore nothing of what it holds.
"""

from collections.abc import Mapping, Sequence

from maint.model.snapshot import Finding

SHOWN = 3
# What every export holds, be it as an empty list; and what may be left out.
_DUE = ("clusters", "hosts", "users")
_LISTS = (*_DUE, "peers", "authRoles", "externalUserMappings")
_OBJECTS = ("versionInfo", "managementService", "managerSettings", "allHostsConfig", "hostTemplates")
# Lists whose elements are objects: where one is null, something was lost.
_OF_OBJECTS = frozenset({"clusters", "services", "roles", "roleConfigGroups", "hosts", "users", "peers", "items"})


class Shapes:
    """Takes objects as folding leaves them, where an object that was judged has become None."""

    def __init__(self) -> None:
        self._wrong: list[str] = []

    def deployment(self, fields: Mapping[str, object]) -> None:
        """Take the outermost object."""
        self._wrong += [f"there is no list of {key}" for key in _DUE if key not in fields]
        self._wrong += [f"{key} holds what is no object" for key in (*_DUE, "peers") if fields.get(key)]
        self.lists("the deployment", fields, *_LISTS)
        self.objects("the deployment", fields, *_OBJECTS)

    def lists(self, owner: str, fields: Mapping[str, object], *keys: str) -> None:
        """Insist that each of these fields is a list or left out."""
        for key in keys:
            if key in fields and not isinstance(fields[key], list):  # an object was left out by the folding
                self._wrong.append(f"{key} of {owner} is no list")

    def objects(self, owner: str, fields: Mapping[str, object], *keys: str) -> None:
        """Insist that each of these fields was an object or is left out."""
        self._wrong += [f"{key} of {owner} is no object" for key in keys if fields.get(key) is not None]

    def named(self, kind: str, *texts: object) -> None:
        """Insist that what a thing is known by is text, and not empty."""
        if not all(isinstance(text, str) and text for text in texts):
            shown = next((text for text in texts if isinstance(text, str) and text), "")
            self._wrong.append(f"a {kind} lacks its name or type{f': {shown}' if shown else ''}")

    def valued(self, name: object, value: object, flag: object) -> None:
        """Insist that a config item is what it always is: texts, and perhaps a flag."""
        if not isinstance(name, str) or not name:
            self._wrong.append("a setting has no name")
        elif not isinstance(value, str | None) or not isinstance(flag, bool | None):
            self._wrong.append(f"the value of {name} is no text, or its flag no truth value")

    def misplaced(self, _: Mapping[str, object]) -> None:
        """Take an object that stands where a text should."""
        self._wrong.append("the value of a setting is an object")

    def finding(self, nulls: Sequence[str]) -> Finding:
        """Return what was found.

        Args:
            nulls: the lists in which a null stands, such as `clusters[].services`.
        """
        lost = [f"null in {place}" for place in nulls if place.rpartition(".")[2] in _OF_OBJECTS]
        wrong = list(dict.fromkeys([*self._wrong, *lost]))
        if not wrong:
            return Finding("shape", True, "everything is where it belongs")
        more = f" and {len(wrong) - SHOWN} more" if len(wrong) > SHOWN else ""
        return Finding("shape", False, f"not the shape of an export: {'; '.join(wrong[:SHOWN])}{more}")
