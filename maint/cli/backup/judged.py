"""Judge the redacted copy that lies compressed on our input, in a process beside the one that judges its deployment."""

import gc
import hashlib
import json
import sys

from maint.adapters.seal import AgeSeal
from maint.deployment.judge import Judge
from maint.deployment.reader import BLOCK


def main() -> None:
    """Write what was found to our output, as `snapshots.beside` reads it; a failure is told by whoever judges again."""
    gc.disable()  # nothing here goes in circles
    judge, digest, size = Judge(), hashlib.sha256(), 0
    with AgeSeal().decompress(sys.stdin.buffer) as stream:
        while block := stream.read(BLOCK):
            digest.update(block)
            size += len(block)
            judge.feed(block)
    verdict = judge.close()
    found = {"counts": verdict.judgement.counts, "secrets": verdict.summary.secrets}
    json.dump({"bytes": size, "sha256": digest.hexdigest(), **found}, sys.stdout)


if __name__ == "__main__":
    main()
