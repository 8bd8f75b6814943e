"""The host from which a virtual cluster is initialised: what it says (J11.1), and scripts that get secrets there."""

import base64
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from maint.config.schema import SiteSettings, VirtualClusterSettings
from maint.errors import Invalid, Refused, WorkFailed
from maint.model.manager import PARCELS
from maint.ports import Shell, ShellSight, Sight, Site
from maint.steps.hosts.fan_out import require_ssh
from maint.steps.virtual_clusters.step import own_prefix

GROUP = "ecs-master"
SCRIPTS = ("cde-utils.sh", "cdp-cde-utils.sh")  # its name, and the older one
LAST = (1, 5, 4)  # the last release whose virtual clusters are initialised with the script
_FOLDERS = ("/opt/cloudera", "/opt/maint", "/opt/cde", "/usr/local/bin", "/root")
_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_NAME = r"[A-Za-z0-9]([-A-Za-z0-9.]*[A-Za-z0-9])?"

SETUP = f"""\
PATH={PARCELS}/ECS/installer/install/bin/linux:$PATH:/var/lib/rancher/rke2/bin
KUBECONFIG=${{KUBECONFIG:-/etc/rancher/rke2/rke2.yaml}}
NO_PROXY=127.0.0.1,localhost${{NO_PROXY:+,$NO_PROXY}}
export PATH KUBECONFIG NO_PROXY
"""
"""What every script on that host begins with."""
SHARED_SECRET = "tls-dex-base"
"""The secret that holds the certificate of the gateway, which all virtual clusters of a service share."""
_NAMES = r"[a-z][a-z0-9.]*"
_PLACE = "b=/run; [ -d /run ] && [ -w /run ] || b=/tmp\n"  # memory, where there is some: nothing reaches a disk


class ServiceAddress(msgspec.Struct, frozen=True):
    """What the name of a virtual cluster's host tells (J1, J11.3)."""

    host: str
    cluster: str  # id of the virtual cluster
    service: str  # id of its service
    rest: str  # all after the first label

    @property
    def gateway(self) -> str:
        """The name of the service's gateway."""
        return f"service.{self.rest}"

    @property
    def namespace(self) -> str:
        """Where the virtual cluster's users have their secrets."""
        return f"dex-app-{self.cluster}"

    @property
    def service_namespace(self) -> str:
        """Where certificates and ingresses are."""
        return f"dex-base-{self.service}"

    @property
    def certificate_secret(self) -> str:
        """The secret that holds the virtual cluster's own certificate."""
        return f"tls-dex-app-{self.cluster}"


def address_of(settings: VirtualClusterSettings) -> ServiceAddress:
    """Return what a virtual cluster's address tells.

    Raises:
        Invalid: its host has no name of the form `ID.cde-SERVICE.DOMAIN`.
    """
    host = (urlsplit(settings.base_url).hostname or "").lower()
    first, _, rest = host.partition(".")
    second, _, domain = rest.partition(".")
    service = second.removeprefix("cde-")
    plain = re.fullmatch(_NAME, host) and re.fullmatch(_LABEL, first) and re.fullmatch(_LABEL, service)
    if not plain or service == second or not domain or first == "service":
        raise Invalid(
            f"{settings.base_url} is not the address of a virtual cluster that can be initialised",
            detail=["its host must be of the form ID.cde-SERVICEID.DOMAIN: both ids name what is to be changed"],
            hint=f"see `base_url` of the virtual cluster {settings.name} in the config",
        )
    return ServiceAddress(host, first, service, rest)


def siblings(settings: SiteSettings, address: ServiceAddress) -> Sequence[VirtualClusterSettings]:
    """Return the other configured virtual clusters of the same service."""
    suffix = f".{address.rest}"
    hosts = {one.name: (urlsplit(one.base_url).hostname or "").lower() for one in settings.virtual_clusters}
    return [
        one for one in settings.virtual_clusters if hosts[one.name].endswith(suffix) and hosts[one.name] != address.host
    ]


def master_of(sight: Sight) -> str:
    """Return the host where it is done: the first of the group `ecs-master`.

    Raises:
        Refused: the config has no such host, or no `ssh`.
    """
    require_ssh(sight, "an ECS master host")
    hosts = sight.settings.hosts_in(GROUP)
    if not hosts:
        raise Refused(
            f"no host of site {sight.settings.name} is in the group {GROUP}, where virtual clusters are initialised",
            hint=f"give an ECS master host `groups: [{GROUP}, ecs]` in the config",
        )
    return hosts[0].name


