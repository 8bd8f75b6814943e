"""What `maint doctor` shows of the configuration's own files."""

import shlex
import stat
from collections.abc import Iterator
from pathlib import Path

from maint.cli.site.doctor_lines import FAIL, OK, Line
from maint.config.paths import SITES_FOLDER


def config_lines(config: Path) -> Iterator[Line]:
    """Yield the configuration, and what anybody may write of it: it names programs that we run, and whom we trust."""
    yield Line("config", OK, str(config))
    beside = config.parent / SITES_FOLDER
    for path in (config.parent, config, beside, *sorted(beside.glob("*.yaml"))):
        mode = path.stat().st_mode if path.exists() else 0
        if mode & stat.S_IWOTH and not (stat.S_ISDIR(mode) and mode & stat.S_ISVTX):
            words = f"anybody on this machine may write {path}, and with it name programs that maint runs"
            yield Line("config open", FAIL, words, f"chmod o-w {shlex.quote(str(path))}")
