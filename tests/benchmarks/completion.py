"""What a Tab takes: the id of one snapshot among 1,000, beside the start of Python."""

import os
import sys
import tempfile
from pathlib import Path

from tests.benchmarks.measure import ROUNDS, run

CONFIG = """
sites:
  prod:
    manager: {{host: cm.invalid, password: "env:PASSWORD"}}
    backup: {{store: {folder}/store, identity: "env:IDENTITY"}}
"""
BAR = 0.150  # seconds


def main() -> None:
    """Measure, and print one row."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "config.yaml").write_text(CONFIG.format(folder=folder))
        for number in range(1000):
            snapshot = folder / f"store/prod/202601{number // 60 + 10:02}T10{number % 60:02}00.000Z-{number:04x}"
            snapshot.mkdir(parents=True)
            (snapshot / "manifest.json").touch()
        env = {**os.environ, "MAINT_CONFIG": f"{folder}/config.yaml", "XDG_CACHE_HOME": name, "_MAINT_COMPLETE": "1"}
        asked = [sys.executable, "-m", "maint", "backup", "show", "20260126T1039"]
        first = run(asked, env=env)
        took = sorted(run(asked, env=env).wall for _ in range(ROUNDS))[ROUNDS // 2]
        bare = sorted(run([sys.executable, "-c", ""], env=env).wall for _ in range(ROUNDS))[ROUNDS // 2]
    assert first.out.split() == ["20260126T103900.000Z-03e7"]
    print(f"a Tab: {took * 1000:.0f} ms (bar {BAR * 1000:.0f} ms), the first one {first.wall * 1000:.0f} ms; ", end="")
    print(f"Python alone {bare * 1000:.0f} ms")


if __name__ == "__main__":
    main()
