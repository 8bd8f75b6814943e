"""Peers that lie: answers, outputs and stored files that differ each time, are old, of another, cut, endless or odd."""

import gzip
import json
import random
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import cache
from io import BytesIO, RawIOBase
from typing import Any, BinaryIO, cast

from maint.lab.hosts import ssh_server
from maint.lab.http.messages import Response
from maint.lab.http.server import Exchange
from tests.campaigns.test_inputs import mistyped

MOST = 400_000_000  # bytes that are poured into whoever listens; who took them all was not bounded
BLOCK = b'{"name": "a", "value": [[[' * 4000


@cache
def bomb() -> bytes:
    """Return a few bytes that unpack to 64 MiB; making them takes a while."""
    return gzip.compress(bytes(1 << 26), 6)


class Liar:
    """Decides, by its seed, when to lie; keeps what was true for calls to come. Silent until `begin`."""

    def __init__(self, seed: str, secrets: tuple[str, ...] = ()) -> None:
        self.chance = random.Random(seed)
        self.secrets = secrets
        self.lying = False
        self.often = 0.0
        self.honest = 0  # questions of this turn that are answered truly first
        self.told: list[str] = []  # each lie of this turn, and what was stored meanwhile
        self.swallowed = 0  # bytes that somebody took of what has no end
        self.known: dict[str, list[bytes]] = {}  # what was answered, by call

    def begin(self, honest: int = 0) -> None:
        """Lie from here on, or after so many more questions, seldom or always."""
        self.lying, self.told, self.swallowed, self.honest = True, [], 0, honest
        self.often = self.chance.choice((0.05, 0.2, 0.5, 1.0))

    def end(self) -> None:
        """Be honest again."""
        self.lying = False

    def lies_now(self) -> bool:
        self.honest -= self.lying
        return self.lying and self.honest < 0 and self.chance.random() < self.often

    def instead(self, call: str, content: bytes) -> bytes | None:
        """Return what is given out in place of some bytes, None for what has no end; and note what was true."""
        truths = self.known.setdefault(call, [])
        if content not in truths:
            truths.append(content)
        if not self.lies_now():
            return content
        name = self.chance.choice([*LIES, "endless"])
        lie = LIES[name](self, call, content) if name != "endless" else None
        if lie != content:
            self.told.append(f"{name}: {call}")
        return lie

    def pour(self, write: Callable[[bytes], object]) -> None:
        """Write without an end, until nobody listens."""
        with suppress(OSError):
            while self.swallowed < MOST:
                write(BLOCK)
                self.swallowed += len(BLOCK)


def _older(liar: Liar, call: str, content: bytes) -> bytes:
    return liar.known[call][0]


def _of_another(liar: Liar, call: str, content: bytes) -> bytes:
    return liar.chance.choice(liar.known[liar.chance.choice([*liar.known])])


def _fewer(liar: Liar, call: str, content: bytes) -> bytes:
    """Leave entries of a list out, and let the rest be as it was; of what is not JSON, its end."""
    try:
        whole = json.loads(content)
    except ValueError:
        return content[: liar.chance.randrange(len(content) + 1)]
    lists = [one for one in _lists(whole) if one]
    if lists:
        del (chosen := liar.chance.choice(lists))[liar.chance.randrange(len(chosen)) :]
    return json.dumps(whole).encode()


def _lists(value: Any) -> Iterator[list[Any]]:
    if isinstance(value, list):
        yield value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _lists(inner)


def _quoting(liar: Liar, call: str, content: bytes) -> bytes:
    return json.dumps({"message": f"\x1b[2J{call}: {' '.join(liar.secrets)} is invalid"}).encode()


def _deep(liar: Liar, call: str, content: bytes) -> bytes:
    return liar.chance.choice((b"[", b'{"items":')) * 100_000


def _odd(liar: Liar, call: str, content: bytes) -> bytes:
    return liar.chance.choice((b"", b"{}", b"[]", b"null", b"7", b'{"items": []}', b"9" * 5000, b"<html>", b"\xff\xfe"))


def _longer(liar: Liar, call: str, content: bytes) -> bytes:
    return content * 2


def _flipped(liar: Liar, call: str, content: bytes) -> bytes:
    at = liar.chance.randrange(len(content) + 1)
    return content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :] if at < len(content) else content + b"\n"


