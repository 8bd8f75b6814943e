"""`maint host check`: gather or read facts, judge them, show what was found."""

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Annotated

import msgspec

from maint.adapters.ssh.shell import FabricFleet
from maint.checks.check import RUNNING, Check, acceptances, judge
from maint.checks.facts import SiteFacts
from maint.checks.facts_file import from_json, to_json, with_matrix
from maint.checks.gather import Enquiry, ask_site, profiles_of, setting_of
from maint.checks.registry import CHECKS, must_exist, named, select
from maint.checks.thresholds import matrix_of
from maint.cli.command import command
from maint.cli.configless import settings_of
from maint.cli.hosts.inventory import Source, inventory
from maint.cli.open_site import limit_of, limited, opened, way_to_lab
from maint.cli.options import Flags, Several, option
from maint.cli.screen import Screen, table
from maint.cli.site.page_facts import keep_checks
from maint.config.schema import Accepted
from maint.config.yaml import load
from maint.errors import Interrupted, Invalid, MaintError, UsageError, WorkFailed
from maint.files import LARGEST, read_file, writing
from maint.files import replace as write_file
from maint.model.fleet import Contact, Finding, HostReply, State
from maint.model.formatting import tell_time
from maint.model.json import Json
from maint.model.secret import scrub
from maint.report import checks as reports
from maint.steps.hosts.check import authorities
from maint.steps.hosts.fan_out import choose

OUTPUTS = ("junit", "nagios")  # beside those of every command
_UNKNOWN = 3
_SEVERAL = Several(alone=("save", "facts", "report"))
_SLOW_LOGIN = 1.0  # seconds


class CheckRequest(msgspec.Struct, frozen=True):
    """What the operator asked for."""

    hosts: Annotated[list[str], option("--host", "A host's name; may be repeated.")] = []
    hosts_in: Annotated[list[str], option("--hosts-in", "A group of hosts of the config.")] = []
    groups: Annotated[list[str], option("--group", "A group of checks.")] = []
    ids: Annotated[list[str], option("--check", "A check's id; may be repeated.")] = []
    phase: Annotated[str, option("--phase", "running, before-install, before-restore or before-backup.")] = ""
    hosts_from: Source = "config"
    save: Annotated[str, option("--save-facts", "Keep what the hosts said in a file.")] = ""
    facts: Annotated[str, option("--facts", "Judge a file of facts; contacts no host.")] = ""
    plan: Annotated[str, option("--plan", "The input of the ECS wizard, to be judged.")] = ""
    matrix: Annotated[str, option("--matrix", "A file that lists which releases are supported.")] = ""
    report: Annotated[str, option("--report", "Write an HTML report to this file.")] = ""
    listed: Annotated[bool, option("--list", "List all checks; needs no config.")] = False
    ldap_ou: Annotated[str, option("--ldap-ou", "For ldap.ad_rights: the OU to try.")] = ""
    ldap_url: Annotated[str, option("--ldap-url", "For ldap.ad_rights: the directory.")] = ""

    @property
    def chosen(self) -> bool:
        """Whether checks were chosen by hand."""
        return bool(self.ids or self.groups or self.phase)

    @property
    def narrowed(self) -> bool:
        """Whether hosts were chosen by hand."""
        return bool(self.hosts or self.hosts_in)


@command(outputs=OUTPUTS, several=_SEVERAL)
def check(flags: Flags, request: CheckRequest) -> int:
    """Ask the hosts what there is to know, and say what is wrong, why it matters and how to mend it."""
    if request.listed:
        return _show_list(flags, request.groups, request.phase)
    return _carry_out(flags, request)


