"""Recorded host keys: what OpenSSH would find is found, and nothing else is believed."""

import base64
import os
import shutil
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from maint.adapters.ssh.known_hosts import HostKey, KnownHosts, Standing, record, recorded_name, trusted
from maint.config.schema import SshSettings
from maint.errors import Invalid
from maint.model.fleet import Presented


def key(number: int, kind: str = "ssh-ed25519") -> HostKey:
    name = kind.encode()
    return HostKey(kind, len(name).to_bytes(4, "big") + name + b"\0\0\0\x20" + bytes([number]) * 32)


def line(names: str, of: HostKey) -> str:
    return f"{names} {of.type} {base64.b64encode(of.blob).decode()} comment here\n"


def judge(text: str, name: str, presented: HostKey) -> Standing:
    return KnownHosts([text]).judge([name], presented)


def test_a_recorded_key_is_known_and_another_one_is_changed() -> None:
    text = line("cm.example.internal,10.0.0.1", key(1))
    assert judge(text, "10.0.0.1", key(1)) is Standing.KNOWN
    assert judge(text, "10.0.0.1", key(2)) is Standing.CHANGED
    assert judge(text, "10.0.0.2", key(1)) is Standing.UNKNOWN


def test_a_key_of_another_type_than_the_recorded_one_is_changed_not_unknown() -> None:
    assert judge(line("h", key(1)), "h", key(1, "ecdsa-sha2-nistp256")) is Standing.CHANGED


def test_all_keys_recorded_for_a_host_are_believed() -> None:
    text = line("h", key(1)) + line("h", key(2)) + line("h", key(3, "ssh-rsa"))
    assert {judge(text, "h", each) for each in (key(1), key(2), key(3, "ssh-rsa"))} == {Standing.KNOWN}
    assert KnownHosts([text]).types(["h"]) == ("ssh-ed25519", "ssh-rsa")


def test_a_revoked_key_is_never_believed() -> None:
    text = line("h", key(1)) + "@revoked " + line("*", key(1))
    assert judge(text, "h", key(1)) is Standing.REVOKED
    assert judge(text, "other", key(1)) is Standing.REVOKED
    assert judge(text, "other", key(2)) is Standing.UNKNOWN


def test_an_authority_is_not_taken_for_a_hosts_own_key() -> None:
    assert judge("@cert-authority " + line("*", key(1)), "h", key(1)) is Standing.UNKNOWN


def test_a_port_that_is_not_22_is_part_of_the_name() -> None:
    text = line("[h]:2222", key(1))
    assert judge(text, recorded_name("h", 2222), key(1)) is Standing.KNOWN
    assert judge(text, recorded_name("h", 22), key(1)) is Standing.UNKNOWN
    assert judge(text, recorded_name("h", 22222), key(1)) is Standing.UNKNOWN


def test_patterns_and_their_exceptions_are_honoured() -> None:
    text = line("*.example.internal,!bad.example.internal,10.0.0.?", key(1))
    assert judge(text, "CM.Example.Internal", key(1)) is Standing.KNOWN
    assert judge(text, "10.0.0.7", key(1)) is Standing.KNOWN
    assert judge(text, "bad.example.internal", key(1)) is Standing.UNKNOWN
    assert judge(text, "10.0.0.17", key(1)) is Standing.UNKNOWN


def test_the_first_name_that_is_recorded_decides() -> None:
    text = line("10.0.0.1", key(1)) + line("cm", key(2))
    known = KnownHosts([text])
    assert known.judge(["10.0.0.1", "cm"], key(1)) is Standing.KNOWN
    assert known.judge(["10.0.0.1", "cm"], key(2)) is Standing.CHANGED
    assert known.judge(["10.0.0.9", "cm"], key(2)) is Standing.KNOWN


