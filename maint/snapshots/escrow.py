"""Whose private key opens a snapshot: that of each recipient is tried, and what no key at hand opens is named."""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from maint.config.schema import BackupSettings
from maint.errors import Invalid, NoKeyFits
from maint.model.secret import Secret
from maint.model.snapshot import Snapshot
from maint.ports import Sight
from maint.snapshots.parts import drain, open_part


class Escrow(msgspec.Struct, frozen=True):
    """What is known of one recipient: whether its private key opens a snapshot; None: it could not be tried."""

    recipient: str
    opens: bool | None
    words: str


def escrow(sight: Sight, snapshot: Snapshot) -> Sequence[Escrow]:
    """Try each configured recipient's private key on the smallest sealed part of a snapshot.

    Raises:
        WorkFailed: that part is not what was stored.
    """
    backup, keys = sight.settings.backup, _keys(sight)
    sealed = [part for part in snapshot.parts if part.name.endswith(".age")]
    if backup is None or not sealed:
        return ()
    smallest = min(sealed, key=lambda part: part.bytes).name
    return [_tried(sight, snapshot, smallest, one, keys.get(one)) for one in _recipients(backup, keys)]


def unopened(sight: Sight, known: Iterable[Snapshot]) -> Mapping[str, Sequence[str]]:
    """Return by recipient the snapshots that no key of the config, and none at hand, opens; rekeyed ones apart."""
    snapshots, keys = list(known), _keys(sight)
    again = {one.rekeyed_from.get("snapshot") for one in snapshots}
    ours = {*keys, *(_recipients(sight.settings.backup, keys) if sight.settings.backup else ())}
    found = dict[str, list[str]]()
    for one in snapshots:
        theirs = [name.strip() for name in one.recipients]
        if theirs and one.id not in again and not ours.intersection(theirs):
            found.setdefault(theirs[0], []).append(one.id)
    return found


def _recipients(backup: BackupSettings, keys: dict[str, Secret]) -> Sequence[str]:
    return [one.strip() for one in backup.recipients] or list(keys)


def _keys(sight: Sight) -> dict[str, Secret]:
    """Return the private keys at hand by their recipients; age-keygen writes comments above a key."""
    lines = [line.strip() for secret in sight.identities() for line in secret.reveal().splitlines()]
    keys = [Secret(line) for line in lines if line and not line.startswith("#")]
    return {sight.seal.recipient_of(one): one for one in keys}


def _tried(sight: Sight, snapshot: Snapshot, part: str, recipient: str, key: Secret | None) -> Escrow:
    if snapshot.recipients and recipient not in {one.strip() for one in snapshot.recipients}:
        return Escrow(recipient, False, f"snapshot {snapshot.id} is not encrypted for it: it became a recipient later")
    if key is None:
        return Escrow(recipient, None, f"whether it opens {snapshot.id} is not known: its private key is not here")
    try:
        with open_part(sight, snapshot, part, [key]) as stream:
            drain(stream.read)
    except (NoKeyFits, Invalid) as problem:
        return Escrow(recipient, False, f"its private key does not open snapshot {snapshot.id}: {problem.message}")
    return Escrow(recipient, True, f"its private key opens snapshot {snapshot.id}")
