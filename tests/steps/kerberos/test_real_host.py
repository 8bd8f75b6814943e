"""A user's secrets through a real sshd and real shells; kubectl and the script are stand-ins that keep files."""

import base64
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.adapters.conftest import SSHD, _wait_for_banner, make_key, missing
from tests.forked import Command
from tests.ports import free_port
from tests.steps.kerberos.conftest import PRINCIPAL, USER
from tests.steps.operator import environment, maint

VC, SPACE, BASE = "default-vc", "dex-app-k7m2q9xz", "dex-base-abc12345"
URL = "https://k7m2q9xz.cde-abc12345.apps.example.invalid"
NAMES = ("etl---user-krb5-principal", "etl---user-krb5-secret")
INIT = ("vc", "init-user", VC, USER, "--yes")

KUBECTL = """#!{python} -SEs
import base64, json, pathlib, sys, time
state = pathlib.Path({state!r})
with (state / "calls").open("a") as log:
    log.write(json.dumps(sys.argv[1:]) + "\\n")
words = [word for word in sys.argv[1:] if not word.startswith("--")]
flags = [word for word in sys.argv[1:] if word.startswith("--")]
verb, rest = words[0], words[1:]
named = [w for w, before in zip(rest[1:], rest) if before not in ("-n", "-o", "-f")]
named = [w for w in named if not w.startswith("-")]
slow = state / ("slow-" + verb)
if slow.exists():
    slow.unlink()
    (state / "struck").touch()
    limit = time.monotonic() + 200
    while not (state / "go").exists() and time.monotonic() < limit:
        time.sleep(0.01)

def place(name):
    return state / "secrets" / name

def keep(item):
    place(item["metadata"]["name"]).write_text(json.dumps(item))

if "--server-side" in flags and (state / "old").exists():
    sys.exit("error: unknown flag: --server-side")
if verb == "get" and rest[0] == "namespaces":
    print("namespace/{base}\\nnamespace/{space}")
elif verb == "get" and rest[0] == "ingress":
    print("ingress.networking.k8s.io/dex-base-api")
elif verb == "get":
    items = [json.loads(place(n).read_text()) for n in named if place(n).exists()]
    print(json.dumps({{"kind": "List", "items": items}}))
elif verb == "delete":
    for name in named:
        place(name).unlink(missing_ok=True)
elif verb == "create" and rest[:2] == ["secret", "generic"]:
    source = [f.partition("=")[2] for f in flags if f.startswith("--from-file=")][0]
    data = {{source: base64.b64encode(pathlib.Path(source).read_bytes()).decode()}}
    keep({{"kind": "Secret", "metadata": {{"name": rest[2]}}, "type": "Opaque", "data": data}})
else:
    place_of = words[words.index("-f") + 1]
    given = json.loads(sys.stdin.read() if place_of == "-" else pathlib.Path(place_of).read_text())
    for item in given["items"] if given["kind"] == "List" else [given]:
        name = item["metadata"]["name"]
        if verb == "replace" and not place(name).exists():
            sys.exit("Error from server (NotFound): secrets not found")
        if "--dry-run=server" not in flags:
            keep(item)
"""
UTILITY = """#!/bin/bash
set -e
shift
while getopts h:u:p:k: o; do case $o in h) h=$OPTARG;; u) u=$OPTARG;; p) p=$OPTARG;; k) k=$OPTARG;; esac; done
n=${u//_/---}; s=dex-app-${h%%.*}
echo Deleting old secrets
kubectl delete secret $n-krb5-secret -n $s
kubectl delete secret $n-krb5-principal -n $s
cp $p $n-krb5-principal
cp $k $n-krb5-secret
echo "[INFO] creating" >&2
kubectl create secret generic $n-krb5-principal --from-file=$n-krb5-principal -n $s
kubectl create secret generic $n-krb5-secret --from-file=$n-krb5-secret -n $s
rm $n-krb5-principal $n-krb5-secret
"""


