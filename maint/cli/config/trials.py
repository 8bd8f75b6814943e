"""The answers of `maint config init`, each tried on the spot: manager, login, redaction, SSH, recipient, store."""

import hashlib
import os
import ssl
from contextlib import nullcontext, suppress
from pathlib import Path

from maint import files
from maint.adapters.http.tls import presented, presented_der, proxy_for
from maint.adapters.seal import AgeSeal
from maint.adapters.stores.stored_files import trial_name
from maint.cli.config.draft import Asker, Draft
from maint.config.paths import absolute
from maint.config.schema import HostSettings
from maint.errors import CannotReach, Invalid, LoginRefused, Refused, StoreFailed, UsageError
from maint.model.fleet import Standing
from maint.model.formatting import show_count
from maint.model.json import Json
from maint.model.manager import Door, Presence
from maint.ports import Store

_LIMIT = 10.0  # seconds
_WHOSE = (
    "no authority that is believed vouches for it; is this its certificate (y, n, or the PEM file of its authority)"
)
USUAL_KEYS = "usual"  # the word for the private keys that ssh uses by itself
REDACTIONS = ("window", "problem", "accept")
MEANING = {
    "window": "for as long as a backup's export takes, redaction is switched off; the server restarts twice",
    "problem": "a backup without secrets ends with 7; `--open-window` opens the window by hand",
    "accept": "backups without secrets are taken as they are; they show what was, and can never be restored",
}


def place_of(text: str, *ports: int) -> tuple[str, list[int]]:
    """Return host and ports of HOST, HOST:PORT, HOST:PORT:PORT (IPv6 in brackets); UsageError: it is not one."""
    host, rest = text, ""
    if text.startswith("["):
        host, _, rest = text[1:].partition("]")
    elif text.count(":") <= len(ports) and "::" not in text:
        host, _, rest = text.partition(":")
    given = [word for word in rest.split(":") if word]
    if not host or not all(map(_is_port, given)) or len(given) > len(ports):
        raise UsageError(
            f"{text!r} is not an address", hint="such as cm.example.internal, without https://, its ports after colons"
        )
    return host, [int(word) for word in given] + list(ports[len(given) :])


def _is_port(word: str) -> bool:
    return word.isdecimal() and len(word) < 6 and 0 < int(word) < 65536


def manager(draft: Draft, asker: Asker, text: str, *, ca: str, fingerprint: str, plain: bool) -> None:
    """Reach the manager; its certificate is shown, and believed only if a flag vouches for it or somebody says so.

    Args:
        text: HOST, or HOST:PLAIN:TLS.
        ca: PEM file of the authority of its certificate; "" for none.
        fingerprint: SHA-256 of its certificate; "" for none.
        plain: whether a manager without TLS will do.

    Raises:
        CannotReach: it does not answer, or cannot be believed.
        Refused: nobody believes its certificate, or it serves without TLS and nobody said that this will do.
    """
    host, (plain_port, tls_port) = place_of(text, 7180, 7183)
    draft.values["manager"] = {"host": host, "plain_port": plain_port, "tls_port": tls_port}
    if ca:
        draft.add("manager", ca=str(absolute(ca)))
    found = _presence(draft)
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
    pem = _shown_by(draft, (host, tls_port)) if fingerprint or found.chain is not None else ""
    if fingerprint:
        _compare(host, fingerprint, pem)
    if found.chain is None:
        draft.screen.say("  its certificate is verified")
        return
    _believe(draft, asker, (host, tls_port), pem, ca or ("" if fingerprint else None))


def _presence(draft: Draft) -> Presence:
    with draft.site() as site:
        return site.manager.presence()


def _proxy_to(draft: Draft, place: tuple[str, int]) -> str | None:
    """Return the proxy on the way to a place, None where there is none."""
    host = f"[{place[0]}]" if ":" in place[0] else place[0]
    return proxy_for(str(draft.values["proxy"]), f"https://{host}:{place[1]}") if "proxy" in draft.values else None


def _shown_by(draft: Draft, place: tuple[str, int]) -> str:
    """Return the certificate that a place shows, believed or not."""
    with files.explaining(f"{place[0]} shows no certificate", "is it up, and are its ports right?", CannotReach):
        return ssl.DER_cert_to_PEM_cert(presented_der(place, place[0], _LIMIT, _proxy_to(draft, place)))


def _print_of(pem: str) -> str:
    return "SHA256:" + hashlib.sha256(ssl.PEM_cert_to_DER_cert(pem)).hexdigest()


def _compare(host: str, fingerprint: str, pem: str) -> None:
    """Raise CannotReach where a certificate has another fingerprint; letter case, SHA256: and colons do not matter."""
    if fingerprint.lower().removeprefix("sha256:").replace(":", "") != _print_of(pem).removeprefix("SHA256:"):
        raise CannotReach(
            f"{host} shows another certificate than --fingerprint names",
            detail=[f"fingerprint: {_print_of(pem)}"],
            hint="who answers there?",
        )


