"""The answers of `maint config init`, each tried on the spot: manager, login, redaction, SSH, recipient, store."""

import hashlib
import os
import ssl
from pathlib import Path

from maint.adapters.http.proxy import way
from maint.adapters.http.tls import presented, presented_der
from maint.adapters.seal import AgeSeal
from maint.cli.config.asking import Asker
from maint.cli.config.draft import Draft
from maint.config.paths import absolute
from maint.errors import CannotReach, LoginRefused, Refused, UsageError
from maint.model.fleet import Standing
from maint.model.formatting import show_count
from maint.model.json import Json
from maint.model.manager import Door

_LIMIT = 10.0  # seconds
REDACTIONS = ("window", "problem", "accept")
MEANING = {
    "window": "for as long as a backup's export takes, redaction is switched off; the server restarts twice",
    "problem": "a backup without secrets ends with 7; `--open-window` opens the window by hand",
    "accept": "backups without secrets are taken as they are; they show what was, and can never be restored",
}


def place_of(text: str, *ports: int) -> tuple[str, list[int]]:
    """Return host and ports of HOST, HOST:PORT, HOST:PORT:PORT (IPv6 in brackets); UsageError: it is none."""
    host, rest = text, ""
    if text.startswith("["):
        host, _, rest = text[1:].partition("]")
    elif text.count(":") <= len(ports):
        host, _, rest = text.partition(":")
    given = [word for word in rest.split(":") if word]
    if not host or not all(word.isdigit() and 0 < int(word) < 65536 for word in given) or len(given) > len(ports):
        raise UsageError(f"{text!r} is no address", hint="such as cm.example.internal, with its ports after colons")
    return host, [int(word) for word in given] + list(ports[len(given) :])


def manager(draft: Draft, asker: Asker, text: str, *, ca: str, fingerprint: str, plain: bool) -> None:
    """Reach the manager; its certificate is shown, and believed only if its authority is named or somebody says so.

    Args:
        text: HOST, or HOST:PLAIN:TLS.
        ca: PEM file of the authority; "" for none.
        fingerprint: of the certificate that may be believed.
        plain: whether a manager without TLS will do.

    Raises:
        CannotReach: it does not answer, or cannot be believed.
        Refused: nobody believes its certificate, or it serves without TLS and nobody said that this will do.
    """
    host, (plain_port, tls_port) = place_of(text, 7180, 7183)
    draft.values.pop("manager", None)
    draft.add("manager", host=host, plain_port=plain_port, tls_port=tls_port)
    if ca:
        draft.add("manager", ca=str(absolute(ca)))
    with draft.site() as site:
        found = site.manager.presence()
    draft.screen.say(f"  port {plain_port}: {found.plain}; port {tls_port}: {found.tls}")
    if found.door is Door.CLOSED:
        raise CannotReach(f"no port of {host} serves the management API", hint="is it up, and are its ports right?")
    if found.door is Door.PLAIN:
        without = f"{host} serves without TLS: the password would go in clear"
        if not plain and not asker.yes(f"{without}; is that so wanted?"):
            raise Refused(without, hint="switch TLS on, or say --plain")
        return
    if found.silent:
        words = f"the TLS port of {host} cannot be used"
        raise CannotReach(words, detail=[f"port {tls_port}: {found.tls}"], hint=found.remedy)
    if found.chain is None:
        draft.screen.say("  its certificate is verified")
        return
    if ca:
        raise CannotReach(f"{host}'s certificate is not accepted", detail=found.chain.split("; "), hint=found.remedy)
    _believe(draft, asker, (host, tls_port), fingerprint)


def _proxy_to(draft: Draft, place: tuple[str, int]) -> str | None:
    """Return the proxy on the way to a place, None where there is none."""
    host = f"[{place[0]}]" if ":" in place[0] else place[0]
    return way(str(draft.values["proxy"]), f"https://{host}:{place[1]}") if "proxy" in draft.values else None


def _believe(draft: Draft, asker: Asker, place: tuple[str, int], fingerprint: str) -> None:
    """Show a certificate that no authority vouches for, and pin it once somebody believes it."""
    proxy = _proxy_to(draft, place)
    raw = presented_der(place, place[0], _LIMIT, proxy)
    print_ = "SHA256:" + hashlib.sha256(raw).hexdigest()
    for line in (*presented(place, place[0], _LIMIT, proxy), f"fingerprint: {print_}"):
        draft.screen.say(f"  {line}")
    if fingerprint and fingerprint.lower() != print_.lower():
        raise CannotReach(f"{place[0]} shows another certificate than --fingerprint names", hint="who answers there?")
    if not fingerprint and not asker.yes("no authority that is known vouches for it; is this its certificate?"):
        raise Refused(
            f"nobody believes the certificate of {place[0]}",
            hint="--ca FILE names its authority, such as cm-auto-global_cacerts.pem; --fingerprint the certificate",
        )
    pem = ssl.DER_cert_to_PEM_cert(raw).encode()
    draft.add("manager", ca=draft.keep(draft.folder / f"{draft.name}-ca.pem", pem))
    with draft.site() as site:
        chain = site.manager.presence().chain
    if chain is not None:
        raise CannotReach(
            f"the certificate of {place[0]} cannot be used",
            detail=chain.split("; "),
            hint="`maint site status` shows the certificate; name its authority under `ca:`, or have it renewed",
        )


def login(draft: Draft, username: str, password: str) -> None:
    """Log in, by a password's reference; UsageError: it is none, Invalid: leads nowhere, CannotReach: not let in."""
    if password.startswith("file:"):
        password = f"file:{absolute(password.removeprefix('file:'))}"
    draft.add("manager", username=username, password=password)
    with draft.site() as site:
        site.secrets.resolve(password)
        if site.manager.log_in().bootstrap:
            raise LoginRefused(
                f"{username} is not let in with that password, and the account of a fresh server is",
                hint="correct the password; on a server that was just installed give --password factory:",
            )
        draft.screen.say(f"  let in as {username}: release {site.manager.release()}, API v{site.manager.api_version()}")


