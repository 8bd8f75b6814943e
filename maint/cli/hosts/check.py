"""Carry out `maint host check`: gather or read facts, judge them, show what was found."""

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from maint.checks.check import RUNNING, Check
from maint.checks.evaluate import acceptances, judge
from maint.checks.facts import ManagerFacts, SiteFacts
from maint.checks.facts_file import from_json, to_json, with_matrix
from maint.checks.gather import Enquiry, ask_manager, gather, profiles_of, setting_of
from maint.checks.matrix import matrix_of
from maint.checks.registry import CHECKS, QUESTIONS, select
from maint.cli.composition import ConfiguredSite
from maint.cli.flags import Flags
from maint.cli.screen import Screen, table
from maint.config.schema import Accepted, HostSettings
from maint.errors import Interrupted, Invalid, MaintError, UsageError
from maint.model.finding import Contact, Finding, State
from maint.model.fleet import Reply
from maint.model.json import Json
from maint.report import checks as reports

OUTPUTS = ("table", "json", "yaml", "junit", "nagios")
_UNKNOWN = 3
_SLOW_LOGIN = 1.0  # seconds


class Wish(msgspec.Struct, frozen=True):
    """What the operator asked for; see the command's options."""

    hosts: Sequence[str] = ()
    hosts_in: Sequence[str] = ()
    hosts_from: str = "config"
    ids: Sequence[str] = ()
    groups: Sequence[str] = ()
    phase: str = ""
    save: str = ""
    facts: str = ""
    plan: str = ""
    matrix: str = ""
    report: str = ""
    more: Mapping[str, str] | None = None

    @property
    def chosen(self) -> bool:
        """Whether checks were chosen by hand."""
        return bool(self.ids or self.groups or self.phase)


def show_list(flags: Flags, groups: Sequence[str], phase: str) -> int:
    """Show all checks with what they ask, expect, and why."""
    known = [
        c for c in CHECKS.values() if (not groups or set(groups) & set(c.groups)) and (not phase or phase in c.phases)
    ]
    data: list[Json] = [
        {
            "id": c.id, "groups": list(c.groups), "severity": c.severity.value, "phases": list(c.phases),
            "opt_in": c.opt_in, "needs_manager": c.needs_manager, "expected": c.expected, "why": c.why,
            "remedy": c.remedy, "source": c.reference, "commands": {name: QUESTIONS[name] for name in c.asks},
        }
        for c in known
    ]  # fmt: skip
    rows = [[c.id, c.severity.value, ", ".join(c.phases), ", ".join(c.groups), c.expected] for c in known]
    flags.screen().emit({"checks": data}, table(["CHECK", "SEVERITY", "PHASES", "GROUPS", "EXPECTED"], rows))
    return 0


def run(flags: Flags, wish: Wish) -> int:
    """Check, and return the exit code; with `-o nagios` every failure is a status of the plugin convention."""
    screen = flags.screen()
    if screen.output not in OUTPUTS:
        raise UsageError(f"there is no output {screen.output!r}", hint=f"-o {', '.join(OUTPUTS)}")
    try:
        return _run(flags, screen, wish)
    except MaintError as failure:
        if screen.output != "nagios":
            raise
        screen.raw(f"HOSTS UNKNOWN - {failure.message}\n")
        return _UNKNOWN


def _run(flags: Flags, screen: Screen, wish: Wish) -> int:
    stops: list[Interrupted] = []
    if wish.facts:
        _refuse_asking(wish)
        site, checks, accepted, name = _kept(wish)
    else:
        # A monitoring plugin that is ended must not look as if it had ended by itself.
        stopped = None if screen.output == "nagios" else stops.append
        site, checks, accepted, name = _gathered(flags, screen, wish, stopped)
    contacts = [Contact(host.name, host.reached, host.reason) for host in site.hosts]
    findings = judge(checks, site, accepted)
    if wish.report:
        head = {"site": name, "taken_at": f"{site.taken_at:%Y-%m-%d %H:%M} UTC"}
        _write(Path(wish.report), reports.html(findings, contacts, head))
    code = _show(screen, findings, contacts)
    if stops:
        raise stops[0]
    return code


def _refuse_asking(wish: Wish) -> None:
    """Refuse what only living hosts could answer, rather than leave it out in silence."""
    asking = {
        "--hosts-in": bool(wish.hosts_in), "--hosts-from": wish.hosts_from != "config", "--plan": bool(wish.plan),
        "--save-facts": bool(wish.save),
    }  # fmt: skip
    if given := [option for option, is_given in asking.items() if is_given]:
        raise UsageError(f"{given[0]} has no part in judging kept facts", hint="leave it out, or leave out --facts")