@pytest.mark.parametrize(
    "junk", ["", "#", "h", "h ssh-ed25519", "h ssh-ed25519 ???", "|1|x h", "@revoked", "|1|a|b ssh-x AAAA"]
)
def test_what_is_malformed_is_passed_over(junk: str) -> None:
    assert judge(f"{junk}\n" + line("h", key(1)), "h", key(1)) is Standing.KNOWN
    assert judge(f"{junk}\n", "h", key(1)) is Standing.UNKNOWN


@pytest.mark.skipif(not shutil.which("ssh-keygen"), reason="the tool ssh-keygen is not installed")
def test_what_ssh_keygen_hashes_is_found_as_ssh_keygen_finds_it(tmp_path: Path) -> None:
    path = tmp_path / "known_hosts"
    path.write_text(line("cm", key(1)) + line("[10.0.0.1]:2222", key(2)) + line("ecs-1,10.0.0.3", key(3)))
    subprocess.run(["ssh-keygen", "-q", "-H", "-f", path], check=True, capture_output=True)
    assert not any(row.startswith("cm") for row in path.read_text().splitlines())
    for name in ("cm", "[10.0.0.1]:2222", "10.0.0.1", "ecs-1", "10.0.0.3", "10.0.0.30"):
        found = subprocess.run(["ssh-keygen", "-F", name, "-f", path], capture_output=True).returncode == 0
        ours = any(judge(path.read_text(), name, key(number)) is Standing.KNOWN for number in (1, 2, 3))
        assert ours == found, name


@pytest.mark.parametrize("spelled", ["\t", "  ", " \t"])
def test_a_key_that_is_replaced_is_believed_no_more_however_its_line_is_spelled(tmp_path: Path, spelled: str) -> None:
    path = tmp_path / "known_hosts"
    old = line("h,other", key(1)).replace(" ", spelled)
    path.write_text(f"# mine\n{old}\t{old}{line('apart', key(3))}")
    new = key(2)
    record(path, [Presented("h", "h", new.type, base64.b64encode(new.blob).decode(), new.fingerprint)])
    text = path.read_text()
    assert (judge(text, "h", new), judge(text, "h", key(1))) == (Standing.KNOWN, Standing.CHANGED)
    assert judge(text, "other", key(1)) is Standing.KNOWN
    assert text.startswith("# mine\n") and line("apart", key(3)) in text


@pytest.mark.parametrize("closed", ["known_hosts", "."])
def test_known_hosts_that_are_closed_to_the_account_are_a_mistake_of_the_configuration(closed: str) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        path = Path(name) / "known_hosts"
        path.write_text(line("h", key(1)))
        Path(name).chmod(0o755)
        (Path(name) / closed).chmod(0)
        if os.geteuid() == 0:
            os.seteuid(65534)
        try:
            with pytest.raises(Invalid, match="known_hosts cannot be read: Permission denied"):
                trusted(SshSettings(user="root", known_hosts=path))
        finally:
            os.seteuid(os.getuid())
            Path(name).chmod(0o700)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_known_hosts_stay_those_of_the_account_that_they_belong_to_when_root_records_a_key(tmp_path: Path) -> None:
    path, new = tmp_path / "known_hosts", key(2)
    path.write_text(line("h", key(1)))
    path.chmod(0o600)
    os.chown(path, 65534, 65533)
    record(path, [Presented("h", "h", new.type, base64.b64encode(new.blob).decode(), new.fingerprint)])
    facts = path.stat()
    assert (facts.st_uid, facts.st_gid, facts.st_mode & 0o777) == (65534, 65533, 0o600)
    assert judge(path.read_text(), "h", new) is Standing.KNOWN


def test_keys_that_several_record_at_once_are_all_kept(tmp_path: Path) -> None:
    path = tmp_path / "known_hosts"
    path.write_text("# mine\n")

    def some(site: int) -> None:
        for number in range(20):
            one, name = key(number), f"{site}-{number}"
            record(path, [Presented(name, name, one.type, base64.b64encode(one.blob).decode(), one.fingerprint)])

    with ThreadPoolExecutor(4) as sites:
        list(sites.map(some, range(4)))
    assert len(path.read_text().splitlines()) == 1 + 4 * 20
