"""What is kept for undoing: sealed, private, and gone when dropped."""

import random
from pathlib import Path

import pytest

from maint.adapters.seal import AgeSeal
from maint.adapters.undo_store import SealedUndo
from maint.errors import Invalid, NoKeyFits, NotKept, NotWritten, WorkFailed
from maint.steps.hosts.files import LARGEST


@pytest.fixture
def undo(tmp_path: Path) -> SealedUndo:
    return SealedUndo(tmp_path, AgeSeal())


def test_what_is_kept_is_fetched_also_by_a_later_process(undo: SealedUndo, tmp_path: Path) -> None:
    name = undo.keep(b"old content")
    assert undo.fetch(name) == b"old content"
    assert SealedUndo(tmp_path, AgeSeal()).fetch(name) == b"old content"


def test_the_same_content_kept_twice_has_two_names(undo: SealedUndo) -> None:
    assert undo.keep(b"") != undo.keep(b"")


def test_a_name_can_be_given_once(undo: SealedUndo) -> None:
    assert undo.keep(b"first", "0" * 32) == "0" * 32
    for name in ("0" * 32, "../escape"):
        with pytest.raises(KeyError):
            undo.keep(b"second", name)
    assert undo.fetch("0" * 32) == b"first"


def test_nothing_on_disk_shows_the_content_or_can_be_read_by_others(undo: SealedUndo, tmp_path: Path) -> None:
    undo.keep(b"canary" * 10)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(files) == 2
    for path in files:
        assert b"canary" not in path.read_bytes()
        assert path.stat().st_mode & 0o777 == 0o600
        assert path.parent.stat().st_mode & 0o777 == 0o700


def test_the_largest_file_of_a_host_is_fetched_though_it_cannot_be_compressed(undo: SealedUndo) -> None:
    content = random.Random(1).randbytes(LARGEST)
    assert undo.fetch(undo.keep(content)) == content


def test_what_was_dropped_is_gone_and_dropping_again_is_no_error(undo: SealedUndo) -> None:
    name = undo.keep(b"x")
    undo.drop(name)
    undo.drop(name)
    with pytest.raises(KeyError):
        undo.fetch(name)


def test_what_the_disk_does_not_let_go_is_told_by_its_name(undo: SealedUndo, tmp_path: Path) -> None:
    name = undo.keep(b"x")
    (path := next(tmp_path.rglob(name))).unlink()
    path.mkdir()
    with pytest.raises(NotWritten, match=name):
        undo.drop(name)


@pytest.mark.parametrize("name", ["", "../keys/undo", "0" * 31, "0" * 32, "0" * 32 + "\n"])
def test_a_name_that_was_never_given_is_a_key_error_and_is_dropped_in_silence(undo: SealedUndo, name: str) -> None:
    with pytest.raises(KeyError):
        undo.fetch(name)
    undo.drop(name)


def test_damage_is_found(undo: SealedUndo, tmp_path: Path) -> None:
    name = undo.keep(b"x")
    path = tmp_path / "undo" / name
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(WorkFailed):
        undo.fetch(name)


def test_a_key_that_is_gone_is_told(undo: SealedUndo, tmp_path: Path) -> None:
    name = undo.keep(b"x")
    (tmp_path / "keys/undo").unlink()
    with pytest.raises(Invalid, match="is gone"):
        undo.fetch(name)


@pytest.mark.parametrize("content", ["", "no key", "AGE-SECRET-KEY-1"])
def test_a_key_that_is_damaged_is_named_and_to_be_put_back(undo: SealedUndo, tmp_path: Path, content: str) -> None:
    name, key = undo.keep(b"x"), tmp_path / "keys/undo"
    key.write_text(content)
    for use in (lambda: undo.fetch(name), lambda: undo.keep(b"y")):
        with pytest.raises(Invalid, match=f"{key} holds no usable") as failure:
            use()
        assert str(failure.value.hint).startswith("put the old file back; only where there is no copy")


def test_a_key_that_is_another_one_is_named_and_to_be_put_back(undo: SealedUndo, tmp_path: Path) -> None:
    name, key = undo.keep(b"x"), tmp_path / "keys/undo"
    key.unlink()
    undo.keep(b"y")
    with pytest.raises(NoKeyFits, match=f"undo/{name} was sealed for another key than that in {key}") as failure:
        undo.fetch(name)
    assert "put the key back" in str(failure.value.hint)


def test_what_is_damaged_is_named_and_sought_in_copies_of_the_state_folder(undo: SealedUndo, tmp_path: Path) -> None:
    name = undo.keep(b"x")
    (tmp_path / "undo" / name).write_bytes(b"no age file")
    with pytest.raises(WorkFailed, match=f"undo/{name} cannot be opened") as failure:
        undo.fetch(name)
    assert "bring the state folder's `undo` back from a copy" in str(failure.value.hint)


def test_what_is_not_there_is_told_with_a_way_out(undo: SealedUndo) -> None:
    for name in ("0" * 32, "../escape"):
        with pytest.raises(NotKept, match="is gone") as lost:
            undo.fetch(name)
        assert lost.value.hint and str(lost.value) == lost.value.message


def test_what_lies_under_the_name_of_another_or_was_changed_under_its_own_is_not_given_out(
    undo: SealedUndo, tmp_path: Path
) -> None:
    one, other, folder = undo.keep(b"of one"), undo.keep(b"of another"), tmp_path / "undo"
    held = (folder / one).read_bytes()
    for content in (
        (folder / other).read_bytes(),
        b"x" * 32 + held[32:],
        held[:32] + (folder / other).read_bytes()[32:],
    ):
        (folder / one).write_bytes(content)
        with pytest.raises(WorkFailed, match=f"undo/{one} is not what was kept under that name") as failure:
            undo.fetch(one)
        assert "from a copy" in str(failure.value.hint)
    (folder / one).write_bytes(held)
    assert undo.fetch(one) == b"of one"


def test_what_an_older_version_kept_without_a_mark_is_fetched(undo: SealedUndo, tmp_path: Path) -> None:
    path = tmp_path / "undo" / undo.keep(b"old content")
    path.write_bytes(path.read_bytes()[32:])
    assert path.read_bytes().startswith(b"age-encryption.org/v1\n")
    assert undo.fetch(path.name) == b"old content"


def test_a_key_that_came_back_with_comments_or_beside_another_one_fetches_what_it_sealed(
    undo: SealedUndo, tmp_path: Path
) -> None:
    name, key = undo.keep(b"x"), tmp_path / "keys/undo"
    other, _ = AgeSeal().new_identity()
    key.write_text(f"# public key: age1\n{other.reveal()}\n\n{key.read_text()}")
    assert undo.fetch(name) == b"x"
    assert undo.fetch(undo.keep(b"y")) == b"y"
