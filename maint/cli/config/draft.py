"""A configuration that is being made: what was answered so far, tried from a private folder before anything is kept."""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from maint import files
from maint.cli.composition import ConfiguredSite
from maint.cli.screen import Screen
from maint.config.precedence import Flags as ConfigFlags
from maint.config.precedence import load_settings
from maint.config.sample import filled
from maint.config.secrets import ReferencedSecrets
from maint.errors import Invalid, UsageError, WorkFailed
from maint.model.json import Json

_UNSAID = "env:NOT_SAID_YET"  # stands for a password until somebody has named it

_NOBODY = f"age1{'q' * 58}"  # has a recipient's form


class Draft:
    """The values of a site, nested as in the file, and the files that go with it; answers are tried in `staging`."""

    def __init__(self, target: Path, name: str, staging: Path, screen: Screen) -> None:
        self.target, self.name, self.screen = target, name, screen
        self.values: dict[str, Json] = {}
        self._staging = staging
        self._files: dict[Path, bytes] = {}

    @property
    def folder(self) -> Path:
        """The folder of the configuration; what belongs to it goes beside it."""
        return self.target.parent

    def add(self, section: str, **values: Json) -> None:
        """Set keys of a section."""
        self.values[section] = {**self.section(section), **values}

    def section(self, name: str) -> dict[str, Json]:
        """Return the keys of a section; none where nothing was answered of it."""
        known = self.values.get(name)
        return dict(known) if isinstance(known, dict) else {}

    def keep(self, path: Path, content: bytes) -> str:
        """Have a file written beside the configuration; return what stands in the configuration for it."""
        self._files[path] = content
        files.replace(self._tried(path), content)
        return str(path)

    def kept(self, path: Path) -> bytes:
        """Return what a file holds or will hold; nothing where there is none."""
        if path in self._files:
            return self._files[path]
        return path.read_bytes() if path.is_file() else b""

    def _tried(self, path: Path) -> Path:
        return self._staging / path.name

    @contextmanager
    def site(self) -> Iterator[ConfiguredSite]:
        """Yield the site as answered so far; UsageError where an answer is none that a configuration may hold."""
        manager = {"password": _UNSAID, **self.section("manager")}
        values: dict[str, Json] = {**self.values, "manager": manager}
        backup = self.section("backup")
        values.pop("backup", None)
        if "store" in backup:
            values["backup"] = {"recipients": [_NOBODY], **backup}
        text = filled(self.name, values)
        for path in self._files:
            text = text.replace(str(path), str(self._tried(path)))
        tried = self._staging / "tried.yaml"
        files.replace(tried, text.encode())
        environ = {key: value for key, value in os.environ.items() if not key.startswith("MAINT_")}
        try:
            settings = load_settings(ConfigFlags(config=str(tried), state=str(self._staging / "state")), environ)
        except Invalid as error:
            raise self._wrong(error, tried) from error
        secrets = ReferencedSecrets(self.folder, os.environ)  # a reference may name any variable, MAINT_… too
        site = ConfiguredSite(settings.site(self.name), secrets, self.screen.warn)
        try:
            yield site
        finally:
            site.close()

    def _wrong(self, error: Invalid, tried: Path) -> UsageError:
        """Return what is said of an answer that no configuration may hold, without the file in which it was tried."""
        place = re.compile(rf"{re.escape(str(tried))}:\d+:\d+: (sites\.{re.escape(self.name)}\.)?")
        message, *detail = (place.sub("", line) for line in (error.message, *error.detail))
        return UsageError(message, detail=detail, hint="correct that answer, or its flag")

    def write(self) -> list[Path]:
        """Write the files, the configuration last; WorkFailed: one cannot be written, or is there by now."""
        written = list[Path]()
        for path, content in {**self._files, self.target: filled(self.name, self.values).encode()}.items():
            with files.writing(path):
                if path == self.target and not files.create(path, content):
                    raise WorkFailed(f"{path} is there by now", hint="somebody else has written it: look at it")
                if path != self.target:
                    files.replace(path, content)
            written.append(path)
        return written
