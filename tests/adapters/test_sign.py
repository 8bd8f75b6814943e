"""Signatures that ssh-keygen reads and writes, in one spelling only."""

import base64
import os
import resource
import shutil
import subprocess
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maint.adapters.sign import NAMESPACE, SshSigner, load_or_make_key, load_or_make_signer
from maint.errors import Invalid, WorkFailed
from maint.model.secret import Secret

KEYGEN = pytest.mark.skipif(not shutil.which("ssh-keygen"), reason="the tool ssh-keygen is not installed")
CONTENT = b'{"id": "1"}\n'


@pytest.fixture(scope="module")
def signer(tmp_path_factory: pytest.TempPathFactory) -> SshSigner:
    return load_or_make_signer(None, tmp_path_factory.mktemp("keys"), [])


def keygen(*words: str | Path, stdin: bytes = b"") -> bytes:
    return subprocess.run(["ssh-keygen", *words], input=stdin, capture_output=True, check=True).stdout


def test_a_signature_by_the_own_key_is_believed(signer: SshSigner) -> None:
    assert signer.verify(CONTENT, signer.sign(CONTENT)) == signer.public_key


def test_a_signature_of_other_content_is_not_believed(signer: SshSigner) -> None:
    with pytest.raises(WorkFailed, match="does not fit"):
        signer.verify(CONTENT + b" ", signer.sign(CONTENT))


def test_a_signature_by_a_stranger_names_the_stranger(signer: SshSigner, tmp_path: Path) -> None:
    stranger = load_or_make_signer(None, tmp_path, [])
    with pytest.raises(WorkFailed, match="not trusted") as refusal:
        signer.verify(CONTENT, stranger.sign(CONTENT))
    assert stranger.public_key in refusal.value.detail


def test_a_trusted_key_is_believed_beside_the_own_one(signer: SshSigner, tmp_path: Path) -> None:
    reader = load_or_make_signer(None, tmp_path, [f"{signer.public_key} backup@cm"])
    assert reader.verify(CONTENT, signer.sign(CONTENT)) == signer.public_key


@pytest.mark.parametrize("line", ["", "ssh-ed25519", "ssh-ed25519 !!!", "ssh-rsa AAAAB3NzaC1yc2EAAAADAQAB", "AAAA"])
def test_a_trusted_key_that_is_none_is_refused(line: str, tmp_path: Path) -> None:
    with pytest.raises(Invalid):
        load_or_make_signer(None, tmp_path, [line])


def test_every_single_changed_byte_is_found(signer: SshSigner) -> None:
    signature = signer.sign(CONTENT)
    for place in range(len(signature)):
        for flip in (1, 0x20):
            damaged = signature[:place] + bytes([signature[place] ^ flip]) + signature[place + 1 :]
            with pytest.raises(WorkFailed):
                signer.verify(CONTENT, damaged)


def test_every_cut_is_found(signer: SshSigner) -> None:
    signature = signer.sign(CONTENT)
    for length in range(len(signature)):
        with pytest.raises(WorkFailed):
            signer.verify(CONTENT, signature[:length])


@pytest.mark.parametrize(
    "respell",
    [
        lambda text: text + b"\n",
        lambda text: b"\n" + text,
        lambda text: text.replace(b"\n", b"\r\n"),
        lambda text: text.rstrip(b"\n"),
        lambda text: text.replace(b"SIGNATURE-----\nU1", b"SIGNATURE-----\nU\n1"),
        lambda text: b"".join(text.splitlines()),
        lambda text: text + text,
    ],
)
def test_another_spelling_of_the_same_signature_is_not_believed(signer: SshSigner, respell: object) -> None:
    assert callable(respell)
    signature = signer.sign(CONTENT)
    assert respell(signature) != signature
    with pytest.raises(WorkFailed, match="not in the form"):
        signer.verify(CONTENT, respell(signature))


@given(st.binary(max_size=500))
def test_arbitrary_bytes_are_no_signature(signer: SshSigner, noise: bytes) -> None:
    armored = b"-----BEGIN SSH SIGNATURE-----\n" + base64.b64encode(noise) + b"\n-----END SSH SIGNATURE-----\n"
    for text in (noise, armored):
        with pytest.raises(WorkFailed):
            signer.verify(CONTENT, text)


