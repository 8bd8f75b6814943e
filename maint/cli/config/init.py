"""`maint config init`: six questions, each answer tried on the spot, and a commented configuration at the end."""

import os
import shlex
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, TextIO

import msgspec

from maint import files
from maint.cli.command import command
from maint.cli.config import trials
from maint.cli.config.draft import Asker, Draft, Question
from maint.cli.configless import s3_of
from maint.cli.lab.options import lab_folder
from maint.cli.options import Flags, argument, option
from maint.config.fields import STORES
from maint.config.paths import absolute
from maint.config.precedence import ConfigFlags, load_settings
from maint.config.sample import sample
from maint.config.schema import SiteSettings
from maint.errors import Failure, Interrupted, Invalid, Refused, UsageError

_USUAL = "~/.config/maint/config.yaml"
_THERE = "name another file"


class Answers(msgspec.Struct, frozen=True):
    """What flags answer; what they leave out is asked for."""

    manager: Annotated[str, option("--manager", "HOST, or HOST:PLAIN:TLS with its ports.")] = ""
    ca: Annotated[str, option("--ca", "PEM file of its certificate's authority.")] = ""
    fingerprint: Annotated[str, option("--fingerprint", "SHA256:… of the certificate to believe.")] = ""
    plain: Annotated[bool, option("--plain", "A manager without TLS will do.")] = False
    username: Annotated[str, option("--username", "Account for its API; admin.")] = ""
    password: Annotated[str, option("--password", "Its password as a reference, file:PATH.")] = ""
    proxy: Annotated[str, option("--proxy", "HTTP proxy on the way to the manager, http://HOST:PORT.")] = ""
    on_redacted: Annotated[str, option("--on-redacted", "window, problem or accept.")] = ""
    ssh: Annotated[str, option("--ssh", "USER@HOST:PORT of the manager's host, or none.")] = ""
    ssh_key: Annotated[str, option("--ssh-key", "Private key for it.")] = ""
    host_key: Annotated[str, option("--host-key", "SHA256:… of the host key to believe.")] = ""
    recipient: Annotated[str, option("--recipient", "age1…, or new:FILE to make a key pair.")] = ""
    store: Annotated[str, option("--store", f"Where snapshots go: {STORES}.")] = ""
    s3: Annotated[
        list[str] | None, option("--s3", "NAME=VALUE as under backup.s3, such as endpoint=URL; repeatable.")
    ] = None
    lab: Annotated[bool, option("--lab", "Answer for the lab that `maint lab up` has brought up.")] = False
    keep_failing: Annotated[bool, option("--keep-failing", "Keep answers that fail, with a warning.")] = False
    sample: Annotated[bool, option("--sample", "Ask nothing: write a file that shows every key.")] = False

    @property
    def given(self) -> bool:
        """Whether any flag answers anything."""
        return self != Answers(keep_failing=self.keep_failing)


@command()
def init(
    flags: Flags,
    answers: Answers,
    file: Annotated[str | None, argument("Where to write it, if not where it is read.")] = None,
) -> None:
    """Ask six questions, try each answer, and write a commented configuration; never over a file that is there.

    Without a terminal flags alone answer; without any of them it writes a sample of all keys.
    """
    target = absolute(file or flags.config or os.environ.get("MAINT_CONFIG") or _USUAL)
    if files.visible(target):
        raise Refused(f"{target} is there already", hint=_THERE)
    if not all(str(one).isprintable() for one in (target, *msgspec.structs.astuple(answers))):
        raise UsageError("a flag, or the file's name, holds a character that cannot be shown", hint="type it anew")
    source = sys.stdin if sys.stdin.isatty() else None
    if answers.sample or (source is None and not answers.given):
        _write_sample(flags, target)
        return
    _make(flags, answers, target, source)


def _write_sample(flags: Flags, target: Path) -> None:
    screen = flags.screen()
    if flags.dry_run:
        screen.emit({"path": str(target)}, f"would write a sample configuration to {target}")
        return
    with files.writing(target):
        if not files.create(target, sample().encode()):
            raise Refused(f"{target} is there already", hint=_THERE)
    screen.emit({"path": str(target)}, str(target))
    screen.say("this sample shows every key; --manager, --password and --store have it filled in, and tried")


def _make(flags: Flags, answers: Answers, target: Path, source: TextIO | None) -> None:
    """Ask, try, and write unless this is a dry run."""
    screen = flags.screen()
    lab = _lab() if answers.lab else None
    answers = _of_lab(answers, lab) if lab else answers
    if source is None and (missing := _missing(answers)):
        raise UsageError(
            f"there is no terminal to ask on, and {', '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing",
            hint="give these flags; `maint config init --help` says what each means, --sample writes a sample",
        )
    with TemporaryDirectory(prefix="maint-init-") as folder:
        name = flags.site or (lab.name if lab else "prod")
        draft = Draft(target, name, Path(folder), screen, dry_run=flags.dry_run)
        draft.try_writing(target)
        if answers.proxy:
            draft.values["proxy"] = answers.proxy
        try:
            _ask(draft, Asker(screen, source, keep_failing=answers.keep_failing), answers, lab)
        except Interrupted as signalled:
            signalled.hint = "nothing was written"
            raise
        if flags.dry_run:
            screen.emit({"path": str(target), "written": [], "next": []}, f"would write {target}")
            screen.say("nothing was written, so that files can be written there was not tried")
            return
        written = [str(path) for path in draft.write()]
    following = _following(target)
    screen.emit({"path": str(target), "written": list(written), "next": list(following)}, str(target))
    screen.say(f"written: {', '.join(written)}\nnext (doctor asks for the backup and the drill that follow it):")
    screen.say("\n".join(f"  {line}" for line in following))