def _kept(wish: Wish) -> tuple[SiteFacts, Sequence[Check], Sequence[Accepted], str]:
    try:
        text = Path(wish.facts).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise Invalid(f"{wish.facts} cannot be read: {getattr(error, 'strerror', None) or 'it is no text'}") from None
    site, told = from_json(text, wish.facts)
    if wish.matrix:
        site = with_matrix(site, _matrix(wish.matrix))
    kept, accepted = told.get("checks"), told.get("accepted")
    if wish.chosen:
        checks = select(wish.ids, wish.groups, wish.phase or site.setting.phase)
    else:
        strange = [each for each in kept if each not in list(CHECKS)] if isinstance(kept, list) else []
        if not isinstance(kept, list) or not kept or strange:
            what = f"for check {str(strange[0])[:40]!r}, which there is not here" if strange else "for no check"
            raise Invalid(f"{wish.facts} was taken {what}", hint="choose with --check, --group or --phase")
        checks = [check for check in CHECKS.values() if check.id in kept]
    try:
        accepting = acceptances(_listed(accepted))
    except ValueError as error:
        raise Invalid(
            f"{wish.facts}: {error}", hint="take the facts anew, with each acceptance whole in the config"
        ) from None
    if wish.hosts:
        _only(site, wish)
    return site, checks, accepting, str(told.get("site") or "")


def _listed(accepted: Json) -> Sequence[Json]:
    if not isinstance(accepted, list):
        raise ValueError("it does not say which deviations were accepted")
    return accepted


def _only(site: SiteFacts, wish: Wish) -> None:
    """Leave the chosen hosts; one that the file does not know must not look like one that is well."""
    known = [host.name for host in site.hosts]
    if strange := [name for name in wish.hosts if name not in known]:
        raise UsageError(f"{wish.facts} holds nothing of host {strange[0]!r}", hint=f"it holds {', '.join(known)}")
    site.hosts[:] = [host for host in site.hosts if host.name in wish.hosts]


def _gathered(
    flags: Flags, screen: Screen, wish: Wish, stopped: Callable[[Interrupted], None] | None
) -> tuple[SiteFacts, Sequence[Check], Sequence[Accepted], str]:
    from maint.cli.hosts.inventory import choose, inventory
    from maint.cli.open_site import limit_of, opened

    checks = select(_ids(wish), wish.groups, wish.phase or RUNNING)
    plan, matrix = _plan(wish.plan), _matrix(wish.matrix)
    with opened(flags) as (configured, _):
        settings = configured.settings
        hosts = choose(inventory(configured, wish.hosts_from), wish.hosts, wish.hosts_in)
        for strange in [item.check for item in settings.accepted if item.check not in CHECKS]:
            screen.warn(f"accepted: there is no check {strange!r}, so this accepts nothing; --list shows all checks")
        setting = setting_of(settings, wish.phase or RUNNING, plan, matrix)
        profiles = {host.name: profiles_of(host, settings) for host in hosts}
        enquiry = Enquiry(hosts, checks, setting, profiles, wish.more or {})
        site = _asked(configured, enquiry, limit_of(flags), _teller(screen, hosts), stopped)
        _warn_of_logins(screen, site)
        if wish.save:
            listed: list[Json] = [item.model_dump(mode="json") for item in settings.accepted]
            more: dict[str, Json] = {"site": settings.name, "checks": [c.id for c in checks], "accepted": listed}
            _save(Path(wish.save), to_json(site, more))
        return site, checks, settings.accepted, settings.name


def _ids(wish: Wish) -> Sequence[str]:
    return ["ecs.plan"] if wish.plan and not wish.chosen else wish.ids


def _asked(
    site: ConfiguredSite,
    enquiry: Enquiry,
    limit: float | None,
    tell: "Teller",
    stopped: Callable[[Interrupted], None] | None,
) -> SiteFacts:
    """Ask the manager while the hosts are asked."""
    from maint.adapters.ssh.fleet import FabricFleet

    fleet = FabricFleet(site.settings, site.secrets, heard=tell, stopped=stopped)
    wanted = {check.id for check in enquiry.checks if check.needs_manager}
    on_manager = any("M" in letters for letters in enquiry.profiles.values())
    ids = {check.id for check in enquiry.checks}
    if not (wanted or enquiry.setting.plan is not None or (on_manager and "tls.expiry" in ids)):
        return gather(enquiry, fleet, site.clock.now(), ManagerFacts(), timeout=limit)
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(ask_manager, site.manager, full="cde.ozone" in ids)
        facts = gather(enquiry, fleet, site.clock.now(), ManagerFacts(), timeout=limit)
        manager = asked.result()
    whole = SiteFacts(site.clock.now(), facts.setting, manager)
    from msgspec.structs import replace

    whole.hosts.extend(replace(host, site=whole) for host in facts.hosts)
    return whole


