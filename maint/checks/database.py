"""The manager's database: how it is configured, whether it is reached, what it allows."""

import re

from maint.checks.check import FAIL, INFORM, Check, Verdict, broken, failed, good, held, warned
from maint.checks.facts import TRY, CouldNotTell, HostFacts, NotApplicable
from maint.checks.thresholds import UNKNOWN, supported, threshold
from maint.model.manager import PROPERTIES, SETTINGS

# Of a setting of the database by its last word: blanks around it are nobody's, as Java reads them.
VALUE = 'sed -n "s/^com[.]cloudera[.]cmf[.]db[.]$1[[:space:]]*=[[:space:]]*\\([^[:space:]]*\\).*/\\1/p"'
QUESTIONS = {
    "db_properties": f"for p in {SETTINGS} {PROPERTIES}; do"
    " [ -e $p ] && ! [ -r $p ] && echo denied; done;"
    f" [ -r {PROPERTIES} ] && grep -v -i password {PROPERTIES}; true",
    "db_reach": f"[ -r {PROPERTIES} ] || exit 0; v() {{ {VALUE} {PROPERTIES}; }}; h=$(v host); k=$(v type);"
    " case $k in mysql) p=3306;; oracle) p=1521;; *) p=5432;;"
    ' esac; case $h in *:*) p=${h##*:}; h=${h%:*};; esac; echo "to=$h:$p";'
    f'{TRY} echo "status=$?"',
    "db_pg": "command -v psql > /dev/null || { echo none; exit 0; }; for s in max_connections ssl server_encoding"
    ' server_version; do echo "$s=$($maint_limit runuser -u postgres -- psql -Atc "SHOW $s")"; done;'
    ' echo "databases=$($maint_limit runuser -u postgres -- psql -Atc "SELECT count(*) FROM pg_database")"',
    "db_oracle": "id oracle > /dev/null 2>&1 || { echo none; exit 0; }; printf '%s\\n' 'set heading off feedback off'"
    " \"select name||'='||value from v\\$parameter where name in ('processes','sessions');\" |"
    " $maint_limit su - oracle -c 'sqlplus -s / as sysdba'",
    "db_mysql": "command -v mysql > /dev/null || { echo none; exit 0; }; $maint_limit mysql -NBe"
    " \"select concat('version=',@@version), concat('flush=',@@innodb_flush_method),"
    " concat('connections=',@@max_connections)\" | tr '\\t' '\\n'",
}


@Check(
    id="db.conf", profiles="M", severity=INFORM, asks=("db_properties",), source="FX",
    expected="type, host, name and user set; an external database in production",
    why="The embedded database is for trials only.",
    remedy="/opt/cloudera/cm/schema/scm_prepare_database.sh TYPE NAME USER",
).host_rule  # fmt: skip
def _configured(host: HostFacts) -> Verdict:
    seen = host.fields("db_properties")
    if not seen:
        raise CouldNotTell(f"{PROPERTIES} is not there, or this account may not read it")
    names = ("type", "host", "name", "user", "setupType")
    values = {name: seen.get(f"com.cloudera.cmf.db.{name}", "") for name in names}
    shown = ", ".join(f"{name} {value or 'not set'}" for name, value in values.items())
    return held(all(values.values()) and values["setupType"] == "EXTERNAL", shown)


@Check(
    id="db.reach", profiles="M", severity=FAIL, asks=("db_reach",), source="FX",
    expected="the database's port answers",
    why="Without its database the server cannot start.",
    remedy="start the database; look at the way between the two hosts",
).host_rule  # fmt: skip
def _reached(host: HostFacts) -> Verdict:
    seen = host.tried("db_reach")
    if "to" not in seen:
        raise CouldNotTell(f"{PROPERTIES} is not there, or this account may not read it")
    answers = seen.get("status") == "0"
    shown = f"{seen['to']} {'answers' if answers else 'does not answer'}"
    return held(answers, shown, f"start the database of {seen['to']}, and open the way there from this host")


