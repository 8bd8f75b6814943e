"""The program that judges the document on its input, in a process of its own; `snapshots/judge_copy.py` begins it."""

import gc
import sys

import msgspec

from maint.deployment.judge import Judge
from maint.deployment.reader import blocks


class JudgedDocument(msgspec.Struct, frozen=True):
    """What was found in a document: how many of what, and of its secrets how many are readable."""

    counts: dict[str, int]
    secrets: int


def main() -> None:
    """Write what was found as JSON; where it cannot be judged, nothing."""
    gc.disable()  # nothing here goes in circles
    verdict = Judge().verdict(blocks(sys.stdin.buffer.read))
    sys.stdout.buffer.write(
        msgspec.json.encode(JudgedDocument(dict(verdict.judgement.counts), verdict.summary.secrets))
    )


if __name__ == "__main__":
    main()