def _believe(draft: Draft, asker: Asker, place: tuple[str, int], pem: str, ca: str | None) -> None:
    """Show a certificate that is not believed, until something vouches for it or somebody says that it is not his.

    Args:
        ca: what vouches for it: PEM file of its authority, "" for itself, None for what somebody says.
    """
    lines = (*presented(place, place[0], _LIMIT, _proxy_to(draft, place)), f"fingerprint: {_print_of(pem)}")
    shown = "\n".join(f"  {line}" for line in lines)
    if not asker.there:
        draft.screen.say(shown)
    question = f"{shown}\n{_WHOSE}"
    while True:
        try:
            if ca is None:
                answer, question = asker.words(question, "n"), _WHOSE
                ca = _said(place[0], answer, pem)
            _vouch(draft, place[0], ca, pem)
        except CannotReach as error:
            if not asker.there:
                raise
            asker.fails(error)
            ca = None
        else:
            return


def _said(host: str, answer: str, pem: str) -> str:
    """Return what somebody lets vouch for a certificate by y, its fingerprint, or a PEM file; see `_believe`."""
    if answer.lower() in ("n", "no"):
        raise Refused(
            f"nobody believes the certificate of {host}",
            detail=[f"fingerprint: {_print_of(pem)}"],
            hint="--ca FILE names its authority, such as cm-auto-global_cacerts.pem; --fingerprint the certificate",
        )
    if answer.lower().startswith("sha256:"):
        _compare(host, answer, pem)
        return ""
    return "" if answer.lower() in ("y", "yes") else answer


def _vouch(draft: Draft, host: str, ca: str, pem: str) -> None:
    """Believe a certificate because of its authority's PEM file, or by itself; CannotReach: it is not accepted so."""
    draft.add("manager", ca=str(absolute(ca)) if ca else draft.keep(_pin(draft, pem), pem.encode()))
    found = _presence(draft)
    if found.chain is None:
        draft.screen.say("  its certificate is verified" if ca else "  its certificate is pinned")
        return
    way = "`maint site status` shows the certificate; name its authority, or have it renewed"
    raise CannotReach(
        f"{host}'s certificate is not accepted", detail=found.chain.split("; "), hint=found.remedy if ca else way
    )


def _pin(draft: Draft, pem: str) -> Path:
    """Return where a certificate is kept: beside the configuration, in no other's place."""
    names = (f"{draft.name}-ca{number}.pem" for number in ("", *(f"-{one}" for one in range(2, 1000))))
    places = (draft.folder / name for name in names)
    return next(path for path in places if draft.kept(path) in (b"", pem.encode()))


def login(draft: Draft, username: str, password: str) -> None:
    """Log in, by a password's reference; UsageError: it is not one, Invalid: leads nowhere, CannotReach: not let in."""
    if password.startswith("file:"):
        password = f"file:{absolute(password.removeprefix('file:'))}"
    draft.add("manager", username=username, password=password)
    draft.forget_secrets()
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
        draft.screen.say(
            "  API redaction is off: exports hold every password, and everyone who may read the API sees them"
        )
    return hidden


def redaction(draft: Draft, word: str) -> None:
    """Take what a backup does where the API redacts; UsageError: it is none of the words."""
    if word not in REDACTIONS:
        raise UsageError(f"{word!r} is none of {', '.join(REDACTIONS)}", hint=f"window: {MEANING['window']}")
    draft.add("backup", on_redacted=word)