def redacts(draft: Draft) -> bool:
    """Return whether the manager's API hides secrets, and say what that means."""
    with draft.site() as site:
        hidden = "REDACTED" in site.manager.settings().values()
    if hidden:
        draft.screen.say("  API redaction is on: an export lacks every password, and cannot be restored")
        for word in REDACTIONS:
            draft.screen.say(f"    {word}: {MEANING[word]}")
    else:
        draft.screen.say("  API redaction is off: exports hold every password, and whoever may read the API sees them")
    return hidden


def redaction(draft: Draft, word: str) -> None:
    """Take what a backup does where the API redacts; UsageError: it is none of the words."""
    if word not in REDACTIONS:
        raise UsageError(f"{word!r} is none of {', '.join(REDACTIONS)}", hint=f"window: {MEANING['window']}")
    draft.add("backup", on_redacted=word)


def ssh(draft: Draft, asker: Asker, text: str, *, key: str, host_key: str, known: bytes = b"") -> None:
    """Reach the manager's host over SSH; its key is shown, and recorded beside the configuration once believed.

    Args:
        text: USER@HOST:PORT, or `none`.
        key: file of the private key; "" for those that ssh uses by itself.
        host_key: fingerprint of the host key that may be believed.
        known: host keys that are believed already.

    Raises:
        CannotReach: it cannot be reached, or does not let us in.
        Refused: nobody believes its key.
    """
    draft.values.pop("ssh", None)
    draft.values.pop("hosts", None)
    if text == "none":
        draft.screen.warn("without SSH no window can be opened, no host checked and no server restarted")
        return
    user, at, address = text.rpartition("@")
    host, (port,) = place_of(address, 22)
    path = draft.folder / "known_hosts"
    draft.keep(path, draft.kept(path) or known)
    draft.add("ssh", user=user if at else "root", known_hosts=str(path))
    if key:
        draft.add("ssh", key=str(absolute(key)))
    one: dict[str, Json] = {"name": host, "address": host, "port": port, "groups": ["manager"]}
    draft.values["hosts"] = [one]
    _know(draft, asker, path, host_key)
    with draft.site() as site:
        (reply,) = site.fleet.ask(site.settings.hosts, {host: b"echo here\n"}, timeout=_LIMIT * 2)
    if reply.reason or reply.out.strip() != b"here":
        raise CannotReach(f"{host}: {reply.reason or 'its shell printed something else'}", hint=reply.hint)
    draft.screen.say(f"  let in on {host}; its answer took {reply.seconds:.1f} s")


def _know(draft: Draft, asker: Asker, path: Path, host_key: str) -> None:
    """Show the key that the host presents, and record it once somebody believes it."""
    with draft.site() as site:
        (host,) = site.settings.hosts
        (seen,) = site.fleet.keys([host], timeout=_LIMIT)
    if seen.reason:
        raise CannotReach(f"{host.name} shows no host key: {seen.reason}", hint="are address and port right?")
    draft.screen.say(f"  {seen.recorded_as} shows {seen.type} {seen.fingerprint}, which is {seen.standing.value}")
    if seen.standing is Standing.KNOWN:
        return
    if seen.standing is not Standing.UNKNOWN:
        raise Refused(
            f"the host key of {host.name} is {seen.standing.value}", hint=f"look at {path}: who answers there?"
        )
    if host_key != seen.fingerprint and (host_key or not asker.yes("is this its key?")):
        raise Refused(
            f"nobody believes the host key of {host.name}", hint=f"if it is its own: --host-key {seen.fingerprint}"
        )
    line = f"{seen.recorded_as} {seen.type} {seen.key}\n".encode()
    draft.keep(path, draft.kept(path) + line)


def store(draft: Draft, text: str) -> None:
    """See that snapshots can be written there; UsageError: it is no store, CannotReach: no answer, or no right."""
    if "://" not in text:
        text = str(absolute(text))
    draft.add("backup", store=text)
    if "://" in text:
        with draft.site() as site:
            draft.screen.say(f"  {text} answers: {show_count(sum(1 for _ in site.store.names(draft.name)), 'object')}")
        return
    there = next(folder for folder in (Path(text), *Path(text).parents) if folder.exists())
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        raise CannotReach(f"{there} cannot be written to", hint="name another folder, or look at who owns it")
    draft.screen.say(f"  {text} can be written to" + ("" if Path(text).exists() else "; the first backup makes it"))


def recipient(draft: Draft, text: str) -> None:
    """Take a public key (`age1…`), or make a pair (`new:FILE`); Refused: the file is there, or lies in the store."""
    if not text.startswith("new:"):
        draft.add("backup", recipients=[text])
        with draft.site():
            draft.screen.say("  snapshots are encrypted for it; its private key is needed only where they are read")
        return
    path = absolute(text.removeprefix("new:"))
    at = str(draft.section("backup").get("store", ""))
    if at.startswith("/") and path.is_relative_to(at):
        raise Refused(f"{path} lies in the store, with what it opens", hint="name a file elsewhere")
    if path.exists():
        raise Refused(f"{path} is there already", hint="name another file, or give its public key")
    identity, public = AgeSeal().new_identity()
    draft.keep(path, f"{identity.reveal()}\n".encode())
    draft.add("backup", recipients=[public], identity=f"file:{path}")
    draft.screen.say(f"  key pair made for {public}")
    draft.screen.say(f"  its private key goes to {path} (0600)")
    draft.screen.say("  keep a copy of it elsewhere: without it no backup can be read")
