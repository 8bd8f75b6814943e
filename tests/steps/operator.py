"""An operator who types commands at a lab, in this process or in one of its own."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from typer import testing

from maint import files
from maint.cli.app import app
from maint.lab.create import SITE
from maint.lab.running import Lab
from maint.model import secret
from maint.model.java_options import PATH
from tests.forked import Command

testing._get_command = cache(testing._get_command)  # the commands are built once, not for each call
_LOOKING = ("backup", "cluster", "doctor", "host", "site")  # passwords of labs leave no machine


@dataclass(frozen=True)
class Said:
    """What a command answered."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Standard output as JSON."""
        return json.loads(self.out)

    @property
    def error(self) -> Any:
        """The error object on standard error."""
        return json.loads(self.err.strip().splitlines()[-1])["error"]


def environment(**more: str) -> dict[str, str]:
    """Return this process's environment without settings of maint."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("MAINT_")}
    return {**kept, **more}


def maint(*words: str, given: str | None = None, **env: str) -> Said:
    """Run a command in this process."""
    secret._KNOWN.clear()  # each is a process of its own elsewhere, and knows no secret and no limit of another
    files._patience[:] = [files.SILENCE]
    without: dict[str, str | None] = {key: None for key in os.environ if key.startswith("MAINT_")}
    ended = testing.CliRunner().invoke(app, list(words), input=given, env={**without, **env})
    if ended.exception is not None and not isinstance(ended.exception, SystemExit):
        raise ended.exception
    return Said(ended.exit_code, ended.stdout, ended.stderr)


class Operator:
    """Types commands at one lab."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.config = str(lab.folder / "config.yaml")
        self.state = lab.folder / "state" / SITE
        self.forget_requests()

    def __call__(self, *words: str, given: str | None = None, **env: str) -> Said:
        """Run a command in this process; one that looks at a server without TLS says that it may."""
        plain = ("--allow-plain",) if words and words[0] in _LOOKING else ()
        return maint(*words, *plain, given=given, **{"MAINT_CONFIG": self.config, **env})

    def start(self, *words: str, **more: Any) -> "subprocess.Popen[str]":
        """Start a command in a process of its own."""
        pipes: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        return subprocess.Popen(
            [sys.executable, "-c", "from maint.cli.start import main; main()", *words],
            **{**pipes, "text": True, **more, "env": self._named(more.get("env"))},
        )

    def fork(self, *words: str, env: Mapping[str, str] | None = None, stdin: str = os.devnull) -> Command:
        """Begin a command in a process of its own that needs no start of Python."""
        return Command(words, self._named(env), stdin=stdin)

    def _named(self, env: Mapping[str, str] | None) -> Mapping[str, str]:
        return {"MAINT_CONFIG": self.config, **(env or environment())}

    def restore(self, *words: str) -> Said:
        """Run the disaster recovery of the manager alone."""
        return self("restore", "run", "--confirm", SITE, "--manager-only", *words)

    @property
    def root(self) -> Path:
        """The file tree of the manager's host."""
        return self.lab.folder / "hosts" / self.lab.manager_host / "root"

    @property
    def options(self) -> Path:
        """The server's options file on the manager's host."""
        return self.options_on(self.lab.manager_host)

    def options_on(self, host: str) -> Path:
        """Return the server's options file on a host."""
        return self.lab.folder / "hosts" / host / "root" / PATH.lstrip("/")

    @property
    def window(self) -> bool:
        """Whether the state folder remembers an open window."""
        return (self.state / "window.json").exists()

    @property
    def kept(self) -> list[str]:
        """The names of what is kept for undoing."""
        return sorted(path.name for path in (self.state / "undo").glob("*"))

    def forget_requests(self) -> None:
        """Count requests from here on."""
        self._read = self._log().rfind(b"\n") + 1  # a line that is being written still counts

    def _log(self) -> bytes:
        path = self.lab.log.path
        return path.read_bytes() if path.exists() else b""

    @property
    def asked(self) -> list[Any]:
        """All requests since then, as they stand in the log."""
        return [*map(json.loads, self._log()[self._read :].rpartition(b"\n")[0].splitlines())]

    @property
    def sent(self) -> list[str]:
        """All requests that change something since then, as "METHOD path"."""
        return [words for words, _ in self._changes()]

    @property
    def done(self) -> list[str]:
        """Those of them that were carried out: not what a kill cut off on its way, or what was throttled."""
        return [words for words, status in self._changes() if 200 <= status < 300]

    def _changes(self) -> list[tuple[str, int]]:
        log = [(f"{line['method']} {line['path']}", line["status"]) for line in self.asked]
        return [(words, status) for words, status in log if words.split()[0] in ("PUT", "POST", "DELETE")]

    @property
    def puts(self) -> int:
        """How often a deployment arrived since then."""
        return sum(line.startswith("PUT") and "/cm/deployment" in line for line in self.sent)

    def run_of(self, said: Said) -> Any:
        """Return the newest run as the history lists it."""
        return self("playbook", "history", "-o", "json").json["runs"][-1]

    def journal(self) -> list[dict[str, Any]]:
        """Return the lines of the newest journal."""
        path = sorted((self.state / "runs").glob("*.jsonl"))[-1]
        return [json.loads(line) for line in path.read_text().splitlines()]