@KEYGEN
def test_ssh_keygen_believes_our_signature(signer: SshSigner, tmp_path: Path) -> None:
    (tmp_path / "allowed").write_text(f"maint {signer.public_key}\n")
    (tmp_path / "sig").write_bytes(signer.sign(CONTENT))
    words = ["-Y", "verify", "-f", tmp_path / "allowed", "-I", "maint", "-n", NAMESPACE, "-s", tmp_path / "sig"]
    assert b"Good" in keygen(*words, stdin=CONTENT)
    with pytest.raises(subprocess.CalledProcessError):
        keygen(*words, stdin=CONTENT + b"x")


@KEYGEN
def test_we_sign_byte_for_byte_as_ssh_keygen_does_with_the_same_key(tmp_path: Path) -> None:
    keygen("-q", "-t", "ed25519", "-N", "", "-C", "someone", "-f", tmp_path / "key")
    by_keygen = keygen("-Y", "sign", "-f", tmp_path / "key", "-n", NAMESPACE, stdin=CONTENT)
    signer = load_or_make_signer(Secret((tmp_path / "key").read_text()), tmp_path / "unused", [])
    assert signer.sign(CONTENT) == by_keygen
    assert signer.verify(CONTENT, by_keygen) == signer.public_key
    assert not (tmp_path / "unused").exists()


@KEYGEN
def test_a_signature_for_another_purpose_is_not_believed(tmp_path: Path) -> None:
    keygen("-q", "-t", "ed25519", "-N", "", "-f", tmp_path / "key")
    signer = load_or_make_signer(Secret((tmp_path / "key").read_text()), tmp_path, [])
    with pytest.raises(WorkFailed):
        signer.verify(CONTENT, keygen("-Y", "sign", "-f", tmp_path / "key", "-n", "file", stdin=CONTENT))


@KEYGEN
@pytest.mark.parametrize("options", [["-t", "rsa", "-b", "1024", "-N", ""], ["-t", "ed25519", "-N", "a passphrase"]])
def test_a_key_that_cannot_be_used_is_refused_without_being_shown(options: list[str], tmp_path: Path) -> None:
    keygen("-q", *options, "-f", tmp_path / "key")
    text = (tmp_path / "key").read_text()
    with pytest.raises(Invalid) as refusal:
        load_or_make_signer(Secret(text), tmp_path, [])
    assert text.splitlines()[2] not in repr(refusal.value) + str(refusal.value.detail)
    assert refusal.value.__cause__ is None


@KEYGEN
def test_the_key_that_is_made_is_one_that_ssh_keygen_reads(tmp_path: Path) -> None:
    (signer := load_or_make_signer(None, tmp_path / "keys", [])).sign(CONTENT)
    assert keygen("-y", "-f", tmp_path / "keys/signing").decode().split()[:2] == signer.public_key.split()
    assert (tmp_path / "keys/signing.pub").read_text().startswith(signer.public_key)


def test_a_key_that_is_made_is_private_and_stays_the_same(tmp_path: Path) -> None:
    (first := load_or_make_signer(None, tmp_path / "keys", [])).sign(CONTENT)
    assert load_or_make_signer(None, tmp_path / "keys", []).public_key == first.public_key
    assert (tmp_path / "keys").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "keys/signing").stat().st_mode & 0o777 == 0o600
    assert sorted(path.name for path in (tmp_path / "keys").iterdir()) == ["signing", "signing.pub"]


def test_the_public_key_that_people_copy_is_that_of_the_key_that_signs_and_an_old_one_is_kept(tmp_path: Path) -> None:
    keys = list[str]()
    for _ in range(2):
        (tmp_path / "signing").unlink(missing_ok=True)  # as where a state folder comes back without private keys
        (signer := load_or_make_signer(None, tmp_path, ())).sign(CONTENT)
        keys.append(signer.public_key)
    assert (tmp_path / "signing.pub").read_text().startswith(keys[1])
    (kept,) = tmp_path.glob("signing-before-*.pub")
    assert kept.read_text().startswith(keys[0])
    load_or_make_signer(None, tmp_path, ()).sign(CONTENT)
    assert len(list(tmp_path.iterdir())) == 3


