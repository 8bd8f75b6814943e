"""A throw-away manager that does not come back as it should fails its drill, with the reason."""

from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from typing import Any, BinaryIO

import pytest

from maint.adapters.seal import AgeSeal
from maint.errors import AnswerMissing, CannotReach, Invalid, MaintError, NotUp, StoreFailed, WorkFailed
from maint.model.manager import Account, Door, Presence
from maint.restore.drill import drill
from maint.snapshots.capture import take
from maint.snapshots.parts import DEPLOYMENT
from maint.snapshots.records import drills
from tests.snapshots.conftest import place, run
from tests.snapshots.liar import Liar

__all__ = ["place", "run"]


class Manager:
    """Takes a deployment and gives it back, or does not."""

    def __init__(self, fault: str) -> None:
        self.fault, self.content = fault, b""

    def log_in(self) -> Account:
        return Account("admin", bootstrap=not self.content or self.fault == "lets nobody in")

    def forget_login(self) -> None: ...

    def put_deployment(self, body: Any, **_: Any) -> BinaryIO:
        self.content = body.read(body.length)
        return BytesIO(b"{}")

    def presence(self) -> Presence:
        up = self.fault != "has no TLS"
        chain = "signed by nobody" if self.fault == "shows another certificate" else None
        return Presence(Door.TLS if up else Door.PLAIN, "redirects", "answers" if up else "refused", chain=chain)

    @contextmanager
    def deployment(self) -> Iterator[BinaryIO]:
        other = self.fault == "restores something else"
        yield BytesIO(self.content.replace(b"Default", b"Other", 1) if other else self.content)


class Rehearsal:
    """A place for one such manager, which is its own stage."""

    def __init__(self, fault: str) -> None:
        self.manager = Manager(fault)

    def restart(self) -> None: ...

    def admit(self) -> None: ...

    @contextmanager
    def stage(self, document: BinaryIO, size: int, api: int) -> Iterator[Any]:
        yield self


@pytest.mark.parametrize(
    ("fault", "reason", "ended"),
    [
        ("", "the configuration came back, and nothing differs", "compare"),
        ("lets nobody in", "admin is not let in after the restore", "login"),
        ("has no TLS", "TLS did not come up: plain port redirects, TLS port refused", "tls"),
        ("shows another certificate", "the certificate on the TLS port is not to be trusted: signed by nobody", "tls"),
        ("restores something else", "what came back differs in ", "compare"),
    ],
)
def test_the_reason_and_the_phase_in_which_it_ended_are_kept(
    place: Any, run: Any, fault: str, reason: str, ended: str
) -> None:
    snapshot = run(take(place)).snapshot
    found = run(drill(place, Rehearsal(fault), snapshot))  # type: ignore[arg-type]
    assert (found.passed, found.phases[-1].name) == (not fault, ended)
    assert found.reason.startswith(reason)
    assert [(one.passed, one.reason) for one in drills(place)] == [(found.passed, found.reason)]


def test_a_password_that_cannot_be_read_is_no_drill(place: Any, run: Any) -> None:
    snapshot = run(take(place)).snapshot
    place.manage(password="env:UNSET")
    with pytest.raises(Invalid, match="cannot resolve env:UNSET"):
        run(drill(place, Rehearsal(""), snapshot))  # type: ignore[arg-type]
    assert drills(place) == []


def test_a_key_that_can_be_read_no_longer_fails_no_drill_of_a_snapshot(place: Any, run: Any) -> None:
    snapshot = run(take(place)).snapshot
    rehearsal = Rehearsal("")

    def locked() -> list[Any]:
        raise Invalid("the vault lets nobody in any more")

    def later(*_: Any) -> None:
        place.identities = locked

    rehearsal.manager.forget_login = later  # type: ignore[method-assign]
    with pytest.raises(Invalid, match="the vault"):
        run(drill(place, rehearsal, snapshot))  # type: ignore[arg-type]
    assert drills(place) == []


@pytest.mark.parametrize("when", ["at first", "later", "no key"])
def test_what_says_nothing_of_a_snapshot_fails_no_drill_of_it(place: Any, run: Any, when: str) -> None:
    snapshot = run(take(place)).snapshot
    place.store = store = Liar(place.store, lambda *_: None)
    if when == "no key":
        other, _ = AgeSeal().new_identity()
        place.identities = lambda: [other]
    store.silent = DEPLOYMENT if when == "at first" else ""

    def silence(*_: Any) -> None:
        store.silent = DEPLOYMENT if when == "later" else ""

    rehearsal = Rehearsal("")
    rehearsal.manager.forget_login = silence  # type: ignore[method-assign]
    with pytest.raises(StoreFailed if when == "later" else MaintError, match=r"cannot read|cannot be drilled"):
        run(drill(place, rehearsal, snapshot))  # type: ignore[arg-type]
    store.silent = ""
    assert drills(place) == []


@pytest.mark.parametrize("failure", [NotUp("not up"), CannotReach("gone"), AnswerMissing("no answer", whole=True)])
def test_a_throw_away_manager_that_falls_silent_fails_no_drill_of_a_snapshot(
    place: Any, run: Any, failure: MaintError
) -> None:
    snapshot = run(take(place)).snapshot
    rehearsal = Rehearsal("")

    def silent() -> None:
        raise failure

    rehearsal.restart = silent  # type: ignore[method-assign]
    with pytest.raises(WorkFailed, match="says nothing of the snapshot") as caught:
        run(drill(place, rehearsal, snapshot))  # type: ignore[arg-type]
    assert (caught.value.detail, drills(place)) == ((failure.message,), [])