def _show_list(flags: Flags, groups: Sequence[str], phase: str) -> int:
    """Show all checks with what they ask, expect, and why."""
    must_exist(groups=groups, phase=phase)
    known = [
        c for c in CHECKS.values() if (not groups or set(groups) & set(c.groups)) and (not phase or phase in c.phases)
    ]
    asked = CHECKS.questions()
    data: list[Json] = [
        {
            "id": c.id, "groups": list(c.groups), "severity": c.severity.value, "phases": list(c.phases),
            "opt_in": c.opt_in, "needs_manager": c.needs_manager, "expected": c.expected, "why": c.why,
            "remedy": c.remedy, "source": c.reference, "commands": {name: asked[name] for name in c.asks},
        }
        for c in known
    ]  # fmt: skip
    rows = [[c.id, c.severity.value, ", ".join(c.phases), ", ".join(c.groups), c.expected] for c in known]
    flags.screen().emit({"checks": data}, table(["CHECK", "SEVERITY", "PHASES", "GROUPS", "EXPECTED"], rows))
    return 0


def _carry_out(flags: Flags, request: CheckRequest) -> int:
    """Check, and return the exit code; with `-o nagios` every failure is a status of the plugin convention."""
    screen = flags.screen()
    try:
        return _run(flags, screen, request)
    except MaintError as failure:
        if screen.output != "nagios":
            raise
        screen.raw(f"HOSTS UNKNOWN - {reports.plain(failure.message)}\n")
        return _UNKNOWN


def _run(flags: Flags, screen: Screen, request: CheckRequest) -> int:
    stops: list[Interrupted] = []
    if request.facts:
        _refuse_asking(request)
        site, checks, accepted, name, chosen = _kept(request)
    else:
        # A monitoring plugin that is ended must not look as if it had ended by itself.
        stopped = None if screen.output == "nagios" else stops.append
        site, checks, accepted, name = _gathered(flags, screen, request, stopped)
        chosen = request.narrowed
    contacts = [Contact(host.name, host.reached, scrub(host.reason)) for host in site.hosts]
    findings = judge(checks, site, accepted, chosen=chosen)
    if request.report and flags.dry_run:
        screen.say(f"would write the report {request.report}")
    elif request.report:
        head = {"site": name, "taken_at": tell_time(site.taken_at)}
        _write(Path(request.report), reports.html(findings, contacts, head))
    if not (request.facts or request.narrowed or request.chosen or flags.dry_run or stops):
        _remember(flags, site.taken_at, findings, contacts)
    code = _show(screen, findings, contacts)
    if stops:
        raise stops[0]
    return code


def _remember(flags: Flags, at: datetime, findings: Sequence[Finding], contacts: Sequence[Contact]) -> None:
    """Keep what all hosts said for the catalogue page."""
    with suppress(OSError):  # who may ask the hosts need not own the state folder
        keep_checks(settings_of(flags).site().state, at, reports.to_json(findings, contacts))


def _refuse_asking(request: CheckRequest) -> None:
    """Refuse what only living hosts could answer, rather than leave it out in silence."""
    asking = {
        "--hosts-in": bool(request.hosts_in), "--hosts-from": request.hosts_from != "config",
        "--plan": bool(request.plan), "--save-facts": bool(request.save),
    }  # fmt: skip
    if given := [option for option, is_given in asking.items() if is_given]:
        raise UsageError(f"{given[0]} has no part in judging kept facts", hint="leave it out, or leave out --facts")


def _kept(request: CheckRequest) -> tuple[SiteFacts, Sequence[Check], Sequence[Accepted], str, bool]:
    """Return facts, checks, accepted deviations and site's name of a file, and whether its hosts were chosen."""
    site, told = from_json(_text(request.facts), request.facts)
    if request.matrix:
        site = with_matrix(site, _matrix(request.matrix))
    kept, accepted = told.get("checks"), told.get("accepted")
    if request.chosen:
        checks = select(request.ids, request.groups, request.phase or site.setting.phase)
    else:
        listed = kept if isinstance(kept, list) else []
        strange = [each for each in listed if not (isinstance(each, str) and each in CHECKS)]
        if not listed or strange:
            what = f"for check {str(strange[0])[:40]!r}, which there is not here" if strange else "for no check"
            raise Invalid(f"{request.facts} was taken {what}", hint="choose with --check, --group or --phase")
        checks = named([str(each) for each in listed])
    try:
        accepting = acceptances(_listed(accepted))
    except ValueError as error:
        raise Invalid(
            f"{request.facts}: {error}", hint="take the facts anew, with each acceptance whole in the config"
        ) from None
    if request.hosts:
        _only(site, request)
    return site, checks, accepting, str(told.get("site") or ""), told.get("chosen") is True or request.narrowed