def _ask(draft: Draft, asker: Asker, answers: Answers, lab: SiteSettings | None) -> None:
    """Ask the six questions, in an order in which each answer can be tried."""
    draft.screen.say("1 of 6: the manager")
    asker.settle(
        lambda at: trials.manager(
            draft, asker, at, ca=answers.ca, fingerprint=answers.fingerprint, plain=answers.plain
        ),
        Question("its address (HOST; HOST:PLAIN:TLS for ports that are not 7180 and 7183)", answers.manager),
    )
    if lab:
        bootstrap = lab.manager.bootstrap
        draft.add("manager", bootstrap={"username": bootstrap.username, "password": bootstrap.password})
        draft.add("manager", license=str(lab.manager.license))
        if kdc := lab.manager.kdc:
            draft.add("manager", kdc={"username": kdc.username, "password": kdc.password})
    draft.screen.say("2 of 6: the login")
    where = "where its password is (file:PATH, which only you can read; env:NAME; command:PROGRAM)"
    asker.settle(
        lambda username, password: trials.login(draft, username, password),
        Question("account for its API", answers.username, "admin"),
        Question(where, answers.password),
    )
    draft.screen.say("3 of 6: redaction")
    default = "window" if _redacts(draft, asker) and answers.ssh != "none" else "problem"
    words = f"what a backup does while the API redacts: {', '.join(trials.REDACTIONS)}"
    asker.settle(lambda word: trials.redaction(draft, word), Question(words, answers.on_redacted, default))
    draft.screen.say("4 of 6: SSH to the manager's host")
    known = _known_hosts(lab) if lab else b""
    usual = trials.USUAL_KEYS
    host = draft.section("manager").get("host", "")
    asker.settle(
        lambda at, key: trials.ssh(draft, asker, at, key, host_key=answers.host_key, known=known),
        Question("account and address (USER@HOST:PORT), or none", answers.ssh, f"root@{host}"),
        Question(
            f"private key, or {usual}: those that ssh uses", answers.ssh_key or (answers.ssh and usual), usual, "none"
        ),
    )
    draft.screen.say("5 of 6: the store")
    place = Question("where snapshots go", answers.store, str(_beside(draft.target, "backups")))
    s3 = s3_of(answers.s3 or ())
    asker.settle(lambda at: trials.store(draft, asker, at, s3), place)
    draft.screen.say("6 of 6: the recipient")
    words = "public key that snapshots are encrypted for (age1…), or new:FILE to make a key pair"
    key = Question(words, answers.recipient, f"new:{draft.folder / 'recovery.key'}")
    asker.settle(lambda text: trials.recipient(draft, text), key, needed=True)


def _redacts(draft: Draft, asker: Asker) -> bool:
    try:
        return trials.redacts(draft)
    except Failure as error:  # an answer was kept that fails
        draft.screen.warn(f"whether the API redacts cannot be told: {error.message}")
        return asker.there


def _beside(target: Path, name: str) -> Path:
    return Path("/var/lib/maint") / name if target.is_relative_to("/etc") else target.parent / name


def _missing(answers: Answers) -> list[str]:
    needed = {"--manager": answers.manager, "--password": answers.password, "--store": answers.store}
    needed |= {"--ssh (or --ssh none)": answers.ssh, "--recipient (age1…, or new:FILE)": answers.recipient}
    return [flag for flag, value in needed.items() if not value]


def _lab() -> SiteSettings:
    """Return how the lab of this user is reached; Invalid: there is none."""
    config = lab_folder("") / "config.yaml"
    if not config.is_file():
        raise Invalid(f"there is no lab in {config.parent}", hint="maint lab up")
    return load_settings(ConfigFlags(config=str(config)), {"HOME": os.environ.get("HOME", "/")}).site()


def _known_hosts(lab: SiteSettings) -> bytes:
    path = lab.ssh.known_hosts if lab.ssh else None
    if path is None:
        return b""
    with files.explaining(f"the host keys of the lab, {path}, cannot be read", "bring it up anew: maint lab up"):
        return path.read_bytes()


def _of_lab(answers: Answers, lab: SiteSettings) -> Answers:
    """Return the answers with those of the lab in the place of what was not said."""
    at, (host, *_) = lab.manager, lab.hosts_in("manager")
    found = {
        "manager": f"{at.host}:{at.plain_port}:{at.tls_port}",
        "ca": str(at.ca) if at.ca else "",
        "username": at.username,
        "password": at.password,
        "on_redacted": "window",
        "ssh": f"root@{host.address}:{host.port or 22}",
        "ssh_key": str(lab.ssh.key) if lab.ssh and lab.ssh.key else "",
        "store": "backups",
        "recipient": "new:recovery.key",
    }
    return msgspec.structs.replace(
        answers,
        plain=answers.plain or at.ca is None,
        **{key: getattr(answers, key) or value for key, value in found.items()},
    )


def _following(target: Path) -> list[str]:
    """Return the three commands that come next."""
    usual = target == absolute(_USUAL)
    where = "" if usual else f" --config {shlex.quote(str(target))}"
    return [f"maint doctor{where}", f"maint backup create{where}", f"maint backup drill{where}"]
