"""Secrets that are bytes: a keytab is given as it is, under the same rules as every other secret."""

import base64
from pathlib import Path

import pytest

from maint.errors import Invalid, MaintError
from maint.model.secret import SecretBytes
from tests.config.test_secrets import private, script, secrets

KEYTAB = b"\x05\x02\x00\xff\r\n\x00\n"


def test_files_credentials_and_commands_give_every_byte(tmp_path: Path) -> None:
    private(tmp_path / "k", KEYTAB)
    found = secrets(tmp_path, CREDENTIALS_DIRECTORY=str(tmp_path))
    command = script(tmp_path, f"cat {tmp_path / 'k'}")
    for reference in ("file:k", "credential:k", command):
        assert found.resolve_bytes(reference) == SecretBytes(KEYTAB)


def test_a_variable_holds_base64(tmp_path: Path) -> None:
    found = secrets(tmp_path, GOOD=base64.b64encode(KEYTAB).decode(), BAD="no base64!")
    assert found.resolve_bytes("env:GOOD").reveal() == KEYTAB
    with pytest.raises(Invalid, match="is not base64") as caught:
        found.resolve_bytes("env:BAD")
    assert "no base64!" not in str(caught.value)


@pytest.mark.parametrize("mode", [0o640, 0o604])
def test_a_file_that_others_can_read_is_refused(tmp_path: Path, mode: int) -> None:
    private(tmp_path / "k", KEYTAB).chmod(mode)
    with pytest.raises(Invalid, match="open to others"):
        secrets(tmp_path).resolve_bytes("file:k")


@pytest.mark.parametrize("reference", ["prompt", "prompt:Keytab", "factory:", "hunter2", "file:", "file:none"])
def test_what_gives_no_bytes_is_refused(tmp_path: Path, reference: str) -> None:
    with pytest.raises(MaintError) as caught:
        secrets(tmp_path).resolve_bytes(reference)
    assert caught.value.exit_code == 3
    assert "hunter2" not in str(caught.value)


def test_an_empty_file_is_no_keytab(tmp_path: Path) -> None:
    private(tmp_path / "k", b"")
    with pytest.raises(Invalid, match="is empty"):
        secrets(tmp_path).resolve_bytes("file:k")


def test_bytes_are_never_shown_or_written_by_accident() -> None:
    import pickle

    secret = SecretBytes(KEYTAB)
    assert f"{secret} {secret!r}" == "SecretBytes(…) SecretBytes(…)"
    assert secret == SecretBytes(KEYTAB) and hash(secret) == hash(SecretBytes(KEYTAB))
    with pytest.raises(TypeError):
        pickle.dumps(secret)
