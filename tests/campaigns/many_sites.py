"""A hundred lab sites from one machine, nine broken in ways of their own: how each ends, and whom it holds up.

    .venv/bin/python -m tests.campaigns.many_sites FOLDER [SITES [WAIT]]

by hand, as root (a full store is a file system of its own). Managers let an export wait for so many seconds.
"""

import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from maint.cli.estate.for_each import in_words
from maint.cli.estate.processes import ProcessEnd
from maint.config.yaml import dump, load
from maint.lab.manager.load import Options
from maint.lab.pki import Authority
from maint.lab.running import Lab
from tests.benchmarks.estate import AT_ONCE, MAINT
from tests.benchmarks.measure import run
from tests.ports import closed_port

Sites = dict[str, dict[str, Any]]
LIMIT = "120s"  # of each site
# What each way of being broken ends `backup create` with, and a word of its reason.
BROKEN = {
    "down": (4, "refused"),
    "password": (4, "401"),
    "hanging": (4, "no answer in"),
    "expired": (4, "certificate"),
    "redacting": (7, "audit"),
    "full": (1, "no space"),
    "no-store": (1, "cannot list"),
    "no-key": (3, "cannot read the secret"),
    "killed": (137, "sigkill"),
}


def tell(words: str) -> None:
    """Show a line."""
    sys.stdout.write(f"{words}\n")
    sys.stdout.flush()


def brought_up(stack: ExitStack, folder: Path, switches: dict[str, str]) -> dict[str, Any]:
    """Bring a lab up; return its site's settings."""
    lab = stack.enter_context(Lab(folder, Options(ssh=False, switches=switches)))
    site = dict(load((lab.folder / "config.yaml").read_text(), "config.yaml").data["sites"]["lab"])
    site.pop("virtual_clusters", None)
    return {**site, "labels": {"state": "well"}}


def silent(stack: ExitStack) -> int:
    """Return a port that lets everybody in and never answers."""
    server = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=64))
    return int(server.getsockname()[1])


def expired(stack: ExitStack, folder: Path) -> tuple[int, Path]:
    """Return a TLS port whose certificate has expired, and the authority that it comes from."""
    authority = Authority.create(datetime.now(UTC))
    authority.save(folder)
    pair = authority.expired(["127.0.0.1"], datetime.now(UTC))
    chain = folder / "chain.pem"
    chain.write_bytes(authority.chain_pem(pair) + pair.key_pem)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(chain)
    server = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=64))

    def answer() -> None:
        while True:
            try:
                accepted = server.accept()[0]
            except OSError:  # it is over
                return
            with accepted:
                try:
                    context.wrap_socket(accepted, server_side=True).close()
                except OSError:  # the other side does not like what it is shown
                    continue

    threading.Thread(target=answer, daemon=True).start()
    root = folder / "root.pem"
    root.write_bytes(authority.root.pem)
    return int(server.getsockname()[1]), root


def spoilt(stack: ExitStack, folder: Path, sites: Sites) -> None:
    """Break the first sites, each in a way of its own."""
    names = dict(zip(BROKEN, sites, strict=False))
    for way, name in names.items():
        sites[name]["labels"] = {"state": way}
    manager = {way: sites[name]["manager"] for way, name in names.items()}
    backup = {way: sites[name]["backup"] for way, name in names.items()}
    manager["down"] |= {"plain_port": closed_port(), "tls_port": closed_port()}
    wrong = folder / "wrong"
    wrong.write_text("wrong")
    wrong.chmod(0o600)
    manager["password"] |= {"password": f"file:{wrong}", "bootstrap": {"username": "x", "password": f"file:{wrong}"}}
    manager["hanging"] |= {"plain_port": silent(stack), "tls_port": silent(stack)}
    port, root = expired(stack, folder)
    manager["expired"] |= {"plain_port": closed_port(), "tls_port": port, "ca": str(root)}
    full = folder / "full"
    full.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=32k", "none", full], check=True)
    stack.callback(subprocess.run, ["umount", "-l", full], check=False)
    backup["full"]["store"] = str(full)
    (folder / "file").write_text("")
    backup["no-store"]["store"] = f"{folder}/file/store"
    backup["no-key"]["signing_key"] = f"file:{folder}/not-there"


