"""A store that answers differently each time."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from io import BytesIO
from typing import Any, BinaryIO

from maint.errors import StoreFailed


class Liar:
    """Stands before a store; what `lies` returns for a name and the number of the reading is given out instead."""

    def __init__(self, store: Any, lies: Callable[[str, int], bytes | None]) -> None:
        self._store, self._lies = store, lies
        self.read: dict[str, int] = {}
        self.hidden: set[str] = set()
        self.silent = ""  # a name that holds this is listed, and not given

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def names(self, prefix: str = "") -> Iterator[str]:
        return (name for name in self._store.names(prefix) if not any(one in name for one in self.hidden))

    def open(self, name: str) -> AbstractContextManager[BinaryIO]:
        self.read[name] = self.read.get(name, 0) + 1
        if any(one in name for one in self.hidden):
            raise FileNotFoundError(name)
        if self.silent and self.silent in name:
            raise StoreFailed(f"cannot read {name}", detail=["timed out"])
        lie = self._lies(name, self.read[name])
        if lie is None:
            opened: AbstractContextManager[BinaryIO] = self._store.open(name)
            return opened
        return _given(lie)


@contextmanager
def _given(content: bytes) -> Iterator[BinaryIO]:
    yield BytesIO(content)
