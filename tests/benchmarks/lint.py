"""How long 100 playbooks of a folder take to lint, beside one start of Python with YAML and pydantic.

    python -m tests.benchmarks.lint

The bar: twice that start, in seconds of the processor. The playbooks are the shipped ones, again and again.
"""

import os
import sys
import tempfile
from itertools import cycle, islice
from pathlib import Path

from maint.config.paths import playbooks
from tests.benchmarks.measure import run

COUNT, TRIES = 100, 5
BARE = "import yaml, pydantic\nclass A(pydantic.BaseModel):\n    x: int\n"
WORDS = ["maint", "playbook", "lint", ".", "--quiet"]
LINT = f"import sys\nfrom maint.cli.start import main\nsys.argv = {WORDS}\nmain()\n"


def seconds(program: str, folder: str) -> float:
    """Return the processor's seconds of the best of several runs of a program, its modules compiled."""
    os.chdir(folder)
    return min(run([sys.executable, "-c", program]).cpu for _ in range(TRIES))


def measure() -> None:
    """Print both, and how they compare."""
    with tempfile.TemporaryDirectory() as folder:
        for number, (name, text) in enumerate(islice(cycle(playbooks().items()), COUNT)):
            (Path(folder) / f"{number}-{name}.yaml").write_text(text)
        lint, bare = seconds(LINT, folder), seconds(BARE, folder)
    words = f"lint of {COUNT} playbooks {lint:.2f} s, one start {bare:.2f} s: {lint / bare:.1f} times; bar 2"
    sys.stdout.write(f"{words}\n")


if __name__ == "__main__":
    measure()
