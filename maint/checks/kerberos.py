"""Kerberos: configuration, keytabs, tickets, key distribution centres, rights in the directory."""

import re
from collections.abc import Sequence
from shlex import quote

from maint.checks.check import FAIL, WARN, Check, Verdict, broken, failed, good, held
from maint.checks.facts import TRY, CouldNotTell, HostFacts, NotApplicable, libdefaults
from maint.model.formatting import show_count

_PROCESSES = "/var/run/cloudera-scm-agent/process"
_NEWEST = (  # where folders are closed to this account, nobody knows what is in them
    f'k=$(ls -1t {_PROCESSES}/*/*.keytab | sed -n 1p); [ -n "$k" ] || {{ d=none;'
    f" for p in {_PROCESSES} {_PROCESSES}/*; do [ -d $p ] && ! [ -r $p ] && d=denied; done; echo $d; exit 0; }};"
    ' echo "keytab=$k";'
)
# krb5.conf and what it includes, as MIT reads it: of a folder, names of letters, digits, - and _, or *.conf.
_FILES = (
    "c=/etc/krb5.conf; [ -f $c ] || exit 0; i=; x=;"
    " for d in $(sed -n 's/^[[:space:]]*includedir[[:space:]][[:space:]]*//p' $c); do"
    ' [ -d $d ] && ! { [ -r $d ] && [ -x $d ]; } && x="$x $d"; for f in $d/*; do'
    ' case ${f##*/} in *.conf) ;; *[!A-Za-z0-9_-]*) continue;; esac; [ -f $f ] && i="$i $f"; done; done;'
    " i=\"$i $(sed -n 's/^[[:space:]]*include[[:space:]][[:space:]]*//p' $c) $c\"; o=;"
    ' for f in $i; do if [ -r $f ]; then o="$o $f"; else x="$x $f"; fi; done;'
)
# Every KDC that is named is tried; which of them are the realm's own is read from the whole file afterwards.
_KDCS = (
    f"{_FILES} r=$(sed -n 's/^[[:space:]]*default_realm[[:space:]]*=[[:space:]]*//p' $o | sed -n 1p);"
    ' [ -n "$r" ] || exit 0; s=; command -v dig > /dev/null &&'
    " s=$(dig +short +time=2 +tries=1 SRV _kerberos._tcp.$r |"
    " sed 's/.* \\([0-9]*\\) \\(.*\\)\\.$/\\2:\\1/'); for k in $s; do echo \"srv $k\"; done;"
)
_ASKED = "asked=again"
QUESTIONS = {
    # Each included file in the place of its line: of several values MIT takes the first.
    "krb5_conf": f'{_FILES} for f in $x; do echo "denied $f"; done; [ -r $c ] || exit 0;'
    ' while read -r w p || [ -n "$w" ]; do case $w in include) s=$p;; includedir) s="$p/*";; *) s=;; esac;'
    """ [ -n "$s" ] || printf '%s %s\\n' "$w" "$p"; for f in $s; do"""
    ' case " $o " in *" $f "*) cat $f; echo;; esac; done; done < $c |'
    " grep -v '^[[:space:]]*[#;]'; true",
    "keytab": f'{_NEWEST} [ -r $k ] || {{ echo denied; exit 0; }}; echo "mode=$(stat -c %a $k)"; klist -kte $k',
    "kinit": f"{_NEWEST} [ -r $k ] || {{ echo denied; exit 0; }};"
    " p=$(klist -kt $k | sed -n '$s/.* //p');"
    ' case $p in *@*) KRB5CCNAME=MEMORY:maint $maint_limit kinit -kt $k $p 2>&1; s=$?; echo "status=$s"; [ $s = 0 ] ||'
    # The kernel keeps the second one for this session alone: a process of its own could not look at the first.
    f" exit 0; echo {_ASKED}; KRB5CCNAME=KEYRING:session:maint-$$; export KRB5CCNAME;"
    " $maint_limit kinit -r 7d -kt $k $p > /dev/null &&"
    " { klist -f; kdestroy -q; }; true;;"
    " *) command -v klist > /dev/null; echo status=no-principal-$?;; esac",
    "kdc": f"{_KDCS} for k in $s $(sed -n 's/^[[:space:]]*kdc[[:space:]]*=[[:space:]]*//p' $o | sort -u); do"
    ' h=${k%:*}; p=${k##*:}; [ "$p" = "$h" ] && p=88;'
    f'{TRY} echo "$h:$p=$?"; done; true',
    # The same name at each time: what a check left that lost the directory in between goes with the next.
    "ad_rights": "n=maint-probe-$(hostname | sha256sum | cut -c1-8); command -v ldapadd > /dev/null ||"
    ' { echo none; exit 0; }; [ -n "$maint_ou" ] || { echo no-ou; exit 0; }; echo "name=CN=$n,$maint_ou";'
    ' $maint_limit ldapdelete -Q -Y GSSAPI -H "$maint_ldap" "CN=$n,$maint_ou" > /dev/null 2>&1;'
    " printf 'dn: CN=%s,%s\\nobjectClass: user"
    '\\ncn: %s\\nsAMAccountName: %s\\n\' $n "$maint_ou" $n $n |'
    ' $maint_limit ldapadd -Q -Y GSSAPI -H "$maint_ldap"; echo "add=$?";'
    ' $maint_limit ldapdelete -Q -Y GSSAPI -H "$maint_ldap" "CN=$n,$maint_ou"; echo "delete=$?"',
}
_LOOK_AT_KDC = "look at the KDC, and at the way from this host to its port 88"
# What kinit says, and what mends that: new credentials mend none of it.
_MENDS = {
    "cannot contact any kdc": _LOOK_AT_KDC,
    "ended with 124": _LOOK_AT_KDC,  # it waited for one
    "cannot find kdc": "name the realm's KDC in /etc/krb5.conf, or its SRV record in DNS",
    "clock skew too great": "chronyc makestep # unless it is the KDC's clock that is off",
}
# What the KDC says of the account itself: new keys mend none of it either.
_ACCOUNTS = {
    "credentials have been revoked": "unlock and enable {principal} in the KDC (modprinc -unlock +allow_tix)",
    "entry in database has expired": "have {principal} valid again in the KDC (modprinc -expire never)",
    "password has expired": "have the password of {principal} valid again in the KDC (modprinc -pwexpire never)",
}
_UNKNOWN = "not found in kerberos database"
_RENEWING = (
    "raise max_renewable_life of the realm in the KDC, and maxrenewlife of the principal and of krbtgt (modprinc)"
)
# How ldapadd and ldapdelete end where the directory could not say yes or no (by experiment with OpenLDAP 2.5).
_NOT_ASKED = {
    "254": "kinit on the host as the account: it has no ticket, or its ticket has ended",
    "255": "see why the directory of --ldap-url is not reached from this host",
    "124": "see why the directory of --ldap-url does not answer this host in time",
}
_WEAK = ("arcfour", "des-cbc", "des3-cbc", "rc4")