class MasterAnswer(msgspec.Struct, frozen=True):
    """What the master says."""

    host: str  # its name
    utility: str  # path of the script, "" where there is none
    release: str  # of the data services, as far as the parcel's name tells; "" where it does not
    ingresses: Sequence[str]  # the ingresses of the service

    @property
    def too_new(self) -> bool:
        """Whether this release no longer initialises virtual clusters with the script (J11.1)."""
        numbers = tuple(int(part) for part in re.findall(r"\d+", self.release)[:3])
        return len(numbers) == len(LAST) and numbers > LAST

    @property
    def clusters(self) -> Sequence[str]:
        """The ids of all virtual clusters of the service."""
        found = (re.fullmatch(r"(?:.*/)?dex-app-([a-z0-9]+)-api", name) for name in self.ingresses)
        return sorted(match[1] for match in found if match)


def look(shell: ShellSight, host: str, address: ServiceAddress, utility: str | None) -> MasterAnswer:
    """Ask the master about a virtual cluster; changes nothing.

    Args:
        address: the virtual cluster.
        utility: where the script lies, None: look for it.

    Raises:
        Refused: not root, no kubectl, no such virtual cluster, or a release that has no script any more.
        WorkFailed: kubectl does not answer.
    """
    ran = shell.ask(host, _question(address, utility), timeout=90.0)
    said = [line.partition("=")[::2] for line in ran.out.decode(errors="replace").splitlines()]
    facts = dict(said)
    if facts.get("user", "0") != "0":
        raise Refused(
            f"{host}: virtual clusters are initialised as root, and the login is not root",
            hint="`ssh: {user: root}`, or `sudo: true` in the config",
        )
    release = (facts.get("release") or facts.get("parcel", "")).removeprefix("ECS-").partition("-")[0]
    found = MasterAnswer(host, facts.get("utility", ""), release, [value for key, value in said if key == "ingress"])
    if found.too_new:
        raise _gone(found)
    if facts.get("kubectl") == "no":
        raise Refused(
            f"{host} has no kubectl, so it is not an ECS master host",
            hint=f"the first host of the group {GROUP} must be one: see `hosts:` in the config",
        )
    if not ran.ok:
        raise WorkFailed(
            f"{host}: kubectl does not answer",
            detail=ran.last_words,
            hint="are the data services up, and is the host an ECS server?",
        )
    known = {value.rpartition("/")[2] for key, value in said if key == "namespace"}
    for wanted in (address.service_namespace, address.namespace):
        if wanted not in known:
            raise Refused(
                f"{host}: there is no namespace {wanted}, so there is no virtual cluster at {address.host}",
                hint="see `base_url` in the config; a new virtual cluster needs some minutes",
            )
    return found


def _question(address: ServiceAddress, utility: str | None) -> str:
    places = [utility] if utility else [f"{folder}/{name}" for folder in _FOLDERS for name in SCRIPTS]
    return f"""{SETUP}
echo "user=$(id -u)"
echo "release=$(basename "$(readlink {PARCELS}/ECS)")"
echo "parcel=$(sed -n 's/^ *"version" *: *"\\([^"]*\\)".*/\\1/p' {PARCELS}/ECS/meta/parcel.json 2>/dev/null)"
for f in {" ".join(shlex.quote(place) for place in places)}; do
  if [ -f "$f" ]; then echo "utility=$f"; break; fi
done
command -v kubectl >/dev/null || {{ echo kubectl=no; exit 0; }}
n=$(kubectl get namespaces -o name) || exit 1
for i in $n; do echo "namespace=$i"; done
case " $(echo $n) " in *{address.service_namespace}*) ;; *) exit 0;; esac
n=$(kubectl get ingress -n {address.service_namespace} -o name) || exit 1
for i in $n; do echo "ingress=$i"; done
"""


def _gone(found: MasterAnswer) -> Refused:
    return Refused(
        f"data services {found.release} initialise virtual clusters without the script: it is gone from 1.5.5 on",
        detail=[
            "certificate: the control plane makes and installs it (Administration, the service's Configuration page)",
            "a user's keytab: the user's own page in the UI, or the client's `cde kerberos authenticate`, which takes "
            "principal and keytab",
        ],
        hint="do it there, then `maint vc smoke`; a recovery that stopped here is taken up with "
        "`--set vc.NAME.initialised=true`",
    )


