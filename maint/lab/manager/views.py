"""What a reader gets to see of a document: secrets hidden (M7.1), and in the shape of an API version (M7.2)."""

import re
from typing import Any

import msgspec

from maint.lab.manager.document import Doc, any_object, rebuilt, users

MARKER = "REDACTED"
# Documents of API versions below 14 carry no flags; the server knows its secrets all the same.
_SECRET_NAME = re.compile(r"password|passwd|secret|_pw$|credential", re.IGNORECASE)
# Fields by the API version that brought them: of the top level, and wherever else they stand (M7.2).
_SINCE = {
    "allHostsConfig": 3, "peers": 3, "hostTemplates": 3,
    "authRoles": 32, "externalUserMappings": 32, "dataContexts": 32,
}  # fmt: skip
_SINCE_WITHIN = {"sensitive": 14, "dataContextRefs": 31, "clusterType": 31, "tags": 41, "createUserWithAdminRole": 44}
_ACCOUNT_SECRETS = ("pwHash", "pwSalt", "pwLogin")


class Hide(msgspec.Struct, frozen=True):
    """What is hidden."""

    values: bool = False  # of sensitive items
    accounts: bool = False  # pwHash, pwSalt and pwLogin
    peers: bool = False  # their passwords
    navigator: bool = False  # sensitive items of Navigator roles, for cluster administrators (M2.2)


def hidden(doc: Doc, hide: Hide) -> Doc:
    """Return a document without what is to be hidden; the original stays as it is."""
    copy: Doc = rebuilt(doc, _hide_item) if hide.values else dict(doc)
    if hide.accounts:
        copy["users"] = [_without_secrets(user) for user in copy.get("users") or []]
    if hide.peers and copy.get("peers"):
        copy["peers"] = [{**peer, "password": MARKER} if "password" in peer else peer for peer in copy["peers"]]
    if hide.navigator and copy.get("managementService"):
        copy["managementService"] = _hide_navigator(copy["managementService"])
    return copy


def as_of(doc: Doc, api: int, *, sent: bool = False) -> Doc:
    """Return a document as an API version knows it; where it is `sent` by that version, nothing is made up for it."""
    kept = {name: value for name, value in doc.items() if _SINCE.get(name, 1) <= api}
    copy: Doc = rebuilt(kept, lambda node: _without_newer(node, api))
    if api < 32 and "users" in copy:
        copy["users"] = [_account_as_of(user, api, sent=sent) for user in users(copy)]
    return copy


def _without_newer(node: Doc, api: int) -> Doc:
    kept = {name: part for name, part in node.items() if _SINCE_WITHIN.get(name, 1) <= api}
    if api < 31 and isinstance(ref := kept.get("hostRef"), dict) and "hostId" in ref:
        kept["hostRef"] = {"hostId": ref["hostId"]}
    return kept


def _account_as_of(user: Doc, api: int, *, sent: bool) -> Doc:
    # Roles have no name before v32, and are nothing but names before v30.
    if "authRoles" not in user:
        return user
    refs = list(user["authRoles"] or [])
    if api >= 30:
        return {**user, "authRoles": [{name: ref[name] for name in ref if name != "name"} for ref in refs]}
    names = [str(ref.get("name")) for ref in refs if str(ref.get("name", "")).startswith("ROLE_")]
    made = {} if sent else {"roles": names}
    return {name: value for name, value in user.items() if name != "authRoles"} | made


def hide_items(listed: list[Doc]) -> list[Doc]:
    """Return config items with the values of the sensitive ones hidden."""
    return [_hide_item(item) for item in listed]


def is_secret(node: Doc) -> bool:
    """Return whether an object is a config item that holds a secret: by its flag, else by its name."""
    if "value" not in node or "name" not in node:
        return False
    if "sensitive" in node:
        return node["sensitive"] is True
    return bool(_SECRET_NAME.search(str(node["name"])))


def holds_marker(node: Any) -> bool:  # Any: any part of a document
    """Return whether a sensitive item's value is the word REDACTED anywhere."""
    return any_object(node, lambda item: item.get("sensitive") is True and item.get("value") == MARKER)


def _hide_item(item: Doc) -> Doc:
    return {**item, "value": MARKER} if is_secret(item) else item


def _without_secrets(user: Doc) -> Doc:
    return {name: value for name, value in user.items() if name not in _ACCOUNT_SECRETS}


def _hide_navigator(service: Doc) -> Doc:
    copy = dict(service)
    for part, kind in (("roles", "type"), ("roleConfigGroups", "roleType")):
        if part in copy:
            copy[part] = [
                rebuilt(entry, _hide_item) if str(entry.get(kind, "")).startswith("NAVIGATOR") else entry
                for entry in copy[part]
            ]
    return copy
