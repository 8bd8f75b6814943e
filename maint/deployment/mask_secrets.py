"""Keep secrets out of what a comparison shows: a text that differs may hold one that is flagged elsewhere."""

from collections.abc import Callable, Sequence

from maint.deployment.compare import Difference
from maint.deployment.fingerprint import Fingerprint
from maint.deployment.secret_index import Known


def noting(known: Known, fingerprint: Fingerprint) -> Callable[[str], str]:
    """Return a fingerprint that remembers what it was asked for."""

    def noted(value: str) -> str:
        known.add(value)
        return fingerprint(value)

    return noted


def scrubbed(found: Sequence[Difference], known: Sequence[Known], fingerprint: Fingerprint) -> list[Difference]:
    """Return differences with the fingerprint of each known secret in its place."""
    scrub = _scrubber(known, fingerprint)
    return [Difference(one.steps, scrub(one.before), scrub(one.after)) for one in found]


def _scrubber(known: Sequence[Known], fingerprint: Fingerprint) -> Callable[[str | None], str | None]:
    def scrub(text: str | None) -> str | None:
        for secrets in known if text else ():
            pieces, at = [], 0
            for start, end in secrets.found(text or ""):
                pieces += [(text or "")[at:start], fingerprint((text or "")[start:end])]
                at = end
            text = "".join(pieces) + (text or "")[at:]
        return text

    return scrub