@Check(
    id="krb.conf", profiles="K", severity=WARN, asks=("krb5_conf", "keytab"), source="EXE own",
    expected="default_realm and renew_lifetime set, no KEYRING or KCM cache, udp_preference_limit = 1",
    why="Java reads neither of those caches, and large tickets do not fit into UDP.",
    remedy="mend /etc/krb5.conf and what it includes, or let the manager keep it",
).host_rule  # fmt: skip
def _configured(host: HostFacts) -> Verdict:
    try:
        realm = host.realm
    except NotApplicable:
        if "keytab" not in host.answers or host.lines("keytab") in ([], ["none"]):
            raise
        copied = "put the /etc/krb5.conf of another host here, or let the manager deploy it (Administration, Kerberos)"
        return failed("a role here has a keytab, and /etc/krb5.conf names no default_realm", copied)
    seen = libdefaults(host.lines("krb5_conf"))
    wrong = {} if seen.get("renew_lifetime") else {"renew_lifetime not set": "renew_lifetime = 7d"}
    cache = seen.get("default_ccache_name", "")
    elsewhere = "no default_ccache_name, there or in a file that it includes"
    wrong |= {f"default_ccache_name = {cache}": elsewhere} if cache.startswith(("KEYRING", "KCM")) else {}
    small = seen.get("udp_preference_limit") == "1"
    wrong |= {} if small else {"udp_preference_limit is not 1": "udp_preference_limit = 1"}
    remedy = f"in [libdefaults] of /etc/krb5.conf: {'; '.join(wrong.values())}; or let the manager keep it"
    return held(not wrong, f"{realm}: {', '.join(wrong)}" if wrong else realm, remedy)