class RealHost:
    """An operator, and the files behind the stand-ins."""

    def __init__(self, folder: Path, port: int, kdc) -> None:
        self.folder, self.kdc, self.state = folder, kdc, folder / "cluster"
        host = {"name": "master", "address": "127.0.0.1", "port": port, "groups": ["ecs-master", "ecs"]}
        user = {"name": USER, "principal": PRINCIPAL, "keytab": f"file:{folder / 'keytab'}"}
        cluster = {"name": VC, "base_url": f"{URL}/dex/api/v1", "auth_url": URL, "username": USER}
        cluster |= {"password": "file:none", "utility": str(folder / "cde utils.sh"), "users": [user]}
        ssh = {"user": "root", "key": str(folder / "id"), "known_hosts": str(folder / "known_hosts")}
        manager = {"host": "manager.invalid", "password": "file:none"}
        site = {"manager": manager, "ssh": ssh, "hosts": [host], "virtual_clusters": [cluster]}
        self.config = folder / "config.yaml"
        self.config.write_text(json.dumps({"state": str(folder / "state"), "sites": {"prod": site}}))

    def __call__(self, *words):
        return maint(*words, MAINT_CONFIG=str(self.config), **self.kdc.environment)

    def start(self):
        return Command([*INIT, "--config", str(self.config)], environment(**self.kdc.environment))

    def put(self, contents):
        for name, content in zip(NAMES, contents, strict=True):
            data = {name: base64.b64encode(content).decode()}
            item = {"kind": "Secret", "metadata": {"name": name}, "type": "Opaque", "data": data}
            (self.state / "secrets" / name).write_text(json.dumps(item))

    @property
    def held(self):
        found = [self.state / "secrets" / name for name in NAMES]
        return [base64.b64decode(json.loads(p.read_text())["data"][p.name]) for p in found if p.exists()]

    @property
    def wanted(self):
        return [f"{PRINCIPAL}\n".encode(), (self.folder / "keytab").read_bytes()]

    @property
    def left(self):
        from maint.steps.virtual_clusters.step import own_prefix

        prefix = own_prefix(self.folder / "state" / "prod")
        return [path for place in ("/run", "/tmp") for path in Path(place).glob(f"{prefix}*")]


@pytest.fixture
def real(tmp_path, kdc):
    if os.geteuid() != 0:
        pytest.skip("the stand-in for an ECS master logs in as root")
    if SSHD is None:
        missing("OpenSSH's sshd is not installed")
    Path("/run/sshd").mkdir(exist_ok=True, mode=0o755)
    state, port = tmp_path / "cluster", free_port()
    (state / "secrets").mkdir(parents=True)
    for path, text in (
        ("bin/kubectl", KUBECTL.format(python=sys.executable, state=str(state), base=BASE, space=SPACE)),
        ("cde utils.sh", UTILITY),
    ):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text)
        (tmp_path / path).chmod(0o755)
    host_key = make_key(tmp_path / "host")
    (tmp_path / "authorized_keys").write_text(make_key(tmp_path / "id") + "\n")
    (tmp_path / "known_hosts").write_text(f"[127.0.0.1]:{port} {host_key}\n")
    (tmp_path / "sshd_config").write_text(
        f"ListenAddress 127.0.0.1:{port}\nHostKey {tmp_path}/host\nAuthorizedKeysFile {tmp_path}/authorized_keys\n"
        "PidFile none\nStrictModes no\nUsePAM no\nPermitRootLogin prohibit-password\n"
        f'ForceCommand PATH={tmp_path}/bin:$PATH; export PATH; eval "$SSH_ORIGINAL_COMMAND"\n'
    )
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen([SSHD, "-D", "-e", "-f", tmp_path / "sshd_config"], stderr=log)
    try:
        _wait_for_banner(port, process, tmp_path / "log")
        made = RealHost(tmp_path, port, kdc)
        (tmp_path / "keytab").write_bytes(kdc.keytab(PRINCIPAL))
        (tmp_path / "keytab").chmod(0o600)
        made.put([b"old@EXAMPLE.COM\n", b"old keytab"])
        yield made
    finally:
        process.terminate()
        process.wait()


def test_both_ways_write_every_byte_and_show_none_and_where_the_script_fails_the_old_secrets_come_back(real):
    old = [b"old@EXAMPLE.COM\n", b"old keytab"]
    encoded = base64.b64encode(real.wanted[1]).decode()
    (real.state / "old").touch()
    (real.folder / "cde utils.sh").write_text(UTILITY.replace("cp $k", "false; cp $k"))
    said = real(*INIT)
    assert said.code == 1
    assert (real.held, real.left) == (old, [])
    (real.folder / "cde utils.sh").write_text(UTILITY)
    for way in ("the utility script", "server-side apply"):
        said = real(*INIT)
        assert said.code == 0, said.err
        assert f"by {way}" in said.err
        assert (real.held, real.left) == (real.wanted, []), way
        assert encoded[:40] not in (real.state / "calls").read_text(), way
        (real.state / "old").unlink(missing_ok=True)
        real.put(old)


def test_killed_in_the_middle_of_the_script_it_goes_on_to_its_end_on_the_host(real):
    (real.state / "old").touch()
    (real.state / "slow-create").touch()
    process = real.start()
    while not (real.state / "struck").exists():
        assert process.poll() is None
        time.sleep(0.01)
    process.kill()
    process.communicate()
    assert len(real.held) < 2, "it was killed between delete and create"
    (real.state / "go").touch()
    while real.left:
        time.sleep(0.01)  # the time limit of the test says when this is too long
    assert (real.held, real.left) == (real.wanted, [])
    assert real("playbook", "resume").code == 0
    assert real.held == real.wanted
    (record,) = (real.folder / "state/prod/vc-undo").glob("*.json")
    (old,) = (real.folder / "state/prod/undo").glob("*")  # the keytab that it replaced, which can be brought back
    assert old.name in record.read_text()
