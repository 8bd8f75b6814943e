"""The one tree of failures: each says what went wrong, why, and what to do next; `exit_code` is inherited."""

import errno
import sys
from collections.abc import Sequence

import msgspec


class MaintError(Exception):
    """A failure that was foreseen: what failed, why (`detail`, one line each), and what to do next (`hint`)."""

    exit_code = 1
    needs: Sequence[str] = ()  # what `maint playbook resume --set` may answer, by key
    hosts: Sequence[str] = ()  # on which of several hosts it failed; empty: not a matter of hosts
    otherwise = ""  # what helps where a failure of this class has no hint of its own
    lane = ""  # which of several things that a plan is to bring about it is about; empty: the plan as a whole

    def __init__(self, message: str, *, detail: Sequence[str] = (), hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.detail = tuple(detail)
        self.hint = hint

    def beside(self, what: str, error: BaseException) -> "MaintError":
        """Tell, too, of what failed after this, such as a step that puts things back; return this."""
        if isinstance(error, MaintError):
            self.detail = (*self.detail, f"also: {what}: {error.message}")
        return self

    @property
    def in_a_line(self) -> str:
        """What failed and why."""
        return "; ".join([self.message, *(line.strip() for line in self.detail)])

    @property
    def way_on(self) -> str | None:
        """What to do next: its own hint, else what is said for its class."""
        return self.hint or self.otherwise or None


TEMPORARY_ROOM = "make room in the folder for temporary files (/tmp), or name another one in TMPDIR"
_OWN = __file__.removesuffix("errors.py")
BUG = 70  # the exit code of a failure that nobody foresaw


def exit_of(failure: BaseException | None) -> int:
    """Return the exit code that stands for a failure; 0 for none."""
    if failure is None:
        return 0
    return failure.exit_code if isinstance(failure, MaintError) else BUG


def is_of_a_library(error: BaseException) -> bool:
    """Whether an error was raised in code that is not ours."""
    place = error.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    return place is not None and not place.tb_frame.f_code.co_filename.startswith(_OWN)


class Failure(MaintError):
    """A failure after which something else may still be done: every one but `Stopped`."""


class WorkFailed(Failure):
    """A step, a check or a verification failed."""


class TimedOut(WorkFailed):
    """Something that was waited for did not come in time."""


class NotUp(TimedOut):
    """The manager was waited for, and does not serve."""


class Stopped(MaintError):
    """Nothing more may be begun; nobody catches this to go on with something else."""


class DeadlinePassed(Stopped):
    """A limit set by the operator or the playbook has passed."""

    otherwise = "give it more time with `--timeout`, or with `timeout` in the playbook"

    def __init__(
        self, message: str, *, detail: Sequence[str] = (), hint: str | None = None, limit: object = None
    ) -> None:
        super().__init__(message, detail=detail, hint=hint)
        self.limit = limit  # the clock's own, which tells limits that nest apart
        self.awaited = ""  # the address whose answer was waited for

    def during(self, doing: str) -> str:
        """Return in words what was being done, and whom it waited for."""
        return f"it passed during: {doing}" + (f"; {self.awaited} had not answered" if self.awaited else "")


class Transient(WorkFailed):
    """An answer that may be another one a moment later (M2.2, M2.4)."""


class AnswerMissing(WorkFailed):
    """A change was sent and its answer never came; `whole`: the last block of the body had left."""

    def __init__(self, message: str, *, whole: bool, detail: Sequence[str] = (), hint: str | None = None) -> None:
        super().__init__(message, detail=detail, hint=hint)
        self.whole = whole


class Rejected(WorkFailed):
    """A server said no to a change, and would say so again; nothing of it was done."""


class Conflict(WorkFailed):
    """A name is taken by something else, which is left as it is."""


class Unfinished(WorkFailed):
    """A run waits for a person, then goes on; `needs` has what `maint playbook resume --set` may answer, by key."""

    def __init__(
        self, message: str, *, needs: Sequence[str] = (), detail: Sequence[str] = (), hint: str | None = None
    ) -> None:
        super().__init__(message, detail=detail, hint=hint)
        self.needs = tuple(needs)


class NotAsStored(WorkFailed):
    """What a store should hold is missing there, or has other bytes; nothing of it was used."""


class NoKeyFits(WorkFailed):
    """What is encrypted is for other keys than those at hand; nothing is said of the bytes."""


class NotKept(WorkFailed, KeyError):
    """What was sealed for taking something back is not there."""

    def __str__(self) -> str:
        return self.message  # and not as a KeyError spells it


IMMUTABLE = "whether `lsattr` shows it immutable, and whether its file system has owners and modes (vfat has none)"
WRITABLE = "mount it for writing, once it is repaired where `dmesg` shows that an error made it read-only"
_MENDS = {
    errno.EPERM: f"see who owns it (root alone gives files away), {IMMUTABLE}",
    errno.EROFS: f"{WRITABLE}, then again",
    errno.ENOSPC: "make room there, or inodes where `df -i` shows none, then again",
    errno.EDQUOT: "raise the quota there, or make room, then again",
    errno.EBADF: "it is closed (`>&-`): open it; `> /dev/null` is for what nobody is to read",
    errno.EIO: "look at that disk (`dmesg`, `smartctl`) before anything on it is relied on",
    errno.ENOLCK: "have its file system mounted with locks (NFS: rpc.statd runs), or name a folder on a local disk",
    errno.EISDIR: "name another file; or, if maint named it, a folder lies in the place of that file: move it away",
}


def mend_of(error: OSError) -> str | None:
    """Return what helps whoever it is that reads or writes a file, and whatever file it is; None where that matters."""
    return _MENDS.get(error.errno or 0)


class NotWritten(WorkFailed, OSError):
    """A file of ours cannot be written: its disk is full, or broken, or not ours to write to."""

    otherwise = "make room there, or look at its rights, then again"

    def __init__(self, path: object, why: OSError) -> None:
        said = why.strerror or str(why) or "nothing says why"
        super().__init__(f"{path} cannot be written: {said}", hint=mend_of(why))
        self.errno, self.strerror, self.filename = why.errno, said, str(path)

    def __str__(self) -> str:
        return self.message  # and not as an OSError spells it


def shortage(error: BaseException) -> WorkFailed | None:
    """Return the failure of a machine that gives this process nothing more, None where an error says something else."""
    if isinstance(error, MemoryError):
        words = "no memory is left"
    elif isinstance(error, RuntimeError) and str(error) == "can't start new thread":  # as Python says it
        words = "no further thread can begin"
    elif isinstance(error, OSError) and error.errno in (errno.ENOMEM, errno.EMFILE, errno.ENFILE):
        words = f"the system gives nothing more: {error.strerror}"
    elif isinstance(error, UnicodeEncodeError) and error.encoding == sys.getfilesystemencoding() != "utf-8":
        words = f"the name of a file holds letters that this environment, whose encoding is {error.encoding}, lacks"
        return WorkFailed(words, hint="set LC_ALL=C.UTF-8, and PYTHONUTF8 to nothing but 1")
    else:
        return None
    hint = "end what else runs here, or raise the limits of this user, unit (MemoryMax, TasksMax) or container"
    return WorkFailed(words, hint=hint)


class StoreFailed(WorkFailed):
    """A place for snapshots could not be reached, or said no."""


class OfLaterVersion(StoreFailed):
    """What a later version of maint has stored, in a format that this one does not know: nothing is said of it."""


class Misplaced(StoreFailed):
    """A snapshot that lies in the folder of another site, as where that was renamed: nothing is said of it."""


class UsageError(Failure):
    """The command line makes no sense."""

    exit_code = 2
    otherwise = "`--help` shows what it takes"  # with the command before it, once that is known


class Mistyped(UsageError):
    """A password that somebody typed is not the one that fits the snapshot `of`, of which that says nothing."""

    def __init__(self, message: str, *, of: str, detail: Sequence[str] = (), hint: str | None = None) -> None:
        super().__init__(message, detail=detail, hint=hint)
        self.of = of


class UnknownName(UsageError):
    """There is nothing of that `name`; where a file says it and not the command, it is `Invalid` with its place."""

    def __init__(self, message: str, name: str, *, detail: Sequence[str] = (), hint: str | None = None) -> None:
        super().__init__(message, detail=detail, hint=hint)
        self.name = name


class Position(msgspec.Struct, frozen=True):
    """A place in a text file; lines and columns count from 1. An option or a variable has none: 0."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}" if self.line else self.file


class Invalid(Failure):
    """Configuration, playbook, snapshot reference or secret reference is wrong; nothing was touched."""

    exit_code = 3

    def __init__(
        self, message: str, *, at: Position | None = None, detail: Sequence[str] = (), hint: str | None = None
    ) -> None:
        super().__init__(f"{at}: {message}" if at else message, detail=detail, hint=hint)
        self.at = at
        if at and at.file.startswith("--"):  # what an option gives is wrong usage
            self.exit_code = UsageError.exit_code
        what = "it" if at is None else f"{at.file} at that place" if at.line else at.file
        self.otherwise = f"correct {what}, then run it again"


class CannotReach(Failure):
    """No connection, or one that cannot be trusted."""

    exit_code = 4
    untouched = False  # whether what was to be done there has certainly not begun


class LoginRefused(CannotReach):
    """Connected, but the account was not let in."""


class NotTrusted(CannotReach):
    """Something answers, and its certificate is not accepted."""


class Refused(Failure):
    """A guard said no; nothing was touched."""

    exit_code = 5


class Locked(Failure):
    """Another run holds the site's lock."""

    exit_code = 6


class PartlyDone(Failure):
    """Some of it worked."""

    exit_code = 7


class Differences(Failure):
    """There are differences, and the operator asked for an exit code that says so."""

    exit_code = 8


class Interrupted(Stopped):
    """A signal, SIGHUP (1), SIGINT (2) or SIGTERM (15), ended the run; the exit code is 128 more."""

    otherwise = "`maint playbook history` shows whether a run was stopped on its way"

    def __init__(self, signal_number: int | str) -> None:
        super().__init__("interrupted")
        # From Python 3.12 on, what is raised while an enum is made is made anew from its words: the number is lost.
        self.signal_number = signal_number if isinstance(signal_number, int) else 15
        self.exit_code = 128 + self.signal_number
