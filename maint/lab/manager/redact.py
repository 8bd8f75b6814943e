"""Hide secrets in a copy of a document (contract section 7.1)."""

import re
from dataclasses import dataclass
from typing import Any

from maint.lab.manager.document import Doc

MARKER = "REDACTED"
# Documents of API versions below 14 carry no flags; the server knows its secrets all the same.
_SECRET_NAME = re.compile(r"password|passwd|secret|_pw$|credential", re.IGNORECASE)
_ACCOUNT_SECRETS = ("pwHash", "pwSalt", "pwLogin")


@dataclass(frozen=True, slots=True)
class Hide:
    """What is hidden.

    Attributes:
        values: values of sensitive items.
        accounts: pwHash, pwSalt and pwLogin.
        peers: passwords of peers.
        navigator: sensitive items of Navigator roles, for cluster administrators (contract section 2.2).
    """

    values: bool = False
    accounts: bool = False
    peers: bool = False
    navigator: bool = False


def hidden(doc: Doc, hide: Hide) -> Doc:
    """Return a document without what is to be hidden; the original stays as it is."""
    copy: Doc = _hide_values(doc) if hide.values else dict(doc)
    if hide.accounts:
        copy["users"] = [_without_secrets(user) for user in copy.get("users") or []]
    if hide.peers and copy.get("peers"):
        copy["peers"] = [{**peer, "password": MARKER} if "password" in peer else peer for peer in copy["peers"]]
    if hide.navigator and copy.get("managementService"):
        copy["managementService"] = _hide_navigator(copy["managementService"])
    return copy


def hide_items(listed: list[Doc]) -> list[Doc]:
    """Return config items with the values of the sensitive ones hidden."""
    return [_hide_item(item) if is_secret(item) else item for item in listed]


def is_secret(node: Doc) -> bool:
    """Return whether an object is a config item that holds a secret: by its flag, else by its name."""
    if "value" not in node or "name" not in node:
        return False
    if "sensitive" in node:
        return node["sensitive"] is True
    return bool(_SECRET_NAME.search(str(node["name"])))


def holds_marker(node: Any) -> bool:  # Any: any part of a document
    """Return whether a sensitive item's value is the word REDACTED anywhere."""
    if isinstance(node, list):
        return any(holds_marker(member) for member in node)
    if not isinstance(node, dict):
        return False
    if node.get("sensitive") is True and node.get("value") == MARKER:
        return True
    return any(holds_marker(member) for member in node.values())


def _hide_item(item: Doc) -> Doc:
    return {**item, "value": MARKER}


def _hide_values(node: Any) -> Any:  # Any: any part of a document, and the same part back
    if isinstance(node, list):
        return [_hide_values(member) for member in node]
    if not isinstance(node, dict):
        return node
    if is_secret(node):
        return _hide_item(node)
    return {name: _hide_values(member) for name, member in node.items()}


def _without_secrets(user: Doc) -> Doc:
    return {name: value for name, value in user.items() if name not in _ACCOUNT_SECRETS}


def _hide_navigator(service: Doc) -> Doc:
    copy = dict(service)
    for part, kind in (("roles", "type"), ("roleConfigGroups", "roleType")):
        if part in copy:
            copy[part] = [
                _hide_values(entry) if str(entry.get(kind, "")).startswith("NAVIGATOR") else entry
                for entry in copy[part]
            ]
    return copy
