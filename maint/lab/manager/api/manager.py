"""The manager itself (M3, M7 to M11): build, settings, whole deployment, licence, truststore, accounts with roles."""

import base64
import hashlib
import json
import re
import uuid
from datetime import UTC, datetime, timedelta

from maint.lab.http.messages import ApiError, BadForm, Response, form_part
from maint.lab.manager import accounts, commands, put_deployment
from maint.lab.manager.accounts import administrators, internal, set_password
from maint.lab.manager.api.messages import Request, listing, one_of, plain, texts
from maint.lab.manager.document import Doc, Hide, as_of, clusters, dumps, hidden, users
from maint.lab.manager.world import World


def version(world: World, _request: Request) -> Response:
    """Answer what was built."""
    return Response(value=world.deployment.get("versionInfo"))


def database(_world: World, _request: Request) -> Response:
    """Answer the kind of database."""
    return Response(value={"scmDbType": "POSTGRESQL", "embeddedDbUsed": False})


def shutdown_readiness(world: World, _request: Request) -> Response:
    """Answer whether the server could be stopped now."""
    busy = any(command.active for command in world.commands.values())
    return Response(value={"state": "NOT_READY" if busy else "READY"})


def instances(world: World, _request: Request) -> Response:
    """List the servers of this manager: the machines they run on, whatever its deployment says (M10.5)."""
    servers = world.machines[: int(world.switches.number("server-instances"))]
    stamp = commands.moment(world.now().timestamp())
    times = {"createdTime": stamp, "lastUpdatedTime": stamp}
    return listing([
        {"cmServerId": f"server-{number}", "name": name, "ipAddress": address, **times}
        for number, (name, address) in enumerate(servers, 1)
    ])  # fmt: skip


def peers(world: World, request: Request) -> Response:
    """List peers; their passwords are never shown here."""
    listed = as_of({"peers": world.deployment.get("peers") or []}, request.api)["peers"]
    return listing([{name: value for name, value in peer.items() if name != "password"} for peer in listed])


def api_version(world: World, _request: Request) -> Response:
    """Answer the highest API version as bare text."""
    text = {"bare": "v{}", "quoted": '"v{}"', "line": "v{}\n"}[world.switches["version-body"]].format(world.api)
    return plain(text, world.switches["version-content-type"])


def echo(_world: World, request: Request) -> Response:
    """Answer the message."""
    return Response(value={"message": request.word("message", "Hello, World!")})


def echo_error(_world: World, request: Request) -> Response:
    """Always fail, with the message."""
    raise ApiError(500, request.word("message", "Default error message"))


def read_deployment(world: World, request: Request) -> Response:
    """Export everything, redacted or not."""
    view = request.word("view", "export").lower()
    if view not in ("export", "export_redacted"):
        raise ApiError(400, f"View '{view}' is not supported; supported are: export, export_redacted.")
    seconds = world.switches.number("get-seconds")
    return Response(text=exported(world, request, view == "export_redacted"), delay=seconds)


def replace_deployment(world: World, request: Request) -> Response:
    """Put the document of the body in force, whole or not at all."""
    if world.faults.strikes("put-fails", request.call):
        raise ApiError(500, "Transaction rolled back: the lab was told to let it fail.")
    body = request.document("the deployment")
    try:
        deployment = put_deployment.prepared(world, body, request.api, request.flag("deleteCurrentDeployment"))
    except put_deployment.NotAccepted as error:
        raise ApiError(400, str(error)) from error
    world.replace_deployment(deployment, added=not request.flag("deleteCurrentDeployment"))
    return Response(text=exported(world, request, False))


def exported(world: World, request: Request, redacted: bool) -> bytes:
    """Return the document as one account sees it, in the shape of the path's version, nulls included (recordings)."""
    switches = world.switches
    secret = redacted or world.redaction
    under = switches["pwhash-in-redacted-view" if redacted else "pwhash-under-redaction"]
    full = accounts.Grant(accounts.ADMIN) in accounts.grants(world.deployment, request.user)
    hide = Hide(
        values=secret,
        accounts=secret and under == "absent",
        peers=secret and switches["peer-password-redacted"] == "yes",
        navigator=not full,
    )
    copy = hidden(world.deployment, hide)
    if request.api < world.shape:
        copy = as_of(copy, request.api)
    return dumps(_extras(world, {**copy, "timestamp": commands.moment(world.now().timestamp())})).encode()


