"""A configuration that is being made: what is asked for it, what was answered so far, tried before it is kept."""

import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO

import msgspec

from maint import files
from maint.cli.composition import ConfiguredSite
from maint.cli.open_site import ask_secret
from maint.cli.screen import Screen
from maint.config.precedence import ConfigFlags, load_settings
from maint.config.sample import filled
from maint.config.secrets import ReferencedSecrets
from maint.errors import Failure, Invalid, MaintError, Refused, UsageError, WorkFailed
from maint.model.json import Json

_UNSAID = "env:NOT_SAID_YET"  # stands for a password until somebody has named it
_NOBODY = f"age1{'q' * 58}"  # has a recipient's form


class Question(msgspec.Struct, frozen=True):
    """What is asked for one answer."""

    words: str
    given: str = ""  # what a flag answers
    default: str = ""  # what Enter stands for, and what counts where nobody can be asked
    unless: str = ""  # an answer to a question before, with which this one is idle


class Asker:
    """Asks on a terminal.

    Args:
        source: where answers come from; None where there is nobody to ask.
        keep_failing: whether answers that fail are kept, with a warning, when there is nobody to ask.
    """

    def __init__(self, screen: Screen, source: TextIO | None, *, keep_failing: bool = False) -> None:
        self._screen, self._source, self._keep = screen, source, keep_failing

    @property
    def there(self) -> bool:
        """Whether somebody can be asked."""
        return self._source is not None

    def words(self, question: str, default: str = "", shown: str = "") -> str:
        """Return an answer; Enter alone is the default (`shown` in its place), and an end of input is refused."""
        if self._source is None:
            return default
        while True:
            self._screen.ask(question + (f" [{shown or default}]" if shown or default else ""))
            line = self._source.readline()
            if not line:
                raise Refused("the questions were not answered to the end", hint="nothing was written")
            if (answer := line.strip()).isprintable():
                return answer or default
            self._screen.warn("that holds what no terminal shows, such as an arrow key; type it again")

    def yes(self, question: str) -> bool:
        """Return whether somebody says yes; nobody says no."""
        return self._source is not None and self.words(f"{question} [y/N]").lower() in ("y", "yes")

    def fails(self, error: MaintError) -> None:
        """Say why an answer fails, and what to do."""
        self._screen.warn(error.in_a_line + (f" → {error.way_on}" if error.way_on else ""))

    def settle(self, trial: Callable[..., None], *questions: Question, needed: bool = False) -> None:
        """Have all answers of a trial given, and given again, each of them, until it holds or they are kept.

        What no configuration may hold (UsageError) is never kept.

        Args:
            trial: takes the answers, in the order of the questions.
            needed: whether nothing is kept that fails.

        Raises:
            MaintError: it fails, and nobody can be asked.
        """
        answers = list[str]()
        for one in questions:
            idle = one.unless and one.unless in answers
            answers.append(one.default if idle else one.given or self.words(one.words, one.default))
        while (error := _failure(trial, answers)) is not None:
            keepable = not needed and not isinstance(error, UsageError)
            if self._source is None and not (self._keep and keepable):
                raise error
            self.fails(error)
            if self._source is None:
                return
            alone = isinstance(error, UsageError) and len(questions) == 1
            before, answers = answers, list[str]()
            for one, last in zip(questions, before, strict=True):
                idle = one.unless and one.unless in answers
                again = (one.default, "") if alone else (last, "as before")
                answers.append(last if idle else self.words(one.words, *again))
            if keepable and answers == before and self.yes("keep it although it fails?"):
                return


def _failure(trial: Callable[..., None], answers: list[str]) -> MaintError | None:
    """Return why a trial fails, None where it holds; a signal, or the end of the time there is, is no such failure."""
    try:
        trial(*answers)
    except Failure as error:
        return error
    return None