def require_utility(found: MasterAnswer, settings: VirtualClusterSettings) -> str:
    """Return the path of the script.

    Raises:
        Refused: it is not there, or its path would not survive the script's own lack of quotes.
    """
    if not found.utility:
        where = settings.utility or f"{', '.join(_FOLDERS)} (names: {', '.join(SCRIPTS)})"
        raise Refused(
            f"the utility script is not on {found.host}: looked for {where}",
            hint="download it from the virtual cluster's page, copy it there, and name it under `utility:`",
        )
    if not found.utility.startswith("/"):
        raise Invalid(f"`utility: {found.utility}` is not an absolute path", hint="give the whole path on the host")
    return found.utility


def require_ingress(found: MasterAnswer, address: ServiceAddress) -> None:
    """See that the virtual cluster has come so far that the script finds what it edits (J11.3).

    Raises:
        Refused: its ingress is not there yet.
    """
    if address.cluster not in found.clusters:
        raise Refused(
            f"{address.host} is still being made: it has no ingress in {address.service_namespace} yet",
            hint="a new virtual cluster needs some minutes; then again",
        )


def kubectl(words: str, *options: str) -> str:
    """Return a command that ends in a call of kubectl; options without their dashes."""
    return " ".join([f"{SETUP}exec kubectl {words}", *(f"--{option}" for option in options)])


def sweeping(state: Path) -> str:
    """Return the command that wipes what killed runs of a site left; safe while the caller holds the site's lock.

    A script goes on to its end although its run was killed: such a one is waited for, up to a minute.
    """
    left = f"{own_prefix(state)}init.*"
    return f"""for f in /run/{left} /tmp/{left}; do
  [ -d "$f" ] || continue
  p=$(cat "$f/pid" 2>/dev/null) || p=; i=0
  while [ -n "$p" ] && kill -0 "$p" 2>/dev/null && [ "$i" -lt 60 ]; do sleep 1; i=$((i + 1)); done
  rm -rf "$f"
done"""


def sweep(shell: Shell, host: str, state: Path) -> None:
    """Wipe what killed runs of this site left on a host."""
    shell.run(host, sweeping(state), timeout=300.0)


def script(state: Path, files: Mapping[str, bytes], body: str) -> str:
    """Return a script that receives files on standard input, runs a body, and wipes everything again.

    Args:
        state: the site's state folder, whose folders on the host have names of their own.
        files: what `fed` will feed, by name; only the names are used.
        body: run in an empty folder, with the files in `$d/in` and no input; it goes on to its end even where the
            connection is lost meanwhile. Its status is the script's, what it says on standard error too.
    """
    assert all(re.fullmatch(_NAMES, name) for name in files)
    lines = [f'IFS= read -r line; printf %s "$line" | base64 -d > "$d/in/{name}"' for name in files]
    return "\n".join(
        [
            "set -eu; umask 077",
            _PLACE + sweeping(state),
            f'd=$(mktemp -d "$b/{own_prefix(state)}init.XXXXXXXX")',
            "trap 'cd /; rm -rf \"$d\"' EXIT; trap 'exit 130' INT; trap 'exit 143' TERM",
            'echo $$ > "$d/pid"; mkdir "$d/in" "$d/tmp" "$d/work"; TMPDIR=$d/tmp; export TMPDIR',
            *lines,
            # All is here: from now on nothing is left half done because the caller is gone.
            "trap '' HUP PIPE",
            'cd "$d/work"',
            f'( {body} ) </dev/null >"$d/tmp/out" 2>"$d/tmp/err" || status=$?',
            'said=$(tail -c 4000 "$d/tmp/err"); cd /; rm -rf "$d"',
            "printf '%s\\n' \"$said\" >&2; exit ${status:-0}",
        ]
    )


def call_utility(
    site: Site, found: MasterAnswer, settings: VirtualClusterSettings, words: str, files: Mapping[str, bytes]
) -> None:
    """Run the utility script in a private folder; files come over standard input, and lie in `$d/in` while it runs.

    Raises:
        WorkFailed: it failed.
    """
    body = f"bash {shlex.quote(require_utility(found, settings))} {words}"
    ran = site.shell.run(found.host, SETUP + script(site.state, files, body), stdin=fed(files), timeout=300.0)
    if not ran.ok:
        raise WorkFailed(
            f"{found.host}: the utility script failed (exit {ran.status})",
            detail=ran.last_words,
            hint="mend what it names, then `maint playbook resume`; the script may be run again",
        )


def fed(files: Mapping[str, bytes]) -> bytes:
    """Return what is fed to such a script: its files, a line of base64 each."""
    return b"".join(base64.b64encode(content) + b"\n" for content in files.values())
