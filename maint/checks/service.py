"""What the Data Engineering service needs: Ozone beside it, endpoints with good certificates, keytabs."""

from collections.abc import Mapping, Sequence
from shlex import quote

from maint.checks.check import BEFORE_INSTALL, FAIL, RUNNING, Check, Verdict, broken, failed, good, held, warned
from maint.checks.facts import CouldNotTell, HostFacts, NotApplicable, SiteFacts
from maint.checks.kerberos import mending, mending_of_account, said_by_kinit
from maint.checks.tls import until
from maint.model.formatting import show_count
from maint.model.json import Json, objects_of

_TRUST = (
    "put the authority of the certificate (the virtual cluster's `ca`) into /etc/pki/ca-trust/source/anchors of the"
    " host, then update-ca-trust; nothing is wrong with the certificate where that authority is the right one"
)
_OTHER_TRUST = (
    "where the authority that signed it is the right one: put that into /etc/pki/ca-trust/source/anchors of the host,"
    " update-ca-trust, and name it as the virtual cluster's `ca`; else have the certificate issued by the right one"
)
QUESTIONS = {
    "endpoints": 'for e in $maint_endpoints; do echo "endpoint=$e"; $maint_limit openssl s_client -connect $e'
    " -servername ${e%:*} -verify_hostname ${e%:*} -verify_return_error < /dev/null > /dev/null; s=$?;"
    ' echo "status=$s"; [ $s = 0 ] || [ -z "$maint_authorities" ] || { printf "%s\\n" "$maint_authorities" |'
    " $maint_limit openssl s_client -connect $e -servername ${e%:*} -verify_hostname ${e%:*} -verify_return_error"
    ' -CAfile /dev/stdin > /dev/null; echo "configured=$?"; };'
    " $maint_limit openssl s_client -connect $e -servername ${e%:*} < /dev/null | openssl x509 -noout -enddate -text |"
    " grep -e notAfter= -e DNS: ; done; true",
    "service_keytabs": "for d in /opt/cloudera/cde /etc/security/keytabs; do [ -d $d ] && ! [ -r $d ] &&"
    " printf 'keytab=%s\\ndenied\\n' $d/; done;"
    " for k in /opt/cloudera/cde/*.keytab /etc/security/keytabs/cde*.keytab; do [ -e $k ] || continue;"
    ' echo "keytab=$k"; [ -r $k ] || { echo denied; continue; }; klist -kt $k | sed -n "4,\\$p";'
    " p=$(klist -kt $k | sed -n '$s/.* //p');"
    " case $p in *@*) KRB5CCNAME=MEMORY:maint $maint_limit kinit -kt $k $p 2>&1;"
    ' echo "kinit=$?";; *) command -v klist > /dev/null || echo kinit=127;; esac; done; true',
}


@Check(
    id="cde.ozone", profiles="C", severity=FAIL, asks=(), source="CDE", needs_manager=True,
    phases=(RUNNING, BEFORE_INSTALL),
    expected="the base cluster has Ozone, in good health",
    why="The service keeps its logs and files there.",
    remedy="mend the service Ozone of the base cluster: the manager names its unhealthy roles",
).cross_rule  # fmt: skip
def _ozone(site: SiteFacts) -> Mapping[str, Verdict]:
    clusters = site.manager.must().clusters
    if not any(_is_ecs(cluster) for cluster in clusters):
        raise NotApplicable("there is no ECS cluster")
    base = {str(cluster.get("name")): cluster for cluster in clusters if not _is_ecs(cluster)}
    found = [(name, s) for name, one in base.items() for s in objects_of(one.get("services")) if s["type"] == "OZONE"]
    if not found and site.setting.phase == RUNNING:
        raise NotApplicable("no base cluster has Ozone, which only an installation of the service asks for")
    if not found:
        where = " or ".join(base) or "a base cluster"
        add = f"in the manager, add the service Ozone to {where} (its Actions, Add Service)"
        return {"": broken("no base cluster has Ozone", add)}
    health = ", ".join(str(service.get("health") or "unknown") for _, service in found)
    seen, shown = {service.get("health") for _, service in found}, f"Ozone: {health}"
    mend = "; ".join(_well_again(name, service) for name, service in found if service.get("health") != "GOOD")
    if seen - {"GOOD", "CONCERNING"}:
        return {"": broken(shown, mend)}
    return {"": warned(shown, mend) if "CONCERNING" in seen else good(shown)}


def _well_again(cluster: str, service: Mapping[str, Json]) -> str:
    """Return what is to be done about an Ozone that is not well; what is stopped is started, else its roles tell."""
    if service.get("state") == "STOPPED" and service.get("name"):
        return f"maint service start {quote(str(service['name']))} --cluster {quote(cluster)}"
    return f"mend the roles that the manager shows as unhealthy in {cluster}, {service.get('name') or 'Ozone'}"