def _listed(accepted: Json) -> Sequence[Json]:
    if not isinstance(accepted, list):
        raise ValueError("it does not say which deviations were accepted")
    return accepted


def _only(site: SiteFacts, request: CheckRequest) -> None:
    """Leave the chosen hosts; one that the file does not know must not look like one that is well."""
    known = [host.name for host in site.hosts]
    if strange := [name for name in request.hosts if name not in known]:
        raise UsageError(f"{request.facts} holds nothing of host {strange[0]!r}", hint=f"it holds {', '.join(known)}")
    site.hosts[:] = [host for host in site.hosts if host.name in request.hosts]


def _gathered(
    flags: Flags, screen: Screen, request: CheckRequest, stopped: Callable[[Interrupted], None] | None
) -> tuple[SiteFacts, Sequence[Check], Sequence[Accepted], str]:
    ids = ["ecs.plan"] if request.plan and not request.chosen else request.ids
    checks = select(ids, request.groups, request.phase or RUNNING)
    if flags.dry_run and (trying := [check.id for check in checks if check.opt_in]):
        screen.say(f"would try {', '.join(trying)}, which writes")
        checks = [check for check in checks if not check.opt_in]
    plan, matrix = _plan(request.plan), _matrix(request.matrix)
    with opened(flags, limited_here=False) as (configured, _):  # hosts that answered in time are judged
        settings = configured.settings
        with limited(flags, configured, "learning which hosts there are"):
            hosts = choose(inventory(configured, request.hosts_from), request.hosts, request.hosts_in)
        for strange in [item.check for item in settings.accepted if item.check not in CHECKS]:
            screen.warn(f"accepted: there is no check {strange!r}, so this accepts nothing; --list shows all checks")
        setting = setting_of(settings, request.phase or RUNNING, plan, matrix)
        profiles = {host.name: profiles_of(host, settings) for host in hosts}
        values = {"authorities": authorities(settings), "ou": request.ldap_ou, "ldap": request.ldap_url}
        enquiry = Enquiry(hosts, checks, setting, profiles, values)
        tell = Teller(screen, len(hosts))
        fleet = FabricFleet(configured.settings, configured.secrets, heard=tell, stopped=stopped)
        site = ask_site(configured, enquiry, fleet, timeout=limit_of(flags))
        _warn_of_logins(screen, site)
        if not all(host.reached for host in site.hosts) and (way := way_to_lab(settings_of(flags))):
            screen.say(f"hint: {way}")
        if request.save and flags.dry_run:
            screen.say(f"would keep in {request.save} what the hosts said")
        elif request.save:
            listed: list[Json] = [item.model_dump(mode="json") for item in settings.accepted]
            more: dict[str, Json] = {
                "site": settings.name, "checks": [c.id for c in checks], "accepted": listed, "chosen": request.narrowed,
            }  # fmt: skip
            _save(request.save, json.dumps(to_json(site, more), indent=1, ensure_ascii=False) + "\n")
        return site, checks, settings.accepted, settings.name


class Teller:
    """Tells the operator of each host as its answer comes."""

    def __init__(self, screen: Screen, count: int) -> None:
        self._screen = screen
        self._count = count
        self._heard = 0

    def __call__(self, reply: HostReply) -> None:
        """Tell of one reply; failures always, answers in place or with `-v`."""
        self._heard += 1
        place = f"[{self._heard}/{self._count}]"
        if reply.reason:
            self._screen.say(f"{place} {reply.host}: {reply.reason}{f'; {reply.hint}' if reply.hint else ''}")
        else:
            self._screen.progress(f"{place} {reply.host} answered in {reply.seconds:.1f} s")


