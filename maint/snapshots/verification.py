"""What a verification found: a result, how deep it went, and how many of the parts it saw."""

from collections.abc import Sequence
from datetime import datetime

import msgspec

from maint.model.json import Json
from maint.model.snapshot import Finding, Trust
from maint.snapshots.ids import show_time

# The rules of levels 1 and 2: all others judge what the document says.
BYTES = frozenset({"manifest", "parts", "part", "content", "counts"})
DEPTHS = {
    1: "stored bytes against the signed manifest",
    2: "decrypted, decompressed, parsed, counted",
    3: "rules of a restore",
}


class Verification(msgspec.Struct, frozen=True):
    """The result of a verification.

    Attributes:
        snapshot: the id.
        level: how deep it was asked to go.
        depth: how deep it went with everything well.
        parts_checked, parts: N of N.
        on_capture: levels 2 and 3 rest on what was judged when it was taken, recorded in the signed manifest.
        findings: one per rule.
        doubts: why virtual clusters in it are not taken for the truth, although nothing is wrong with the bytes.
    """

    snapshot: str
    level: int
    depth: int
    parts_checked: int
    parts: int
    at: datetime
    on_capture: bool = False
    findings: Sequence[Finding] = ()
    doubts: Sequence[str] = ()

    @property
    def result(self) -> Trust:
        """Failed when anything is wrong; verified when all was seen; not verified when something could not be told."""
        if self.failures:
            return Trust.FAILED
        return Trust.VERIFIED if self.proven and not self.doubts else Trust.NOT_VERIFIED

    @property
    def proven(self) -> bool:
        """Whether all was seen as deep as asked, whatever is doubted of virtual clusters: it speaks of the manager."""
        return not self.failures and self.depth >= self.level

    @property
    def failures(self) -> Sequence[Finding]:
        """What is wrong."""
        return [finding for finding in self.findings if finding.passed is False]

    @property
    def broken_bytes(self) -> Sequence[Finding]:
        """What is wrong with the bytes themselves, whatever they say."""
        return [finding for finding in self.failures if finding.rule in BYTES]

    @property
    def words(self) -> str:
        """The result in one line; always with depth and parts."""
        how = ", contents as judged when it was taken" if self.on_capture and self.depth > 1 else ""
        line = f"{self.result}: level {self.depth} of {self.level}, {self.parts_checked} of {self.parts} parts{how}"
        return "; ".join([line, *(finding.words for finding in self.failures), *self.doubts])

    def to_json(self) -> dict[str, Json]:
        """Return it as JSON, as it also stands in records."""
        return {
            "snapshot": self.snapshot,
            "level": self.level,
            "depth": self.depth,
            "result": self.result.value,
            "parts_checked": self.parts_checked,
            "parts": self.parts,
            "at": show_time(self.at),
            "on_capture": self.on_capture,
            "findings": [{"rule": f.rule, "passed": f.passed, "words": f.words} for f in self.findings],
            "doubts": list(self.doubts),
        }