def _given(host: HostFacts, question: str) -> list[str]:
    if not host.realm:
        raise NotApplicable("no realm")
    lines = host.lines(question)
    if lines[:1] == ["none"]:
        raise NotApplicable("no role of this host has a keytab")
    if "denied" in lines:
        raise CouldNotTell("this account may not read the keytab")
    return lines


@Check(
    id="krb.keytab", profiles="K", severity=FAIL, asks=("keytab", "krb5_conf"), source="FX",
    expected="readable by its owner only, with principals of the realm, no weak keys alone",
    why="With a keytab anyone can log in as that service.",
    remedy="let the manager generate the credentials anew",
).host_rule  # fmt: skip
def _keytab(host: HostFacts) -> Verdict:
    lines = _given(host, "keytab")
    mode = next((line.partition("=")[2] for line in lines if line.startswith("mode=")), "777")
    keys = [line for line in lines if "@" in line]
    if not keys and not any(line.startswith("Keytab name:") for line in lines):
        raise CouldNotTell("klist is not installed, or does not answer")
    if not keys:
        return failed("klist finds no key in it: it is cut off, or no keytab")
    wrong = [] if any(f"@{host.realm}" in key for key in keys) else [f"no principal of {host.realm}"]
    wrong += ["weak keys alone"] if all(any(weak in key.lower() for weak in _WEAK) for key in keys) else []
    if int(mode, 8) & 0o077:
        path = next((line.partition("=")[2] for line in lines if line.startswith("keytab=")), "KEYTAB")
        closing = f"chmod go= {quote(path)} # new credentials, too, {'for the rest' if wrong else 'where it was read'}"
        return broken(", ".join([f"mode {mode}", *wrong]), closing)
    return held(not wrong, ", ".join(wrong) or f"{show_count(len(keys), 'key')}")


@Check(
    id="krb.kinit", profiles="K", severity=FAIL, asks=("kinit", "krb5_conf"), source="FX own",
    expected="a ticket for the newest keytab that can be renewed (kept in memory only)",
    why="A keytab that the KDC no longer accepts stops its service at the next restart; without renewal long jobs end.",
    remedy="let the manager generate the credentials anew",
).host_rule  # fmt: skip
def _ticket(host: HostFacts) -> Verdict:
    lines = _given(host, "kinit")
    status = next((line.removeprefix("status=") for line in lines if line.startswith("status=")), "")
    if status in ("127", "no-principal-1", "no-principal-127"):
        raise CouldNotTell("klist or kinit is not installed")
    if status == "no-principal-0":
        return broken("the keytab names no principal to try")
    if status == "0":
        return _renewable(lines)
    said = said_by_kinit(lines, status)
    return broken(said, mending(said) or mending_of_account(said))


def _renewable(lines: Sequence[str]) -> Verdict:
    shown = " ".join(line for line in lines if not line.startswith(("status=", "keytab=", "asked=")))
    if _ASKED not in lines:  # kept by a version that did not look
        return good("a ticket came")
    if "krbtgt/" not in shown:
        raise CouldNotTell("a ticket came; this host's klist does not show whether it can be renewed")
    times, _, rest = shown.partition("renew until ")
    until = rest.partition(",")[0]  # spelled as the times at which the ticket begins and ends
    return (
        good(f"a ticket came, renewable until {until}")
        if until and until not in times
        else broken("a ticket came that cannot be renewed", _RENEWING)
    )


def mending(said: str) -> str:
    """Return what mends that kinit gave no ticket for another reason than the keytab; "" where that is the reason."""
    return next((remedy for words, remedy in _MENDS.items() if words in said.lower()), "")