class Draft:
    """The values of a site, nested as in the file, and the files that go with it; answers are tried in `staging`.

    Args:
        dry_run: whether nothing may be written outside `staging`, not for a moment.
    """

    def __init__(self, target: Path, name: str, staging: Path, screen: Screen, *, dry_run: bool) -> None:
        self.target, self.name, self.screen, self.dry_run = target, name, screen, dry_run
        self.values: dict[str, Json] = {}
        self.forget_secrets()
        self._staging = staging
        self._files: dict[Path, bytes] = {}

    @property
    def folder(self) -> Path:
        """The folder of the configuration; what belongs to it goes beside it."""
        return self.target.parent

    def forget_secrets(self) -> None:
        """Have each secret looked up, or typed, anew."""
        ask = ask_secret if sys.stdin.isatty() else None
        self._secrets = ReferencedSecrets(self.folder, os.environ, ask=ask)  # it may name any variable, MAINT_… too

    def add(self, section: str, **values: Json) -> None:
        """Set keys of a section."""
        self.values[section] = {**self.section(section), **values}

    def section(self, name: str) -> dict[str, Json]:
        """Return the keys of a section; none where nothing was answered of it."""
        known = self.values.get(name)
        return dict(known) if isinstance(known, dict) else {}

    def keep(self, path: Path, content: bytes, *, tried: bool = True) -> str:
        """Have a file written beside the configuration; return what stands in the configuration for it.

        Args:
            tried: whether a trial reads it; a secret that none does is written nowhere else, lest a kill leave it.
        """
        self._files[path] = content
        if tried:
            files.replace(self._tried(path), content)
        return str(path)

    def kept(self, path: Path) -> bytes:
        """Return what a file holds or will hold; nothing where there is none."""
        if path in self._files:
            return self._files[path]
        with files.reading(path):
            return path.read_bytes() if path.is_file() else b""

    def free(self, path: Path) -> bool:
        """Whether a file may be made there: nothing is there, or will be."""
        return path != self.target and path not in self._files and not files.visible(path)

    def try_writing(self, path: Path) -> None:
        """Try whether a file can be written, where that may be tried; WorkFailed: it cannot."""
        if not self.dry_run:
            with files.writing(path):
                files.try_writing(path)

    def _tried(self, path: Path) -> Path:
        return self._staging / str([*self._files].index(path)) / path.name

    @contextmanager
    def site(self) -> Iterator[ConfiguredSite]:
        """Yield the site as answered so far; UsageError where an answer is none that a configuration may hold."""
        manager = {"password": _UNSAID, **self.section("manager")}
        values: dict[str, Json] = {**self.values, "manager": manager}
        backup = self.section("backup")
        values.pop("backup", None)
        if "store" in backup:
            values["backup"] = {"recipients": [_NOBODY], **backup}
        tried = self._staging / "tried.yaml"
        files.replace(tried, filled(self.name, {key: self._moved(value) for key, value in values.items()}).encode())
        environ = {key: value for key, value in os.environ.items() if not key.startswith("MAINT_")}
        try:
            settings = load_settings(ConfigFlags(config=str(tried), state=str(self._staging / "state")), environ)
        except Invalid as error:
            raise self._wrong(error, tried) from error
        finally:
            files.remove(tried)  # an answer may be a secret that was typed in the place of its reference
        site = ConfiguredSite(settings.site(self.name), self._secrets, self.screen.warn)
        try:
            yield site
        finally:
            site.close()

    def _moved(self, value: Json) -> Json:
        """Return a value that names the files of `staging` in the place of those that are not written yet."""
        if isinstance(value, Mapping):
            return {key: self._moved(one) for key, one in value.items()}
        path = Path(value.removeprefix("file:")) if isinstance(value, str) else None
        return str(value).replace(str(path), str(self._tried(path))) if path in self._files else value

    def _wrong(self, error: Invalid, tried: Path) -> UsageError:
        """Return what is said of an answer that no configuration may hold, without the file in which it was tried."""
        place = re.compile(rf"{re.escape(str(tried))}:\d+:\d+: (sites\.{re.escape(self.name)}\.)?")
        message, *detail = (place.sub("", line) for line in (error.message, *error.detail))
        return UsageError(message, detail=detail, hint="correct that answer, or its flag")

    def write(self) -> list[Path]:
        """Write what the configuration names, and it last, or none; WorkFailed: one cannot be, or is there by now."""
        made = list[Path]()
        said = json.dumps(self.values)
        named = {path: content for path, content in self._files.items() if json.dumps(str(path))[1:-1] in said}
        try:
            for path, content in {**named, self.target: filled(self.name, self.values).encode()}.items():
                with files.writing(path):
                    if files.create(path, content):
                        made.append(path)
                    elif path != self.target and content.startswith(path.read_bytes()):  # known hosts, and one more
                        there = path.resolve()  # a link stays one
                        files.replace(there, content, mode=there.stat().st_mode & 0o777)
                    else:
                        raise WorkFailed(f"{path} is there by now", hint="somebody else has written it: look at it")
        except WorkFailed:
            for path in made:
                with suppress(OSError):
                    files.remove(path)
            raise
        return [*named, self.target]