def _present(host: HostFacts, question: str, name: str) -> dict[str, str]:
    if host.lines(question) == ["none"]:
        raise NotApplicable(f"{name} is not installed")
    seen = host.fields(question)
    if not any(seen.values()):
        raise CouldNotTell(f"{name} does not answer this account")
    return seen


@Check(
    id="db.pg", profiles="D", severity=FAIL, asks=("db_pg",), source="CDE FX own",
    expected="100 connections a database and 50 more, TLS on, UTF8, a version that the support matrix lists",
    why="Services of the data services refuse a database without TLS, and each keeps many connections.",
    remedy="max_connections and ssl in postgresql.conf; databases are created with ENCODING UTF8",
).host_rule  # fmt: skip
def _postgresql(host: HostFacts) -> Verdict:
    seen = _present(host, "db_pg", "PostgreSQL")
    databases = max(1, int(seen.get("databases") or "3") - 3)  # templates and postgres itself do not count
    least = 100 * databases + 50
    version = (seen.get("server_version") or "unknown").split()[0]
    known = supported(host.site.setting.matrix, "postgresql", version)
    few, most = int(seen["max_connections"]) < least, seen["max_connections"]
    wrong = {f"max_connections {most} of {least}": f"max_connections = {least} in postgresql.conf"} if few else {}
    wrong |= {} if seen.get("ssl") == "on" else {"ssl off": "ssl = on there, with server.crt and server.key"}
    encoding = seen.get("server_encoding")
    wrong |= {} if encoding == "UTF8" else {f"encoding {encoding}": "a cluster made anew with initdb -E UTF8"}
    unlisted = f"version {version}, which the support matrix does not list"
    wrong |= {unlisted: "an upgrade to a version that the matrix lists"} if known is False else {}
    unsaid = f"; {UNKNOWN}" if known is None else ""
    shown = ", ".join(wrong) or f"{version}, {most} connections{unsaid}"
    return held(not wrong, shown, f"{', '.join(wrong.values())}; then restart PostgreSQL")


@Check(
    id="db.oracle", profiles="D", severity=FAIL, asks=("db_oracle",), source="FX",
    expected="processes at least 250, sessions at least 1.5 times as many",
    why="A full process table refuses the manager's connections.",
    remedy="alter system set processes=1000 scope=spfile; alter system set sessions=1500 scope=spfile; restart it then",
).host_rule  # fmt: skip
def _oracle(host: HostFacts) -> Verdict:
    seen = _present(host, "db_oracle", "Oracle")
    processes, sessions = int(seen["processes"]), int(seen["sessions"])
    shown = f"processes {processes}, sessions {sessions}"
    if processes < threshold("oracle.processes"):
        return failed(shown)
    more = f"alter system set sessions={processes * 3 // 2 + 1} scope=spfile; restart the database then"
    return warned(shown, more) if sessions < 1.5 * processes else good(shown)


_NEWER = "upgrade MySQL to a version that the support matrix lists"


@Check(
    id="db.mysql", profiles="D", severity=FAIL, asks=("db_mysql",), source="PS",
    expected="a version that the support matrix lists, O_DIRECT, 250 connections",
    why="Old versions lose transactions of the manager.",
    remedy="innodb_flush_method = O_DIRECT and max_connections = 250 below [mysqld] in my.cnf; then restart it",
).host_rule  # fmt: skip
def _mysql(host: HostFacts) -> Verdict:
    seen = _present(host, "db_mysql", "MySQL")
    shown = f"{seen.get('version')}, {seen.get('flush')}, {seen.get('connections')} connections"
    if re.match(r"5\.[0-6]\.", seen.get("version", "")):
        return broken(shown, _NEWER)
    known = supported(host.site.setting.matrix, "mysql", seen.get("version", "").partition("-")[0])
    if known is False:
        return broken(f"{shown}; the support matrix does not list this version", _NEWER)
    shown += f"; {UNKNOWN}" if known is None else ""
    kept = seen.get("flush") == "O_DIRECT" and int(seen.get("connections") or 0) >= 250
    return good(shown) if kept else warned(shown)