class Teller:
    """Tells the operator of each host as its answer comes."""

    def __init__(self, screen: Screen, count: int) -> None:
        self._screen = screen
        self._count = count
        self._heard = 0

    def __call__(self, reply: Reply) -> None:
        """Tell of one reply; failures always, answers in place or with `-v`."""
        self._heard += 1
        place = f"[{self._heard}/{self._count}]"
        if reply.reason:
            self._screen.say(f"{place} {reply.host}: {reply.reason}{f'; {reply.hint}' if reply.hint else ''}")
        else:
            self._screen.progress(f"{place} {reply.host} answered in {reply.seconds:.1f} s")


def _teller(screen: Screen, hosts: Sequence[HostSettings]) -> Teller:
    return Teller(screen, len(hosts))


def _warn_of_logins(screen: Screen, site: SiteFacts) -> None:
    slow = [host.name for host in site.hosts if host.reached and host.login_seconds > _SLOW_LOGIN]
    if slow and len(site.hosts) == len(slow):
        worst = max(host.login_seconds for host in site.hosts)
        screen.say(f"note: the login alone took up to {worst:.1f} s (a slow name look-up by sshd, or much at once)")


def _loaded(path: str) -> object:
    """Return what a YAML file holds."""
    from maint.config.yaml import load

    try:
        text = Path(path).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise Invalid(f"{path} cannot be read: {getattr(error, 'strerror', None) or 'it is no text'}") from None
    return load(text, path).data


def _matrix(path: str) -> Mapping[str, Json] | None:
    return matrix_of(_loaded(path), path) if path else None


def _plan(path: str) -> Mapping[str, Json] | None:
    if not path:
        return None
    data = _loaded(path)
    if not isinstance(data, dict):
        raise Invalid(f"{path} is no plan: a mapping is expected", hint="`maint help checks` describes the file")
    return data


def _show(screen: Screen, findings: Sequence[Finding], contacts: Sequence[Contact]) -> int:
    if screen.output == "nagios":
        text, status = reports.nagios(findings, contacts)
        screen.raw(text)
        return status
    if screen.output == "junit":
        screen.raw(reports.junit(findings, contacts))
        return reports.exit_code(findings, contacts)
    if screen.output != "table":
        screen.emit(reports.to_json(findings, contacts), "")
        return reports.exit_code(findings, contacts)
    screen.emit({}, _told(screen, findings, contacts))
    return reports.exit_code(findings, contacts)


def _told(screen: Screen, findings: Sequence[Finding], contacts: Sequence[Contact]) -> str:
    """Return what people are shown."""
    silent = {contact.name for contact in contacts if not contact.reached}
    told_once = [one for one in findings if not (one.host in silent and one.state is State.ERROR)]
    found = reports.rows(findings if screen.verbose else told_once, every=screen.verbose)
    lines = [_spelled(*row) for row in found]
    unreached = [f"NOT REACHED  {contact.name}: {contact.reason}" for contact in contacts if not contact.reached]
    troubled = [row for row in reports.by_host(findings, contacts) if any(cell != "0" for cell in row[2:5])]
    heads = ["HOST", "ANSWERED", *(state.value.upper() for state in reports.ORDER)]
    parts = ["\n".join(lines), "\n".join(unreached), table(heads, troubled) if troubled else ""]
    return "\n\n".join([part for part in parts if part] + [reports.summary(findings, contacts)])


def _spelled(state: str, check: str, where: str, observed: str, expected: str, remedy: str) -> str:
    head = f"{state:<5} {check}  {where}\n      observed: {observed}\n      expected: {expected}"
    return head if state in ("PASS", "SKIP") else f"{head}\n      remedy:   {remedy}"


def _save(path: Path, facts: Mapping[str, Json]) -> None:
    import json

    _write(path, json.dumps(facts, indent=1, ensure_ascii=False) + "\n")


def _write(path: Path, text: str) -> None:
    """Write a file that only its owner can read, whole or not at all."""
    staging = path.with_name(f".{path.name}.new")
    try:
        with suppress(FileNotFoundError):
            staging.unlink()
        with os.fdopen(os.open(staging, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(text.encode("utf-8", "replace"))
            file.flush()
            os.fsync(file.fileno())
        staging.replace(path)
    except OSError as error:
        raise Invalid(f"{path} cannot be written: {error.strerror}") from None
