"""Files of a shared state that only machines with its key can read, or have written."""

import hmac
import io

from maint.errors import Invalid, Refused
from maint.model.secret import Secret
from maint.ports import Site, Store
from maint.snapshots.parts import bounded

_LARGEST = 1024 * 1024 * 1024  # bytes of a file: what a run keeps of virtual clusters goes along with it


class Sealed:
    """Seals each file, and marks it with its name.

    Args:
        key: an age private key; a writer knows it too, so that it proves who wrote as well.
    """

    def __init__(self, site: Site, store: Store, key: Secret) -> None:
        self._seal, self._store, self._key = site.seal, store, key
        self._recipient = site.seal.recipient_of(key)
        words = [line.strip() for line in key.reveal().splitlines()]
        self._proof = "\n".join(line for line in words if line and not line.startswith("#")).encode()

    def write(self, name: str, content: bytes) -> None:
        """Write a new file; FileExistsError where there is one."""
        sealed = io.BytesIO()
        self._seal.wrap(io.BytesIO(content).read, sealed, [self._recipient])
        with self._store.create(name) as file:
            file.write(self._mark(name, sealed.getvalue()) + sealed.getvalue())

    def read(self, name: str) -> bytes:
        """Return the content; FileNotFoundError: there is none, Refused: not written with this key."""
        with self._store.open(name) as file:
            found = b"".join(bounded(file.read, _LARGEST + 1))
        if len(found) > _LARGEST:
            raise Refused(
                f"{name} in {self._store.location} is too large to be one of ours", hint="move that file away"
            )
        mark, sealed = found[:32], found[32:]
        if not hmac.compare_digest(mark, self._mark(name, sealed)):
            raise Refused(
                f"{name} in {self._store.location} was not written with the key of the shared state that is known here",
                hint="give all machines the same shared_state_key; where it was changed, move that file away",
            )
        with self._seal.unwrap(io.BytesIO(sealed), [self._key]) as stream:
            return stream.read()

    def _mark(self, name: str, sealed: bytes) -> bytes:
        return hmac.digest(self._proof, name.encode() + b"\0" + sealed, "sha256")


def key_of(site: Site) -> Secret | None:
    """Return the key of the shared state, None where none is configured; Invalid: it cannot be read, or is none."""
    reference = site.settings.shared_state_key
    if reference is None:
        return None
    key = site.secrets.resolve(reference)
    try:
        site.seal.recipient_of(key)
    except Invalid as damaged:
        raise Invalid(f"shared_state_key, {reference}: {damaged.message}", hint=damaged.hint) from None
    return key
