"""Checks of Java: which one, how new, its security settings; and of the databases' JDBC drivers."""

import re
from collections.abc import Mapping, Sequence
from shlex import quote

import msgspec

from maint.checks.check import FAIL, WARN, Check, Verdict, broken, good, held, warned
from maint.checks.facts import NOT_ASKED, CouldNotTell, HostFacts, NotApplicable, SiteFacts
from maint.checks.thresholds import JAVA, REFERRALS

_ORAI18N = "put orai18n.jar into /usr/share/java and onto CMF_JDBC_DRIVER_JAR; accept it where no database needs that"
_NO_REFERRALS = "sun.security.krb5.disableReferrals=true"

QUESTIONS = {
    "java": 'for j in /usr/java/* /usr/lib/jvm/*; do [ -x $j/bin/java ] && [ ! -L $j ] || continue; echo "home=$j";'
    " if [ -f $j/release ]; then grep -e ^JAVA_VERSION= -e ^IMPLEMENTOR= -e ^BUILD_TYPE= $j/release;"
    " else $maint_limit $j/bin/java -version 2>&1; fi;"
    " for s in $j/conf/security $j/jre/lib/security $j/lib/security; do [ -f $s/java.security ] &&"
    " grep -e '^crypto.policy' -e '^sun.security.krb5.disableReferrals' $s/java.security; done; done; true",
    "jdbc": "for n in postgresql-connector-java mysql-connector-java oracle-connector-java orai18n; do"
    " [ -e /usr/share/java/$n.jar ] && echo $n; done; true",
    # What the roles that run here have been given, each with its number before its name.
    "jdbc_roles": "a=/var/run/cloudera-scm-agent; i=$a/supervisor/include; [ -d $i ] && ! [ -r $i ] && echo denied;"
    " for c in $i/*.conf; do n=${c##*/}; n=${n%.conf}; d=$a/process/$n; [ -d $d ] || continue;"
    " { [ -r $d ] && [ -x $d ]; } || { echo denied; continue; };"
    " for f in $d/*.xml $d/*.properties; do [ -f $f ] || continue; [ -r $f ] || { echo denied; continue; };"
    ' for u in $(grep -o -e jdbc:oracle: -e jdbc:mysql: -e jdbc:postgresql: $f); do echo "$n=$u"; done; done;'
    " done; true",
}


class Java(msgspec.Struct, frozen=True):
    """A JDK of a host."""

    home: str
    major: int
    update: tuple[int, ...]
    vendor: str
    settings: Mapping[str, str]

    @property
    def supported(self) -> bool:
        """Whether it is new enough, as far as the table knows."""
        least = JAVA.get((self.vendor, self.major)) or JAVA.get(("any", self.major))
        return least is not None and self.update >= least

    def __str__(self) -> str:
        return f"{self.vendor} {self.major}.{'.'.join(map(str, self.update))}"


def javas(host: HostFacts) -> list[Java]:
    """Return the JDKs of a host."""
    found: list[Java] = []
    for block in ("\n" + "\n".join(host.lines("java"))).split("\nhome=")[1:]:
        home, _, rest = block.partition("\n")
        version = re.search(r'JAVA_VERSION="?([\d._]+)', rest) or re.search(r'version "([\d._]+)', rest)
        if version is None:
            continue
        numbers = tuple(int(part) for part in re.split(r"[._]", version[1]) if part)
        old = numbers[0] == 1 and len(numbers) > 1
        major, update = (numbers[1], numbers[3:] or (0,)) if old else (numbers[0], numbers[1:] or (0,))
        settings = dict(line.partition("=")[::2] for line in rest.splitlines() if re.match(r"[a-z.0-9A-Z]+=", line))
        found.append(Java(home, major, update, _vendor(rest), settings))
    return found


def _vendor(text: str) -> str:
    lowered = text.lower()  # Oracle's JDK 8 names no implementor
    if "azul" in lowered or "zulu" in lowered:
        return "azul"
    return "oracle" if any(word in lowered for word in ("oracle", "java(tm)", '="commercial"')) else "openjdk"


def _some(host: HostFacts) -> list[Java]:
    found = javas(host)
    if not found:
        raise NotApplicable("no JDK below /usr/java or /usr/lib/jvm")
    return found