def _mistyped(liar: Liar, call: str, content: bytes) -> bytes:
    return mistyped(content, liar.chance)


LIES: dict[str, Callable[[Liar, str, bytes], bytes]] = {
    "older": _older, "of another": _of_another, "fewer": _fewer, "quoting": _quoting, "deep": _deep, "odd": _odd,
    "longer": _longer, "flipped": _flipped, "mistyped": _mistyped, "mistyped again": _mistyped,
}  # fmt: skip


def behind_http(liar: Liar, port: Callable[[int], bool], patch: Any) -> None:
    """Let a liar answer on ports of the lab's servers."""
    honest = Exchange._send

    def send(exchange: Exchange, response: Response) -> None:
        shown = response.printed(exchange.dumps)
        if not port(exchange.server.port) or shown.stream or exchange.command == "HEAD":
            honest(exchange, response)
            return
        content = liar.instead(f"{exchange.command} {exchange.path}", shown.text or b"")
        if content == (shown.text or b""):
            honest(exchange, response)
            return
        status = liar.chance.choice((shown.status, shown.status, 200, 400, 500, 302))
        exchange.close_connection = True
        explodes = content is not None and liar.chance.random() < 0.1
        with suppress(OSError):
            exchange.send_response(status)
            exchange.send_header("Content-Type", shown.content_type)
            if explodes:
                exchange.send_header("Content-Encoding", "gzip")
            exchange.end_headers()
            if content is None:
                liar.pour(exchange.wfile.write)
            else:
                exchange.wfile.write(bomb() if explodes else content)

    patch.setattr(Exchange, "_send", send)


def behind_ssh(liar: Liar, patch: Any) -> None:
    """Let a liar print on the lab's hosts."""
    honest = ssh_server._Work._send

    def send(work: Any, data: bytes) -> None:
        lie = liar.instead(work._command[:40], data)
        if lie is None:
            liar.pour(lambda block: honest(work, block))
        else:
            honest(work, lie)

    patch.setattr(ssh_server._Work, "_send", send)


class _Endless(RawIOBase):
    def __init__(self, liar: Liar) -> None:
        self._liar = liar

    def read(self, size: int = -1) -> bytes:
        block = BLOCK if size < 0 else BLOCK[:size]
        self._liar.swallowed += len(block)
        return block if self._liar.swallowed < MOST else b""


def behind_store(liar: Liar, kind: Any, patch: Any) -> None:
    """Let a liar read from stores of a kind, list what is there, and say how large it is; what is stored it notes."""
    opened, named, sized, created = kind.open, kind.names, kind.size, kind.create

    def open_(store: Any, name: str) -> AbstractContextManager[BinaryIO]:
        if not liar.lying:
            return cast(AbstractContextManager[BinaryIO], opened(store, name))
        with opened(store, name) as file:
            content = liar.instead(name, file.read())
        return _given(_Endless(liar) if content is None else BytesIO(content))

    def names(store: Any, prefix: str = "") -> Iterator[str]:
        found = [*named(store, prefix)]
        if not liar.lies_now():
            yield from found
            return
        liar.told.append(f"names: {prefix}")
        what = liar.chance.choice(("fewer", "twice", "others", "newer", "none"))
        if what in ("twice", "others", "newer"):
            yield from found
        if what == "fewer":
            yield from (name for name in found if liar.chance.random() < 0.7)
        if what == "twice":
            yield from found
        if what == "others":
            yield from ("others/20260101T000000.000Z/manifest.json", f"{prefix}/../../others/part", "\ud800", "a\0b")
        if what == "newer":
            yield from (name.replace("/2026", "/2029") for name in found)

    def size(store: Any, name: str) -> int | None:
        found: int | None = sized(store, name)
        return liar.chance.choice((None, 0, 1 << 62)) if liar.lies_now() else found

    def create(store: Any, name: str) -> AbstractContextManager[BinaryIO]:
        if liar.lying:
            liar.told.append(f"stored: {name}")
        return cast(AbstractContextManager[BinaryIO], created(store, name))

    patch.setattr(kind, "create", create)
    patch.setattr(kind, "open", open_)
    patch.setattr(kind, "names", names)
    patch.setattr(kind, "size", size)


@contextmanager
def _given(file: Any) -> Iterator[BinaryIO]:
    yield cast(BinaryIO, file)