def mending_of_account(said: str, principal: str = "the principal", *, made_by: str = "") -> str:
    """Return what mends an account that the KDC lets nobody in with, whatever its key; "" where that is not the reason.

    Args:
        made_by: where the principal stands that the KDC may not know; "" where a new export makes it, too.
    """
    if made_by and _UNKNOWN in said.lower():
        return f"have {principal} made in the KDC (addprinc), or correct {made_by}"
    found = next((remedy for words, remedy in _ACCOUNTS.items() if words in said.lower()), "")
    return found.format(principal=principal)


def kdcs_of(lines: Sequence[str], realm: str) -> list[str]:
    """Return the KDCs that the lines of krb5.conf name for a realm, as `HOST:PORT`."""
    found, section, owner, depth = list[str](), "", "", 0
    for line in lines:
        name, _, value = (word.strip() for word in line.partition("="))
        if line.startswith("["):
            section, depth = line.strip("[]* "), 0
        elif value == "{":
            depth += 1
            owner = name if depth == 1 else owner
        elif line.startswith("}"):
            depth -= 1
        elif name == "kdc" and (section, owner, depth) == ("realms", realm, 1):
            found.append(value if ":" in value else f"{value}:88")
    return found


def said_by_kinit(lines: Sequence[str], status: str) -> str:
    """Return why kinit gave no ticket, in its own words where it said something."""
    words = [line.partition("kinit: ")[2] for line in lines if "kinit: " in line]
    return f"kinit: {words[-1]}" if words else f"kinit ended with {status or 'nothing'}"


@Check(
    id="krb.kdc", profiles="K", severity=FAIL, asks=("kdc", "krb5_conf"), source="PS",
    expected="a KDC of the realm answers on its port",
    why="Without one nobody gets a ticket.",
    remedy=_LOOK_AT_KDC,
).host_rule  # fmt: skip
def _kdc(host: HostFacts) -> Verdict:
    realm = host.realm
    seen = host.tried("kdc")
    in_dns = [line.removeprefix("srv ") for line in host.lines("kdc") if line.startswith("srv ")]
    own = [name for name in kdcs_of(host.lines("krb5_conf"), realm) or in_dns if name in seen]
    if not own:
        raise CouldNotTell(f"neither krb5.conf nor DNS names a KDC of {realm}")
    if answering := [name for name in own if seen[name] == "0"]:
        return good(f"{', '.join(answering)} {'answers' if len(answering) == 1 else 'answer'}")
    remedy = f"start the KDC on {' or '.join(own)}, and open the way there from this host"
    return broken(f"{', '.join(own)} {'does' if len(own) == 1 else 'do'} not answer", remedy)


@Check(
    id="ldap.ad_rights", profiles="KD", severity=WARN, asks=("ad_rights",), source="PS", opt_in=True,
    expected="the account may create and delete principals in the directory's OU",
    why="The manager makes principals there for every role.",
    remedy="delegate the rights on the OU to the account",
).host_rule  # fmt: skip
def _directory_rights(host: HostFacts) -> Verdict:
    lines = host.lines("ad_rights")
    if lines == ["none"]:
        raise CouldNotTell("ldapadd is not installed")
    if lines == ["no-ou"]:
        raise CouldNotTell("no OU is known: give --ldap-ou and --ldap-url, and hold a ticket on the host")
    seen = dict(re.findall(r"^(add|delete)=(\d+)$", "\n".join(lines), re.MULTILINE))
    shown = f"add ended with {seen.get('add', '?')}, delete with {seen.get('delete', '?')}"
    if seen.get("add") == "0" and seen.get("delete") != "0":
        name = host.fields("ad_rights").get("name", "its account")
        remedy = _NOT_ASKED.get(seen.get("delete", ""), "let the account delete in the OU, too")
        return broken(f"{shown}: {name} is left there", f"{remedy}; this check, again, removes {name}")
    if seen.get("add") in _NOT_ASKED:
        raise CouldNotTell(f"{shown}: the directory was not asked", _NOT_ASKED[seen["add"]])
    return held(seen.get("add") == "0" and seen.get("delete") == "0", shown)