def _extras(world: World, doc: Doc) -> Doc:
    # Whether an export has these fields is not known (U15).
    if world.switches["extra-fields"] == "present":
        doc["clusters"] = [
            {"uuid": put_deployment.uuid_for(cluster), "entityStatus": "NONE", **cluster} for cluster in clusters(doc)
        ]
    return put_deployment.without_hostnames(doc) if world.switches["hostname-in-refs"] == "absent" else doc


_OFF = "Auto-TLS is not enabled."
_NONE = {
    "express": "This installation is currently running Cloudera Express.",
    "cloudera": "This installation currently does not have a Cloudera license.",
    "no-license": "This installation currently has no license.",
}
_SHAPE = re.compile(
    r"-----BEGIN PGP SIGNED MESSAGE-----\r?\n(?:[^\r\n]+\r?\n)*\r?\n(.*?)\r?\n-----BEGIN PGP SIGNATURE-----.*"
    r"-----END PGP SIGNATURE-----",
    re.DOTALL,
)


def truststore_password(world: World, request: Request) -> Response:
    """Answer the bare password."""
    password = world.truststore_password()
    if not password:
        return _off(world)
    if world.faults.strikes("wrong-truststore-password", request.call):
        digest = hashlib.sha256(password.encode()).digest()
        password = base64.urlsafe_b64encode(digest).decode().rstrip("=")
    return plain(password)


def truststore(world: World, request: Request) -> Response:
    """Answer the truststore as JKS or PEM."""
    if not world.truststore_password():
        return _off(world)
    kind = request.word("type", "JKS").upper()
    if kind not in ("JKS", "PEM"):
        raise ApiError(400, f"Truststore type '{kind}' is not supported; supported are: JKS, PEM.")
    content = world.truststore_files.get(kind)
    if content is None:
        raise ApiError(500, "The truststore is missing on the server.")
    return Response(text=content, content_type="application/octet-stream")


def _off(world: World) -> Response:
    chosen = world.switches["truststore-off"]
    if chosen == "empty":
        return plain("")
    raise ApiError(int(chosen), _OFF)


def read_installed_license(world: World, request: Request) -> Response:
    """Answer the licence, or 404 with one of the three known texts."""
    if world.trial == "running" and not world.license:
        return Response(value={"owner": "Trial", "uuid": "00000000-0000-0000-0000-000000000000"})
    if not world.license:
        raise ApiError(404, _NONE[world.switches["no-license-message"]])
    return Response(value=_license(world.license, request.api))


def upload_license(world: World, request: Request) -> Response:
    """Install the licence of the part named `license`."""
    try:
        content = b"".join(form_part([request.content], request.headers.get("content-type", ""), "license"))
    except BadForm as error:
        raise ApiError(400, "The request has no part named 'license'.") from error
    try:
        world.license = read_license(content, world.now())
    except BadLicense as error:
        raise ApiError(int(world.switches["bad-license"]), str(error)) from error
    world.license_counts = world.switches["license-effective"] == "at-once"
    world.trial = "used" if world.trial == "running" else world.trial
    return Response(value=_license(world.license, request.api))


def trial(world: World, request: Request) -> Response:
    """Begin the trial, which can be had once, or end it."""
    before, after, refusal = {
        "begin": ("unused", "running", "Trial has been used."),
        "end": ("running", "used", "No trial is running."),
    }[request.parts["verb"]]
    if world.trial != before:
        raise ApiError(400, refusal)
    world.trial = after
    return Response(204)


def license_usage(world: World, _request: Request) -> Response:
    """Answer which licensed features are in use."""
    named: Doc = {str(cluster.get("name")): {} for cluster in world.deployment.get("clusters") or []}
    return Response(value={"totals": {}, "clusters": named})


def _license(inner: Doc, api: int) -> Doc:
    shown: Doc = {
        "owner": inner["name"],
        "uuid": inner["uuid"],
        "expiration": f"{inner['expirationDate']}T00:00:00.000Z",
    }
    if api >= 32:
        names = [str(name) for name in inner.get("features") or []]
        shown["features"] = [{"name": name, "enabled": True, "description": name.title()} for name in names]
        shown["deactivationDate"] = inner.get("deactivationDate")
        shown["startDate"] = inner.get("startDate")
    return shown


def read_users(world: World, request: Request) -> Response:
    """List accounts; no hashes here, and no internal ones (recordings)."""
    return listing([_account(user, request.api) for user in users(world.deployment) if not internal(user)])


def read_user(world: World, request: Request) -> Response:
    """Answer one account."""
    return Response(value=_account(_user(world, request), request.api))


