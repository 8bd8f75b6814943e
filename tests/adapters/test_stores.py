"""What every store promises; a new kind of store joins by one line in `KINDS`."""

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from maint.adapters.stores.local import LocalStore
from maint.adapters.stores.open import open_store
from maint.errors import Invalid
from maint.ports import Store

KINDS: dict[str, Callable[[Path], Store]] = {
    "local": lambda folder: LocalStore(folder / "deep" / "store"),
}


@pytest.fixture(params=sorted(KINDS))
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return KINDS[request.param](tmp_path)


def put(store: Store, name: str, content: bytes = b"content") -> None:
    with store.create(name) as file:
        file.write(content)


def get(store: Store, name: str) -> bytes:
    with store.open(name) as file:
        return file.read()


def test_an_empty_store_has_no_names(store: Store) -> None:
    assert list(store.names()) == []
    assert list(store.names("prod")) == []


def test_what_is_written_is_read_back(store: Store) -> None:
    put(store, "prod/1/part.age", b"\0" * 300_000 + b"end")
    assert get(store, "prod/1/part.age") == b"\0" * 300_000 + b"end"
    assert store.size("prod/1/part.age") == 300_003


def test_an_empty_file_is_a_file(store: Store) -> None:
    put(store, "a", b"")
    assert get(store, "a") == b""
    assert store.size("a") == 0


def test_a_file_can_be_read_in_pieces(store: Store) -> None:
    put(store, "a", b"abcdef")
    with store.open("a") as file:
        assert [file.read(4), file.read(4), file.read(4)] == [b"abcd", b"ef", b""]


def test_a_missing_file_is_told_apart(store: Store) -> None:
    put(store, "prod/a")
    assert store.size("prod/b") is None
    assert store.size("other/b") is None
    for name in ("prod/b", "other/b"):
        with pytest.raises(FileNotFoundError), store.open(name):
            pass


def test_a_folder_is_no_file_and_nothing_lies_below_a_file(store: Store) -> None:
    put(store, "prod/a")
    assert store.size("prod") is None
    assert store.size("prod/a/b") is None
    assert list(store.names("prod/a")) == []
    for name in ("prod", "prod/a/b"):
        with pytest.raises(FileNotFoundError), store.open(name):
            pass


def test_names_are_in_order_and_below_the_folder_asked_for(store: Store) -> None:
    for name in ("b/2", "a/z/1", "a/b", "a-c", "b/10", "ab/1"):
        put(store, name)
    assert list(store.names()) == ["a-c", "a/b", "a/z/1", "ab/1", "b/10", "b/2"]
    assert list(store.names("a")) == ["a/b", "a/z/1"]
    assert list(store.names("a/z")) == ["a/z/1"]


def test_nothing_is_ever_overwritten(store: Store) -> None:
    put(store, "a", b"first")
    with pytest.raises(FileExistsError), store.create("a") as file:
        file.write(b"second")
    assert get(store, "a") == b"first"
    assert store.sweep() == 0


def test_a_half_written_file_is_not_listed(store: Store) -> None:
    with store.create("prod/a") as file:
        file.write(b"half")
        assert list(store.names()) == []
        assert store.size("prod/a") is None
    assert list(store.names()) == ["prod/a"]


def test_a_failure_while_writing_leaves_nothing(store: Store) -> None:
    with pytest.raises(ZeroDivisionError), store.create("prod/a") as file:
        file.write(b"half")
        raise ZeroDivisionError
    assert list(store.names()) == []
    assert store.sweep() == 0


def test_of_two_writers_of_one_name_the_later_to_end_loses(store: Store) -> None:
    with pytest.raises(FileExistsError), store.create("a") as slow:
        slow.write(b"slow")
        put(store, "a", b"quick")
    assert get(store, "a") == b"quick"
    assert store.sweep() == 0


def test_of_many_writers_at_once_exactly_one_wins(store: Store) -> None:
    gate, won = threading.Barrier(8), []

    def write(number: int) -> None:
        gate.wait()
        try:
            put(store, "prod/a", str(number).encode())
        except FileExistsError:
            return
        won.append(number)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 1
    assert get(store, "prod/a") == str(won[0]).encode()


def test_a_removed_file_is_gone_and_removing_it_again_is_no_error(store: Store) -> None:
    put(store, "prod/a")
    store.remove("prod/a")
    store.remove("prod/a")
    store.remove("never/there")
    assert list(store.names()) == []
    put(store, "prod/a", b"anew")
    assert get(store, "prod/a") == b"anew"


def test_a_sweep_leaves_a_live_writer_and_committed_files_alone(store: Store) -> None:
    put(store, "prod/a")
    with store.create("prod/b") as file:
        file.write(b"half")
        assert store.sweep() == 0
    assert list(store.names()) == ["prod/a", "prod/b"]


@pytest.mark.parametrize(
    "name", ["", "/etc/passwd", "../a", "a/../../b", "a/..", "a//b", "a/", "./a", ".a", "a/.b", "a\0b", "a\\b", "\n/.."]
)
def test_a_name_that_could_lead_elsewhere_is_refused(store: Store, name: str) -> None:
    with pytest.raises(Invalid), store.create(name):
        pass
    with pytest.raises(Invalid), store.open(name):
        pass
    with pytest.raises(Invalid):
        store.size(name)
    with pytest.raises(Invalid):
        store.remove(name)
    if name:
        with pytest.raises(Invalid):
            list(store.names(name))


@pytest.mark.parametrize("form", ["{}", "file://{}", "file:{}", "file://localhost{}"])
def test_a_local_folder_is_opened_by_path_or_url(tmp_path: Path, form: str) -> None:
    store = open_store(form.format(tmp_path))
    put(store, "a")
    assert (tmp_path / "a").read_bytes() == b"content"
    assert store.location == str(tmp_path)


@pytest.mark.parametrize("location", ["backups", "./backups", "", "ftp://host/x", "file://otherhost/x", "file:x"])
def test_a_location_that_is_no_absolute_path_and_no_known_scheme_is_refused(location: str) -> None:
    with pytest.raises(Invalid):
        open_store(location)