def _warn_of_logins(screen: Screen, site: SiteFacts) -> None:
    slow = [host.name for host in site.hosts if host.reached and host.login_seconds > _SLOW_LOGIN]
    if slow and len(site.hosts) == len(slow):
        worst = max(host.login_seconds for host in site.hosts)
        screen.say(f"note: the login alone took up to {worst:.1f} s (a slow name look-up by sshd, or much at once)")


def _text(path: str) -> str:
    try:
        return read_file(Path(path)).decode()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not text"
        raise Invalid(f"{path} cannot be read: {why}", hint="is it the right file?") from None


def _matrix(path: str) -> Mapping[str, Json] | None:
    return matrix_of(load(_text(path), path).data, path) if path else None


def _plan(path: str) -> Mapping[str, Json] | None:
    if not path:
        return None
    data = load(_text(path), path).data
    if not isinstance(data, dict):
        raise Invalid(f"{path} is not a plan: a mapping is expected", hint="`maint help checks` describes the file")
    return data


def _show(screen: Screen, findings: Sequence[Finding], contacts: Sequence[Contact]) -> int:
    if screen.output == "nagios":
        text, status = reports.nagios(findings, contacts)
        screen.raw(text)
        return status
    if screen.output == "junit":
        screen.raw(reports.to_junit(findings, contacts))
        return reports.exit_code(findings, contacts)
    people = screen.output == "table"
    screen.emit({} if people else reports.to_json(findings, contacts), _told(screen, findings, contacts))
    return reports.exit_code(findings, contacts)


def _told(screen: Screen, findings: Sequence[Finding], contacts: Sequence[Contact]) -> str:
    """Return what people are shown."""
    found = reports.rows(
        findings if screen.verbose else reports.without_repeats(findings, contacts), every=screen.verbose
    )
    lines = [_spelled(*row) for row in found]
    unreached = [f"NOT REACHED  {contact.name}: {contact.reason}" for contact in contacts if not contact.reached]
    troubled = [row for row in reports.by_host(findings, contacts) if any(cell != "0" for cell in row[2:5])]
    heads = ["HOST", "ANSWERED", *(state.value.upper() for state in reports.ORDER)]
    parts = ["\n".join(lines), "\n".join(unreached), table(heads, troubled) if troubled else ""]
    skipped = not screen.verbose and any(one.state is State.SKIP for one in findings)
    summary = reports.summary(findings, contacts) + ("; `-v` shows what was skipped, and why" if skipped else "")
    return "\n\n".join([part for part in parts if part] + [summary])


def _spelled(state: str, check: str, where: str, observed: str, expected: str, remedy: str) -> str:
    head = f"{state:<5} {check}  {where}\n      observed: {observed}\n      expected: {expected}"
    return head if state in ("PASS", "SKIP") else f"{head}\n      remedy:   {remedy}"


def _save(path: str, text: str) -> None:
    """Keep facts, unless there are more than can be read back."""
    if (size := len(text.encode("utf-8", "replace"))) > LARGEST:
        raise WorkFailed(
            f"what the hosts said is not kept: {size} bytes, and --facts reads {LARGEST} at most",
            hint="choose fewer hosts (--host, --hosts-in) or checks (--check, --group), and a file for each choice",
        )
    _write(Path(path), text)


def _write(path: Path, text: str) -> None:
    """Write a file that only its owner can read, whole or not at all."""
    if not path.absolute().parent.is_dir():
        raise WorkFailed(f"{path} cannot be written: there is no folder {path.absolute().parent}", hint="make it first")
    with writing(path):
        write_file(path.absolute(), text.encode("utf-8", "replace"))