def _is_ecs(cluster: Mapping[str, Json]) -> bool:
    return cluster.get("type") == "EXPERIENCE_CLUSTER"


@Check(
    id="cde.endpoint", profiles="C", severity=FAIL, asks=("endpoints",), source="CDE FX",
    expected="a certificate for the virtual cluster's name, of a chain that is trusted, valid for 30 days more",
    why="Clients refuse anything else, or are told to look away, which is worse.",
    remedy="put a new certificate in place with the service's utility script",
).host_rule  # fmt: skip
def _endpoint(host: HostFacts) -> Verdict:
    if not host.site.setting.endpoints:
        raise NotApplicable("no virtual cluster is configured")
    blocks = ("\n" + "\n".join(host.lines("endpoints"))).split("\nendpoint=")[1:]
    said = {block.splitlines()[0]: block.splitlines()[1:] for block in blocks}
    shown = {place: lines for place, lines in said.items() if any(line.startswith("notAfter=") for line in lines)}
    if not shown:
        raise CouldNotTell("no endpoint shows a certificate")
    ends = [line for lines in shown.values() for line in lines if line.startswith("notAfter=")]
    days = min((until(line) - host.site.taken_at).total_seconds() / 86400 for line in ends)
    bare = [place for place, lines in shown.items() if not _names(lines)]
    if days < 7:
        return failed(f"ends in {show_count(round(days), 'day')}")
    if bare:
        return broken(f"{', '.join(bare)}: no names in the certificate")
    uncovered = [name for place, lines in shown.items() if not _covered(name := place.rpartition(":")[0], lines)]
    if uncovered:
        return broken(f"{', '.join(uncovered)} is in no certificate")
    strange = [place for place, lines in shown.items() if not {"status=0", "configured=0"} & {*lines}]
    if strange:
        other = any("configured=1" in shown[place] for place in strange)
        return broken(f"{', '.join(strange)}: the host does not trust the chain", _OTHER_TRUST if other else _TRUST)
    if silent := said.keys() - shown.keys():
        raise CouldNotTell(f"{', '.join(sorted(silent))} shows no certificate")
    foreign = [place for place, lines in shown.items() if "status=0" not in lines]
    if foreign:
        return warned(f"{', '.join(foreign)}: the configured `ca` vouches for the chain, this host does not", _TRUST)
    return (
        warned(f"ends in {show_count(round(days), 'day')}")
        if days < 30
        else held(True, f"{show_count(len(ends), 'endpoint')}, {show_count(round(days), 'day')}")
    )


def _names(lines: Sequence[str]) -> list[str]:
    return [p.strip().removeprefix("DNS:") for line in lines if "DNS:" in line for p in line.split(",")]


def _covered(name: str, lines: Sequence[str]) -> bool:
    names = _names(lines)
    return name in names or f"*.{name.partition('.')[2]}" in names


@Check(
    id="cde.keytab", profiles="C", severity=FAIL, asks=("service_keytabs", "krb5_conf"), source="FX",
    expected="the users' keytabs hold principals of the realm, and kinit with each works (in memory only)",
    why="Jobs of a user without a usable keytab fail at their first access.",
    remedy="export the keytab again and hand it to the service",
).host_rule  # fmt: skip
def _keytab(host: HostFacts) -> Verdict:
    realm = host.realm
    blocks = ("\n" + "\n".join(host.lines("service_keytabs"))).split("\nkeytab=")[1:]
    if not blocks:
        raise NotApplicable("no keytab lies where the service's usually do")
    seen = {block.splitlines()[0]: block.splitlines()[1:] for block in blocks}
    wrong = [f"{path}: {words}" for path, lines in seen.items() if (words := _wrong(lines, realm))]
    if not wrong and any({"kinit=127", "denied"} & set(lines) for lines in seen.values()):
        raise CouldNotTell("klist or kinit is not installed, or this account may not read the keytabs")
    if wrong:
        said = "; ".join(wrong)
        return broken(said, mending(said) or mending_of_account(said, made_by="the keytab"))
    return good(f"kinit works with {show_count(len(blocks), 'keytab')}")


def _wrong(lines: Sequence[str], realm: str) -> str:
    # Nothing where it could not even be looked at.
    status = next((line.removeprefix("kinit=") for line in lines if line.startswith("kinit=")), "")
    keys = [line for line in lines if "@" in line and "kinit: " not in line]
    if "denied" in lines or (not keys and status == "127"):
        return ""
    wrong = [] if any(f"@{realm}" in key for key in keys) else [f"no principal of {realm}"]
    if keys and status not in ("0", "127"):
        wrong.append(said_by_kinit(lines, status))
    return ", ".join(wrong)