def make_users(world: World, request: Request) -> Response:
    """Make accounts that log in with a password."""
    made: list[Doc] = []
    for entry in request.entries("the list of users"):
        name, password = entry.get("name"), entry.get("password")
        if not name or not isinstance(name, str) or not password:
            raise ApiError(400, "A user needs a name and a password.")
        if any(each.get("name") == name for each in [*users(world.deployment), *made]):
            raise ApiError(400, f"User '{name}' already exists.")
        user = {"name": name} | _roles_of(world, entry)
        set_password(user, str(password), world.chance, world.switches["pwhash-algorithm"])
        made.append(user)
    world.deployment["users"] = sorted([*users(world.deployment), *made], key=lambda each: str(each["name"]).encode())
    world.login_users = [*world.login_users, *made]
    for user in made:
        _enrol(world, "users", {"name": user["name"]}, user)
    return listing([_account(user, request.api) for user in made])


def change_user(world: World, request: Request) -> Response:
    """Give an account other roles, another password, or both; its name stays."""
    before, entry = _user(world, request), request.document("the user")
    user = dict(before)
    if "roles" in entry or "authRoles" in entry:
        user = {name: value for name, value in user.items() if name not in ("roles", "authRoles")}
        user |= _roles_of(world, entry)
    if entry.get("password"):
        set_password(user, str(entry["password"]), world.chance, world.switches["pwhash-algorithm"])
    _have_users(world, [user if each is before else each for each in users(world.deployment)])
    world.login_users = [each for each in world.login_users if each.get("name") != user["name"]] + [user]
    _enrol(world, "users", {"name": user["name"]}, user)
    return Response(value=_account(user, request.api))


def delete_user(world: World, request: Request) -> Response:
    """Delete an account; it is let in no more."""
    user = _user(world, request)
    _have_users(world, [each for each in users(world.deployment) if each is not user])
    world.login_users = [each for each in world.login_users if each.get("name") != user["name"]]
    world.sessions = {key: name for key, name in world.sessions.items() if name != user["name"]}
    _enrol(world, "users", {"name": user["name"]}, {})
    return Response(value=_account(user, request.api))


def make_mappings(world: World, request: Request) -> Response:
    """Map groups of a directory to roles."""
    listed, made = list(world.deployment.get("externalUserMappings") or []), list[Doc]()
    for entry in request.entries("the list of mappings"):
        if not entry.get("name") or not entry.get("type"):
            raise ApiError(400, "An external user mapping needs a name and a type.")
        if any(all(each.get(key) == entry[key] for key in ("name", "type")) for each in [*listed, *made]):
            raise ApiError(400, f"External user mapping '{entry['name']}' already exists.")
        own = {"name": entry["name"], "type": entry["type"], "uuid": str(uuid.uuid4())}
        made.append(own | {"authRoles": []} | _roles_of(world, entry))
    world.deployment["externalUserMappings"] = [*listed, *made]
    for each in made:
        _enrol(world, "externalUserMappings", _mapping_ref(each), each)
    return listing(made)


def change_mapping(world: World, request: Request) -> Response:
    """Map a group to other roles."""
    found = _mapping(world, request)
    found |= _roles_of(world, request.document("the mapping"))
    _enrol(world, "externalUserMappings", _mapping_ref(found), found)
    return Response(value=found)


def delete_mapping(world: World, request: Request) -> Response:
    """Delete the mapping of a group."""
    found = _mapping(world, request)
    listed = world.deployment["externalUserMappings"]
    world.deployment["externalUserMappings"] = [each for each in listed if each is not found]
    _enrol(world, "externalUserMappings", _mapping_ref(found), {})
    return Response(value=found)


def no_accounts(_world: World, _request: Request) -> list[Doc]:
    """Return the external accounts, of which the lab has none."""
    return []


def _user(world: World, request: Request) -> Doc:
    return one_of(users(world.deployment), "name", request.parts["user"], "User")


def _have_users(world: World, wanted: list[Doc]) -> None:
    # A manager without an administrator could not be given one again.
    doc = world.deployment
    if administrators(doc) and not administrators({**doc, "users": wanted}):
        raise ApiError(400, "At least one user must be a Full Administrator who logs in with a password.")
    doc["users"] = wanted


def _mapping(world: World, request: Request) -> Doc:
    listed = list(world.deployment.get("externalUserMappings") or [])
    return one_of(listed, "uuid", request.parts["uuid"], "External user mapping")