@pytest.mark.timeout(20)  # seconds; waiting has no end
def test_what_stands_in_the_place_of_the_public_key_is_left_alone_and_waited_for_by_nobody(tmp_path: Path) -> None:
    load_or_make_signer(None, tmp_path, ()).sign(CONTENT)
    (tmp_path / "signing.pub").unlink()
    os.mkfifo(tmp_path / "signing.pub")
    assert load_or_make_signer(None, tmp_path, ()).sign(CONTENT)
    assert (tmp_path / "signing.pub").is_fifo()


@pytest.mark.parametrize("public", [None, "ssh-ed25519 AAAA of a key that was lost\n"])
def test_who_only_reads_leaves_the_public_key_as_it_is_and_who_signs_puts_it_right(
    tmp_path: Path, public: str | None
) -> None:
    signature = load_or_make_signer(None, tmp_path, ()).sign(CONTENT)
    path = tmp_path / "signing.pub"
    path.unlink() if public is None else path.write_text(public)
    before = sorted(tmp_path.iterdir())
    signer = load_or_make_signer(None, tmp_path, ())
    signer.verify(CONTENT, signature)
    assert (sorted(tmp_path.iterdir()), path.read_text() if path.exists() else None) == (before, public)
    signer.sign(CONTENT)
    assert path.read_text().startswith(signer.public_key)


def test_a_disk_that_takes_nothing_keeps_nobody_from_signing(tmp_path: Path) -> None:
    load_or_make_signer(None, tmp_path, ()).sign(CONTENT)
    (tmp_path / "signing.pub").unlink()
    signer = load_or_make_signer(None, tmp_path, ())
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    try:
        signature = signer.sign(CONTENT)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert signer.verify(CONTENT, signature)
    assert [path.name for path in tmp_path.iterdir()] == ["signing"]


@pytest.mark.parametrize("content", ["", "no key"])
def test_a_damaged_key_file_is_refused_and_never_replaced(tmp_path: Path, content: str) -> None:
    (tmp_path / "signing").write_text(content)
    (tmp_path / "signing").chmod(0o600)
    with pytest.raises(Invalid) as failure:
        load_or_make_signer(None, tmp_path, [])
    assert (tmp_path / "signing").read_text() == content
    assert str(failure.value.hint).startswith("put the old file back")  # nobody else's signature is believed here


def test_who_only_verifies_leaves_no_key_behind(signer: SshSigner, tmp_path: Path) -> None:
    reader = load_or_make_signer(None, tmp_path, [signer.public_key])
    assert reader.verify(CONTENT, signer.sign(CONTENT)) == signer.public_key
    assert list(tmp_path.iterdir()) == []
    assert reader.verify(CONTENT, reader.sign(CONTENT)) == reader.public_key


def test_a_key_that_others_can_read_is_refused(tmp_path: Path) -> None:
    load_or_make_signer(None, tmp_path, []).sign(CONTENT)
    load_or_make_key(tmp_path, "fingerprint")
    for name in ("signing", "fingerprint"):
        (tmp_path / name).chmod(0o640)
    with pytest.raises(Invalid, match="can be read by others"):
        load_or_make_signer(None, tmp_path, [])
    with pytest.raises(Invalid, match="can be read by others"):
        load_or_make_key(tmp_path, "fingerprint")


def test_of_many_who_make_a_key_at_once_all_get_the_same(tmp_path: Path) -> None:
    gate, keys = threading.Barrier(8), []

    def make() -> None:
        gate.wait()
        keys.append((load_or_make_key(tmp_path, "fingerprint"), load_or_make_signer(None, tmp_path, []).public_key))

    threads = [threading.Thread(target=make) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(keys) == 8
    assert len(set(keys)) == 1


def test_a_fingerprint_key_is_32_bytes_in_hex_and_stays_the_same(tmp_path: Path) -> None:
    key = load_or_make_key(tmp_path, "fingerprint")
    assert len(bytes.fromhex(key.reveal())) == 32
    assert load_or_make_key(tmp_path, "fingerprint") == key
    assert load_or_make_key(tmp_path, "other") != key


def test_a_damaged_fingerprint_key_is_refused(tmp_path: Path) -> None:
    (tmp_path / "fingerprint").write_text("short")
    (tmp_path / "fingerprint").chmod(0o600)
    with pytest.raises(Invalid) as failure:
        load_or_make_key(tmp_path, "fingerprint")
    assert "only where there is no copy, remove it" in str(failure.value.hint)
