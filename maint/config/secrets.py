"""Secret references: what they look like, and how each kind becomes a value.

file:PATH            a file that only we (or root) own and read; relative to the config file's folder
env:NAME             a variable of our own environment
command:WORDS        what a program prints; no shell
credential:NAME      a systemd credential ($CREDENTIALS_DIRECTORY)
keyring:SERVICE/USER the desktop's or an installed keyring
prompt, prompt:WORDS asked for on the terminal, once
factory:             the password of the account that a fresh manager comes with (M2.3)
"""

import base64
import binascii
import errno
import importlib
import os
import re
import shlex
import stat
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from maint.config.paths import expanded
from maint.config.programs import run_program
from maint.errors import Failure, Invalid, Refused, Stopped
from maint.files import explaining
from maint.model.secret import Secret, SecretBytes

FACTORY = "factory:"
FACTORY_PASSWORD = "admin"
MAX_BYTES = 1_000_000

_SHAPES: dict[str, tuple[str, str]] = {
    "file": (r".+", "file:PATH"),
    "env": (r"[A-Za-z_][A-Za-z0-9_]*", "env:NAME"),
    "command": (r"\s*\S.*", "command:WORDS"),
    "credential": (r"(?!\.{1,2}$)[^/]+", "credential:NAME"),
    "keyring": (r"[^/]+/.+", "keyring:SERVICE/USER"),
    "factory": (r"", FACTORY),
    "prompt": (r".*", "prompt"),
}
_AT_HAND = ("file", "env", "credential")  # read without a question or a program
FORMS = ", ".join(shape for kind, (_, shape) in _SHAPES.items() if kind != "factory")


def check_reference(text: str) -> str:
    """Return the reference when it is one; else ValueError, which never repeats it: it may be the secret itself."""
    kind, colon, rest = text.partition(":")
    if kind not in _SHAPES or not (colon or kind == "prompt"):
        raise ValueError(f"must be a reference to a secret ({FORMS}), never the secret itself")
    shape, form = _SHAPES[kind]
    # No path, variable or argument can hold a NUL or half a character.
    if not re.fullmatch(shape, rest) or "\0" in rest or any("\ud800" <= character <= "\udfff" for character in rest):
        raise ValueError(f"must have the form {form}")
    if kind == "command":
        try:
            shlex.split(rest)
        except ValueError:
            raise ValueError("has a quote that is never closed") from None
    return text


def is_typed(reference: str) -> bool:
    """Return whether a reference stands for what somebody types, each time anew."""
    return reference.partition(":")[0] == "prompt"


def in_one_line(secret: Secret, reference: str) -> Secret:
    """Return a password or token that goes into a header or a line; Invalid: it breaks that, and is not shown."""
    if {*secret.reveal()} & {*"\r\n\0"}:
        kind, rest = _parts(reference)
        what = f"what the command {shlex.split(rest)[0]} prints" if kind == "command" else f"the secret {reference}"
        raise Invalid(
            f"{what} holds a line break, and a password or token is one line",
            hint="write it there anew, with at most one line break, behind it",
        )
    return secret


_EMPTY = "put the secret there, or let the reference name the place that holds it"
_REFERENCES = f"write it as one of {FORMS}; `maint help configuration` explains each"


def know_at_hand(resolve: Callable[[str], Secret], references: Iterable[str]) -> None:
    """Have the secrets that lie at hand hidden in words from outside, though nothing needs them; nobody is asked."""
    for reference in references:
        if _parts(reference)[0] in _AT_HAND:
            with suppress(Failure):  # told by what needs it
                resolve(reference)