@Check(
    id="jdk.present", profiles="BM", severity=FAIL, asks=("java",), source="PS EXE",
    expected="a supported JDK (8 from u181 or u232, 11, 17), the same major version on all hosts",
    why="Everything here runs on Java, and the oldest ones no longer speak today's TLS.",
    remedy="dnf install -y java-17-openjdk-devel",
).cross_rule  # fmt: skip
def _present(site: SiteFacts) -> Mapping[str, Verdict]:
    hosts = {h.name: javas(h) for h in site.answering("java") if set("BM") & set(h.profiles)}
    newest = [max(j.major for j in found if j.supported) for found in hosts.values() if any(j.supported for j in found)]
    usual = max(sorted(set(newest)), key=newest.count, default=0)
    result = {}
    package = {0: "java-17", 8: "java-1.8.0"}.get(usual, f"java-{usual}")
    remedy = f"dnf install -y {package}-openjdk-devel"
    for name, found in hosts.items():
        shown = ", ".join(map(str, found)) or "none"
        usable = {java.major for java in found if java.supported}
        if not usable:
            result[name] = broken(f"{shown}: none that is supported", remedy)
        else:
            shown += "" if usual in usable else f", the others have {usual}"
            result[name] = held(usual in usable, shown, remedy)
    return result


def _written(homes: Sequence[str], line: str) -> str:
    """Return what adds a line to `java.security` of some JDKs, where the last one of a name counts."""
    return (
        f"find -L {' '.join(map(quote, homes))} -name java.security |"
        f" while read -r f; do printf '\\n%s\\n' {line} >> \"$f\"; done"
    )


@Check(
    id="jdk.jce", profiles="BM", severity=WARN, asks=("java",), source="PS EXE",
    expected="crypto.policy=unlimited (JDK 8)",
    why="Without it there is no AES-256, which Kerberos uses.",
    remedy="write crypto.policy=unlimited into java.security, or take a newer update",
).host_rule  # fmt: skip
def _strong_crypto(host: HostFacts) -> Verdict:
    old = [java for java in _some(host) if java.major < 10]
    if not old:
        raise NotApplicable("newer JDKs have it always")
    weak = [j.home for j in old if j.settings.get("crypto.policy", "unlimited").strip() != "unlimited"]
    return held(not weak, ", ".join(weak) or "unlimited", _written(weak, "crypto.policy=unlimited"))


@Check(
    id="jdk.krb_referrals", profiles="K", severity=WARN, asks=("java", "krb5_conf"), source="EXE",
    expected="sun.security.krb5.disableReferrals=true",
    why="Newer JDKs follow referrals (JDK-8215032), which not every KDC understands.",
    remedy=f"write {_NO_REFERRALS} into java.security",
).host_rule  # fmt: skip
def _referrals(host: HostFacts) -> Verdict:
    if not host.realm:
        raise NotApplicable("no realm")
    touched = [j for j in _some(host) if j.major in REFERRALS and j.update >= REFERRALS[j.major]]
    wrong = [j.home for j in touched if j.settings.get("sun.security.krb5.disableReferrals", "").strip() != "true"]
    shown = f"not set in {', '.join(wrong)}" if wrong else "set, or not needed"
    return held(not wrong, shown, _written(wrong, _NO_REFERRALS))


@Check(
    id="jdbc.driver", profiles="BM", severity=FAIL, asks=("jdbc", "db_properties", "jdbc_roles"), source="PS FX",
    expected="in /usr/share/java the driver of each database that the server or a role here is configured with",
    why="Neither the server nor a role starts without the driver of its database.",
    remedy="put the vendor's JAR into /usr/share/java under its plain name",
).host_rule  # fmt: skip
def _jdbc(host: HostFacts) -> Verdict:
    if NOT_ASKED in host.lines("jdbc"):
        raise NotApplicable("the version that kept these facts asked the server's host alone")
    server = host.fields("db_properties").get("com.cloudera.cmf.db.type", "")
    needs = {("the server", server)} if server else set[tuple[str, str]]()
    for line in host.lines("jdbc_roles"):  # one of a file that knows nothing of them has no "="
        role, found, url = line.partition("=")
        needs |= {(role.partition("-")[2], url.split(":")[1])} if found else set()
    there = host.lines("jdbc")
    # PostgreSQL's comes with the software.
    drivers = {(who, f"{kind}-connector-java") for who, kind in needs if kind != "postgresql"}
    if missing := sorted((who, driver) for who, driver in drivers if driver not in there):
        jars = " and ".join(sorted({f"/usr/share/java/{driver}.jar" for _, driver in missing}))
        return broken(", ".join(f"{who}: no {one}" for who, one in missing), f"put the vendor's JAR there as {jars}")
    if "denied" in [*host.lines("db_properties"), *host.lines("jdbc_roles")]:
        raise CouldNotTell("this account may not read which databases are configured")
    if not needs:
        raise NotApplicable("no database is configured here")
    kinds = {kind for _, kind in needs}
    if "oracle" in kinds and "orai18n" not in there:
        return warned("oracle: orai18n.jar is missing, which other character sets than the driver's own need", _ORAI18N)
    return good(", ".join(sorted(kinds)))
