"""Where files lie: configuration, state, the playbooks and templates of the product; and whose account runs this."""

import os
import pwd
import socket
from collections.abc import Callable, Mapping
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from maint.errors import Invalid

SYSTEM_FILE = Path("/etc/maint/config.yaml")
SYSTEM_STATE = Path("/var/lib/maint")
SYSTEM_KNOWN_HOSTS = Path("/etc/ssh/ssh_known_hosts")
SITES_FOLDER = "sites.d"  # beside a configuration file: sites in files of their own
CLOSED_HINT = "run it as an account that may look there, or name another file with --config or MAINT_CONFIG"


def expanded(path: str, environ: Mapping[str, str]) -> str:
    """Return a path whose leading `~/` is our home folder."""
    home = environ.get("HOME")
    return f"{home}/{path[2:]}" if home and path.startswith("~/") else path


def home() -> Path:
    """Return our home folder; Invalid for an account that has none, as in containers."""
    try:
        return Path.home()
    except RuntimeError:
        raise Invalid(
            "this account has no home folder: HOME is not set, and the system does not know the account",
            hint="set HOME, or name the file or folder by its whole path: in the config, with a flag, or by MAINT_LAB",
        ) from None


def absolute(path: str | Path) -> Path:
    """Return a path from the root, whose leading `~` is a home folder; Invalid where nobody knows that."""
    try:
        return Path(path).expanduser().absolute()
    except RuntimeError:
        raise Invalid(f"nobody knows the home folder of {path}", hint="name it by its whole path") from None


def insist_on_text(path: Path, what: str) -> Path:
    """Return a path; Invalid: it is no text, so that no file of ours, command or unit could name it."""
    if any("\ud800" <= character <= "\udfff" for character in str(path)):
        words = f"{what} {str(path)!r} lies where the name of a file or folder is no UTF-8 text"
        raise Invalid(words, hint="give it, and the folders above it, names in UTF-8")
    return path


def user_file(environ: Mapping[str, str]) -> Path | None:
    """Return where a user's own configuration is, None for somebody without a home folder."""
    home = environ.get("HOME")
    return Path(home) / ".config/maint/config.yaml" if home and home.startswith("/") else None


def config_file(
    named: str | None, environ: Mapping[str, str], *, system: Path = SYSTEM_FILE
) -> tuple[Path | None, tuple[Path, ...]]:
    """Find the configuration file, links followed (None: there is none), and return the places that were looked at.

    Args:
        named: the file that --config or MAINT_CONFIG names; then no other is looked for. Invalid: it is not there, or
            is a pipe, which nobody could read again who follows a command that was told, or its path is no text.
        system: the file for the whole machine.
    """
    if named:
        path = Path(expanded(named, environ))
        if why := unseen(path):
            raise Invalid(f"the configuration {why}", hint=CLOSED_HINT)
        if not _is_there(path):
            raise Invalid(f"there is no configuration file {path}", hint="--config and MAINT_CONFIG name a file")
        if path.is_fifo():
            words = f"the configuration {path} is a pipe, which only one command could read"
            raise Invalid(words, hint="write it into a file: what is told to do next names that")
        return insist_on_text(path.resolve(), "the configuration"), (path,)
    user = user_file(environ)
    looked = (user, system) if user else (system,)
    found = next((path for path in looked if _is_there(path)), None)
    return (insist_on_text(found.resolve(), "the configuration") if found else None), looked


def unseen(path: Path) -> str:
    """Return why nobody can tell whether a file is there, such as a folder that is closed to us; "" where we can."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return ""
    except OSError as error:
        return f"{path} cannot be looked at: {error.strerror}"
    return ""


def _is_there(path: Path) -> bool:
    """Tell whether we can see a file; a home folder that is closed to us (HOME kept by sudo) holds none for us."""
    try:
        path.stat()
    except OSError:
        return False
    return True


def _home_of_owner(folder: Path) -> Path | None:
    try:
        return Path(pwd.getpwuid(folder.stat().st_uid).pw_dir)
    except (KeyError, OSError):
        return None


def state_folder(
    config: Path, environ: Mapping[str, str], *, home_of_owner: Callable[[Path], Path | None] = _home_of_owner
) -> Path:
    """Return where the state of a configuration's sites lies when nobody says otherwise."""
    # All who use the same file must meet at the same lock, so this depends on where the file is, not on who asks: only
    # one's own `XDG_STATE_HOME` is known, that of another owner is taken to be the usual one.
    if config.is_relative_to("/etc"):
        return SYSTEM_STATE
    own = Path(environ.get("HOME", "/")).resolve()
    for folder in config.parents[:-1]:  # the last one is /, nobody's home
        if folder == own:
            return _xdg_state(own, environ)
        if home_of_owner(folder) == folder:
            return folder / ".local/state/maint"
    return config.parent / ".maint"


def _xdg_state(home: Path, environ: Mapping[str, str]) -> Path:
    given = environ.get("XDG_STATE_HOME", "")
    # A relative one is to be ignored, says the XDG base directory specification.
    return (Path(given) if given.startswith("/") else home / ".local/state") / "maint"


def shipped_folder(name: str) -> Traversable:
    """Return a shipped folder, of the installed package or (editable install) the checkout; FileNotFoundError."""
    inside = files("maint") / "_bundled" / name
    if inside.is_dir():
        return inside
    beside = Path(__file__).resolve().parents[2] / name
    if beside.is_dir() and (beside.parent / "pyproject.toml").is_file():
        return beside
    raise FileNotFoundError(f"{name}/ is missing from this installation")


def changelog() -> str:
    """Return what is new in each version; FileNotFoundError where it is missing."""
    place = shipped_folder("playbooks")
    inside = files("maint") / "_bundled" / "CHANGELOG.md"
    found = inside if inside.is_file() else Path(str(place)).parent / "CHANGELOG.md"
    return found.read_text(encoding="utf-8")


def playbooks() -> dict[str, str]:
    """Return the shipped playbooks: name (without `.yaml`) → text, in order."""
    found = sorted((item for item in shipped_folder("playbooks").iterdir()), key=lambda item: item.name)
    return {
        item.name.removesuffix(".yaml"): item.read_text(encoding="utf-8")
        for item in found
        if item.name.endswith(".yaml")
    }


def template(name: str) -> str:
    """Return the text of a shipped template by its path below `templates/`; FileNotFoundError where there is none."""
    steps = name.split("/")
    if not name or any(step in ("", ".", "..") for step in steps):
        raise FileNotFoundError(name)
    return shipped_folder("templates").joinpath(*steps).read_text(encoding="utf-8")


def account() -> str:
    """Return the name of this process's account, by number where it has none.

    What the environment says of it is not asked: there anybody can say anything.
    """
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # in containers
        return f"uid {os.getuid()}"


def user() -> str:
    """Return whose account runs this, and who became it by sudo: `root (ann)`."""
    name = account()
    before = os.environ.get("SUDO_USER", "")
    return f"{name} ({before})" if before.isprintable() and before not in ("", name) else name


def actor() -> str:
    """Return who runs this, as `user@host`."""
    return f"{user()}@{socket.gethostname()}"