class ReferencedSecrets:
    """Resolves references; implements `ports.Secrets`.

    Args:
        folder: what relative `file:` paths start from.
        ask: asks on the terminal without echo; None where there is no terminal.
        hidden: names of variables that programs started by `command:` must not inherit.
        command_timeout: seconds that such a program may take.
    """

    def __init__(
        self,
        folder: Path,
        environ: Mapping[str, str],
        *,
        ask: Callable[[str], str] | None = None,
        hidden: Collection[str] = (),
        command_timeout: float = 30.0,
    ) -> None:
        self._folder = folder
        self._environ = environ
        self._ask = ask
        self._hidden = frozenset(hidden)
        self._command_timeout = command_timeout
        self._asked: dict[str, Secret] = {}
        # What holds bytes: each returns them, and what they are in words.
        self._bytes: Mapping[str, Callable[[str], tuple[bytes, str]]] = {
            "file": self._file,
            "credential": self._credential,
            "command": self._command,
        }

    def resolve(self, reference: str) -> Secret:
        """Return its value; Invalid: it leads to nothing, or to what others can read, Refused: no terminal."""
        kind, rest = _parts(reference)
        if kind in self._bytes:
            return _text(*self._bytes[kind](rest))
        readers: dict[str, Callable[[str], Secret]] = {
            "env": self._variable,
            "keyring": self._keyring,
            "prompt": self._prompt,
            "factory": lambda _: Secret(FACTORY_PASSWORD),
        }
        return readers[kind](rest)

    def resolve_bytes(self, reference: str) -> SecretBytes:
        """Return the value byte for byte, from base64 where only text can be held (`env:`, `keyring:`)."""
        kind, rest = _parts(reference)
        if kind in self._bytes:
            content, what = self._bytes[kind](rest)
            if not content:
                raise Invalid(f"{what} is empty", hint=_EMPTY)
            return SecretBytes(content)
        if kind not in ("env", "keyring"):
            raise Invalid(f"{kind}: gives no bytes, and a file is wanted here", hint="file:PATH or credential:NAME")
        try:
            return SecretBytes(base64.b64decode(self.resolve(reference).reveal(), validate=True))
        except (binascii.Error, ValueError):
            raise Invalid(f"{reference} is not base64, as bytes must be there", hint="base64 -w0 FILE") from None

    def _file(self, rest: str) -> tuple[bytes, str]:
        path = self._folder / expanded(rest, self._environ)
        return _read_private(path), f"the secret file {path}"

    def _variable(self, name: str) -> Secret:
        value = self._environ.get(name)
        if not value:
            raise Invalid(f"the environment variable {name} is not set", hint=f"export {name}=…")
        return Secret(value)

    def _credential(self, name: str) -> tuple[bytes, str]:
        folder = self._environ.get("CREDENTIALS_DIRECTORY")
        if not folder:
            raise Invalid(
                f"there is no systemd credential {name}: CREDENTIALS_DIRECTORY is not set",
                hint=f"run as a systemd unit with LoadCredential={name}:PATH",
            )
        return _read_private(Path(folder) / name), f"the credential {name}"

    def _command(self, words: str) -> tuple[bytes, str]:
        argv = shlex.split(words)
        environ = {name: value for name, value in self._environ.items() if name not in self._hidden}
        what = f"the command {argv[0]} that gives a secret"
        try:
            ended = run_program(argv, environ=environ, folder=self._folder, timeout=self._command_timeout)
        except TimeoutError as error:
            raise Invalid(
                f"{what} {error}", hint="run it by hand: it may wait for an answer, which nobody gives it here"
            ) from None
        except OSError as error:
            if error.errno == errno.EFBIG:
                hint = "run it by hand: it must print the secret, and nothing else"
                raise Invalid(f"{what} failed: {error.strerror}", hint=hint) from None
            raise Invalid(
                f"{what} cannot be started: {error.strerror}",
                hint="is it installed, and may the user who runs maint run it?",
            ) from None
        if ended.status:
            raise Invalid(
                f"{what} ended with status {ended.status}",
                detail=_harmless(ended.err, ended.out),
                hint="run it by hand as the user who runs maint: it must print the secret, and nothing else",
            )
        return ended.out, f"the output of {what}"

    def _keyring(self, rest: str) -> Secret:
        service, user = rest.split("/", 1)
        try:
            library = importlib.import_module("keyring")
        except ImportError:
            raise Invalid("keyring: needs the Python package keyring", hint="pip install keyring") from None
        try:
            value = library.get_password(service, user)
        except Stopped:
            raise
        except Exception as error:  # a boundary: every backend has failures of its own, whose words we do not know
            why = {"NoKeyringError": ": this machine has none", "KeyringLocked": ": it is locked"}
            raise Invalid(
                f"the keyring gives no {service}/{user}{why.get(type(error).__name__, '')}",
                hint="unlock it for the user who runs maint; where nobody logs in, use file: or credential:",
            ) from None
        if not value:
            raise Invalid(f"the keyring has no password for {service}/{user}", hint=f"keyring set {service} {user}")
        return Secret(str(value))

    def _prompt(self, words: str) -> Secret:
        if self._ask is None:
            raise Refused(
                "a password must be typed, and there is no terminal",
                hint="name another source in the config, such as file:PATH or env:NAME",
            )
        if words not in self._asked:
            try:
                typed = self._ask(f"{words or 'Password'}: ")
                typed.encode()
            except EOFError:
                raise Refused("no password was typed", hint="type it, or name another source in the config") from None
            except UnicodeError:
                raise Invalid(
                    "what was typed is not UTF-8 text", hint="set the terminal to UTF-8, and type it"
                ) from None
            self._asked[words] = Secret(typed)
        return self._asked[words]