def ssh(draft: Draft, asker: Asker, text: str, key: str, *, host_key: str, known: bytes = b"") -> None:
    """Reach the manager's host over SSH; its key is shown, and recorded beside the configuration once believed.

    Args:
        text: USER@HOST:PORT, or `none`.
        key: file of the private key; `usual` for those that ssh uses by itself.
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
        if draft.section("backup").get("on_redacted") == "window":
            draft.add("backup", on_redacted="problem")
            draft.screen.warn(f"so on_redacted is problem: {MEANING['problem'].partition(';')[0]}")
        return
    user, at, address = text.rpartition("@")
    host, (port,) = place_of(address, 22)
    path = draft.folder / "known_hosts"
    draft.keep(path, draft.kept(path) or known)
    draft.add("ssh", user=user if at else "root", known_hosts=str(path))
    if key != USUAL_KEYS:
        draft.add("ssh", key=str(absolute(key)))
    name = host if len(host) <= 64 and ":" not in host else "manager"
    one: dict[str, Json] = {"name": name, "address": host, "port": port, "groups": ["manager"]}
    draft.values["hosts"] = [one]
    with draft.site() as site:
        _know(draft, asker, site.settings.hosts[0], host_key)
    with draft.site() as site:
        (reply,) = site.fleet.ask(site.settings.hosts, {name: b"echo here\n"}, timeout=_LIMIT * 2)
    if reply.reason or reply.out.strip() != b"here":
        raise CannotReach(f"{host}: {reply.reason or 'its shell printed something else'}", hint=reply.hint)
    draft.screen.say(f"  let in on {host}; its answer took {reply.seconds:.1f} s")


def _know(draft: Draft, asker: Asker, host: HostSettings, host_key: str) -> None:
    """Show the key that a host presents, and record it once somebody believes it."""
    path = draft.folder / "known_hosts"
    with draft.site() as site:
        (seen,) = site.fleet.keys([host], timeout=_LIMIT)
    if seen.reason:
        raise CannotReach(f"{host.address} shows no host key: {seen.reason}", hint="are address and port right?")
    words = f"  {seen.recorded_as} shows {seen.type} {seen.fingerprint}, which is {seen.standing.value}"
    if seen.standing is Standing.KNOWN and host_key in ("", seen.fingerprint):
        draft.screen.say(words)
        return
    if seen.standing not in (Standing.UNKNOWN, Standing.KNOWN):
        draft.screen.say(words)
        raise Refused(
            f"the host key of {host.address} is {seen.standing.value}", hint=f"look at {path}: who answers there?"
        )
    if host_key != seen.fingerprint and (host_key or not asker.yes(f"{words}\nis this its key?")):
        raise Refused(
            f"nobody believes the host key of {host.address}",
            detail=[words.strip()],
            hint="compare it with `ssh-keygen -lf` on that host; if it is its own, answer y"
            if asker.there
            else f"if it is its own: --host-key {seen.fingerprint}",
        )
    before, line = draft.kept(path), f"{seen.recorded_as} {seen.type} {seen.key}\n".encode()
    draft.keep(path, before + (b"" if before.endswith(b"\n") or not before else b"\n") + line)


def store(draft: Draft, asker: Asker, text: str, s3: dict[str, Json]) -> None:
    """Write a file where snapshots are to go, and take it away again; in a dry run only look there.

    Args:
        s3: what is said of how a bucket is reached.

    Raises:
        UsageError: it is not a store.
        CannotReach: no folder can be made or written to there.
        StoreFailed: the store does not answer, or does not take a file.
    """
    folder = None if "://" in text else absolute(text)
    draft.add("backup", store=text if folder is None else str(folder), **({"s3": s3} if s3 else {}))
    if text.startswith("sftp://") and draft.section("ssh") and asker.there:
        host, (port,) = place_of(text.removeprefix("sftp://").partition("/")[0].rpartition("@")[2], 22)
        _know(draft, asker, HostSettings.model_construct(name="store", address=host, port=port), "")
    where = text if folder is None else str(folder)
    with draft.site() as site:
        try:
            if folder is None:
                count = show_count(sum(1 for _ in site.store.names(draft.name)), "object")
                draft.screen.say(f"  {where} answers: {count}")
            if draft.dry_run:
                if folder is not None:
                    _look(folder)
                draft.screen.say(f"  that {where} takes a file was not tried: a dry run writes none")
                return
            with files.unmade(folder / draft.name) if folder else nullcontext():
                _write(site.store, trial_name(draft.name))
        except (StoreFailed, Invalid) as error:
            if folder is not None:
                words = f"{where} cannot be written to"
                raise CannotReach(words, detail=[error.message, *error.detail], hint=error.hint) from None
            if text.startswith("s3://"):
                error.hint = f"{error.hint}; `--s3 endpoint=URL` and the like say how: `maint help stores`"
            raise
    draft.screen.say(f"  {where} can be written to: a file was put there and taken away again")


def _look(folder: Path) -> None:
    """Raise CannotReach where it can be seen without writing that nothing can be written."""
    there = next(one for one in (folder, *folder.parents) if files.visible(one))
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        raise CannotReach(f"{there} cannot be written to", hint="name another folder, or look at who owns it")


def _write(store: Store, name: str) -> None:
    try:
        with store.create(name) as file:
            file.write(bytes(files.TRIED))
        store.remove(name)
    except BaseException:  # a signal, too; what cannot be removed now is swept later
        with suppress(StoreFailed):
            store.remove(name)
        raise


def recipient(draft: Draft, text: str) -> None:
    """Take a public key (`age1…`), or make a pair (`new:FILE`).

    Raises:
        UsageError: it is neither.
        Refused: the file is there, or lies in the store.
        WorkFailed: it cannot be written.
    """
    if not text.startswith("new:"):
        draft.add("backup", recipients=[text])
        with draft.site():
            draft.screen.say("  snapshots are encrypted for it; its private key is needed only where they are read")
        return
    path = absolute(text.removeprefix("new:"))
    at = str(draft.section("backup").get("store", ""))
    if at.startswith("/") and path.resolve().is_relative_to(Path(at).resolve()):
        raise Refused(f"{path} lies in the store, with what it opens", hint="name a file elsewhere")
    if not draft.free(path):
        raise Refused(f"{path} is there already", hint="name another file, or give its public key")
    draft.try_writing(path)
    identity, public = AgeSeal().new_identity()
    draft.keep(path, f"{identity.reveal()}\n".encode(), tried=False)
    draft.add("backup", recipients=[public], identity=f"file:{path}")
    if draft.dry_run:
        draft.screen.say(f"  a key pair would be made, its private key in {path} (0600)")
        return
    draft.screen.say(f"  key pair made for {public}")
    draft.screen.say(f"  its private key goes to {path} (0600)")
    draft.screen.say("  keep a copy of it elsewhere: without it no backup can be read")
    draft.screen.say("  once there is a backup, keep `keys/signing.pub` of its state folder, too: `maint help restore`")