def struck(site: str, after: float) -> None:
    """Kill the process that works for a site, some seconds after it began."""
    end = time.monotonic() + 600
    while time.monotonic() < end:
        for one in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                words = one.read_bytes().split(b"\0")
            except OSError:  # it has ended
                continue
            if site.encode() in words and b"create" in words:
                time.sleep(after)
                os.kill(int(one.parent.name), signal.SIGKILL)
                return
        time.sleep(0.2)


def said(config: Path, command: str, *words: str) -> dict[str, dict[str, Any]]:
    """Carry a command out for several sites, print what it took and how those ended that failed; return each answer."""
    cost = run([*MAINT, *command.split(), *words, "--config", str(config), "-o", "json"], accept=range(256))
    at = cost.out.index('{\n  "schema"')
    answers = json.JSONDecoder().raw_decode(cost.out[at:])[0]["sites"]
    counts = dict(Counter(one["exit"] for one in answers))
    tell(f"{command}: {cost.wall:.0f} s, {cost.cpu:.0f} s of the processor, {cost.memory / 1e6:.0f} MB; exits {counts}")
    for one in answers:
        if one["exit"]:
            why = in_words(ProcessEnd(one["site"], one["exit"], one["error"], one["result"]))
            tell(f"  {one['site']}: {one['exit']} after {one['seconds']} s: {why}")
    return {one["site"]: one for one in answers}


def main(folder: Path, count: int, wait: float) -> None:
    """Bring all up, break some, and do to all what is done in a night."""
    folder.mkdir(mode=0o700)
    ways = list(BROKEN)
    with ExitStack() as stack:
        sites: Sites = {}
        for number in range(count):
            way = ways[number] if number < len(ways) else ""
            redaction = "on" if way == "redacting" else "off"
            pause = 30.0 if way == "killed" else wait
            switches = {"redaction-default": redaction, "get-seconds": str(pause)}
            sites[f"site{number:03}"] = brought_up(stack, folder / "labs" / f"{number:03}", switches)
        spoilt(stack, folder, sites)
        config = folder / "config.yaml"
        config.write_text(dump({"state": str(folder / "state"), "sites": sites}))
        tell(f"{count} sites, {len(ways)} broken; exports wait {wait:.0f} s")
        night(folder, config, dict(zip(ways, sites, strict=False)))
    shutil.rmtree(folder)


def night(folder: Path, config: Path, broken: dict[str, str]) -> None:
    """Do to all sites what is done in a night, and hold it against what is promised."""
    pages = config.with_name("pages.yaml")
    whole: Any = load(config.read_text(), "config.yaml").data
    pages.write_text(dump({**whole, "report": {"folder": str(folder / "pages")}}))
    threading.Thread(target=struck, args=(broken["killed"], 8.0), daemon=True).start()
    every = ("--all", "--at-once", str(AT_ONCE), "--allow-plain", "--timeout", LIMIT)
    created = said(config, "backup create", *every, "--yes")
    for way, (code, words) in BROKEN.items():
        one = created[broken[way]]
        assert one["exit"] == code and words in json.dumps(one["error"]).lower(), (way, one)
    assert {one["exit"] for name, one in created.items() if name not in broken.values()} == {0}
    verified = said(pages, "backup verify", *every)  # each site writes its page beside
    assert {one["exit"] for name, one in verified.items() if name not in broken.values()} == {0}
    listed = said(config, "backup list", *every)
    found = {name: (one["result"] or {}).get("snapshots", ()) for name, one in listed.items()}
    well = {name for name, shots in found.items() if any(one["restorable"] for one in shots)}
    tell(f"  {len(well)} sites have a restorable snapshot: all but {', '.join(sorted({*listed} - well))}")
    assert well == {*listed} - {*broken.values()}
    said(config, "backup drill", "--site", max(well), "--site", min(well), "--allow-plain")
    for words in ("site list", "site report"):
        cost = run([*MAINT, *words.split(), "--config", str(pages), "-o", "json"])
        tell(f"{words}: {cost.wall:.1f} s, {cost.cpu:.1f} s of the processor, {cost.memory / 1e6:.0f} MB")


if __name__ == "__main__":
    given = [*sys.argv[2:], "100", "10"]
    main(Path(sys.argv[1]).absolute(), int(given[0]), float(given[1] if len(sys.argv) > 3 else 10))