def _mapping_ref(mapping: Doc) -> Doc:
    return {key: mapping.get(key) for key in ("uuid", "name", "type")}


def _roles_of(world: World, entry: Doc) -> Doc:
    # The roles that a body names, as accounts and mappings refer to them: by uuid, name or display name.
    known, names, found = world.deployment.get("authRoles"), texts(entry, "roles", "the roles"), list[Doc]()
    if names and not known:  # a release before 6.2
        return {"roles": names}
    for ref in entry.get("authRoles") or [{"name": name} for name in names]:
        key = next((key for key in ("uuid", "name", "displayName") if ref.get(key)), "name")
        role = one_of(known or [], key, ref.get(key), "Role")
        found.append({name: role.get(name) for name in ("displayName", "name", "uuid")})
    return {"authRoles": found}


def _enrol(world: World, field: str, ref: Doc, owner: Doc) -> None:
    # Each role lists who has it, too.
    given = {str(role.get("uuid")) for role in owner.get("authRoles") or []}
    for role in world.deployment.get("authRoles") or []:
        listed = role.get(field) or []
        others = [each for each in listed if any(each.get(key, value) != value for key, value in ref.items())]
        role[field] = sorted(
            [*others, *([ref] if role.get("uuid") in given else [])], key=lambda each: str(each.get("name"))
        )
    world.changed()


def roles_metadata(world: World, _request: Request) -> list[Doc]:
    """Return what is known of each role, without who has it."""
    return [
        {"displayName": each.get("displayName"), "uuid": each.get("uuid"), "role": each.get("name"),
         "authorities": [], "allowedScopes": []}
        for each in world.deployment.get("authRoles") or []
    ]  # fmt: skip


def sessions(world: World, _request: Request) -> Response:
    """List open sessions: one for each call that came without a cookie (M2.2)."""
    stamp = commands.moment(world.now().timestamp())
    return listing([
        {"name": name, "remoteAddr": "127.0.0.1", "lastRequest": stamp} for name in world.sessions.values()
    ])  # fmt: skip


def expire_sessions(world: World, request: Request) -> Response:
    """End the sessions of an account."""
    world.sessions = {key: name for key, name in world.sessions.items() if name != request.parts["user"]}
    return Response(204)


def _account(user: Doc, api: int) -> Doc:
    kept = {name: user[name] for name in ("name", "roles", "authRoles") if name in user}
    shown: Doc = as_of({"users": [kept]}, api)["users"][0]
    return shown


class BadLicense(ValueError):
    """The text is not a licence, or one that is not in date."""


def make_license(owner: str = "Laboratory", days: int = 365, now: datetime | None = None) -> bytes:
    """Return a well-formed licence; a negative number of days makes an expired one."""
    today = (now or datetime.now(UTC)).date()
    inner = {
        "version": 1,
        "name": owner,
        "uuid": str(uuid.uuid5(uuid.NAMESPACE_DNS, owner)),
        "expirationDate": str(today + timedelta(days=days)),
        "startDate": str(min(today, today + timedelta(days=days)) - timedelta(days=1)),
        "features": ["CLOUDERA_MANAGER", "NAVIGATOR"],
    }
    armor = base64.b64encode(b"this licence was made by a laboratory and is signed by no one").decode()
    lines = [
        "-----BEGIN PGP SIGNED MESSAGE-----", "Hash: SHA256", "", json.dumps(inner, indent=2),
        "-----BEGIN PGP SIGNATURE-----", "", armor, "-----END PGP SIGNATURE-----", "",
    ]  # fmt: skip
    return "\n".join(lines).encode()


def read_license(content: bytes, now: datetime) -> Doc:
    """Return the inner part of a licence; `BadLicense` where it is malformed or out of date."""
    found = _SHAPE.search(content.decode("utf-8", "replace"))
    if not found:
        raise BadLicense("The file is not a valid license: no signed message in it.")
    try:
        inner = json.loads(re.sub(r"^- ", "", found[1], flags=re.MULTILINE))
        name, number, last = str(inner["name"]), str(inner["uuid"]), str(inner["expirationDate"])[:10]
        expires = datetime.fromisoformat(last).replace(tzinfo=UTC)
    except (ValueError, KeyError, TypeError) as error:
        raise BadLicense("The file is not a valid license: its content cannot be read.") from error
    if expires + timedelta(days=1) <= now:
        raise BadLicense(f"The license of {name} expired on {last}.")
    return {**inner, "name": name, "uuid": number, "expirationDate": last}