def _parts(reference: str) -> tuple[str, str]:
    try:
        kind, _, rest = check_reference(reference).partition(":")
    except ValueError as error:
        raise Invalid(f"a secret's reference {error}", hint=_REFERENCES) from None
    return kind, rest


def _text(content: bytes, what: str) -> Secret:
    """Drop one final newline, and refuse what cannot be a secret."""
    try:
        text = content.decode()
    except UnicodeDecodeError:
        raise Invalid(f"{what} is not UTF-8 text", hint="a secret is one line of text; write it there anew") from None
    text = text.removesuffix("\n").removesuffix("\r") if text.endswith("\n") else text
    if not text:
        raise Invalid(f"{what} is empty", hint=_EMPTY)
    return Secret(text)


def _read_private(path: Path) -> bytes:
    """Read a file that nobody but its owner can read; the open file is judged, so it cannot be exchanged meanwhile."""
    hint = "correct its path, or make it readable for the user who runs maint alone (chmod 600)"
    if os.access(path.parent, os.X_OK) and not os.path.lexists(path):
        hint = "put it back there, or correct its path"
    with explaining(f"cannot read the secret file {path}", hint):
        if path.is_symlink() and path.lstat().st_uid not in (os.geteuid(), 0):
            raise Invalid(
                f"the secret file {path} is a link that somebody else made",
                hint="name the file itself, or make the link as the user who runs maint",
            )
        # Without O_NONBLOCK, opening a pipe would wait for its writer for ever.
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        _refuse_shared(path, os.fstat(handle))
        return os.read(handle, MAX_BYTES)
    finally:
        os.close(handle)


def _refuse_shared(path: Path, facts: os.stat_result) -> None:
    if not stat.S_ISREG(facts.st_mode):
        raise Invalid(
            f"the secret file {path} is not a regular file",
            hint="name a file that holds the secret and nothing else, with mode 0600",
        )
    if facts.st_uid not in (os.geteuid(), 0):
        raise Invalid(
            f"the secret file {path} belongs to somebody else",
            hint="run maint as its owner; or write the secret into a file of your own, since whoever owns this one may"
            " change it",
        )
    if facts.st_mode & 0o077:
        mode = stat.S_IMODE(facts.st_mode)
        raise Invalid(
            f"the secret file {path} is open to others (mode {mode:04o})", hint=f"chmod 600 {shlex.quote(str(path))}"
        )
    if facts.st_size > MAX_BYTES:
        raise Invalid(
            f"the secret file {path} is larger than {MAX_BYTES} bytes",
            hint="name a file that holds the secret and nothing else",
        )


def _harmless(err: bytes, out: bytes) -> list[str]:
    """Return the words on stderr, unless a line of the output is among them."""
    words = err.decode(errors="replace")
    told = [line for line in out.decode(errors="replace").splitlines() if line.strip()]
    return [] if any(line.strip() in words for line in told) else words.splitlines()[-3:]
