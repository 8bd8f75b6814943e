"""What the real shell answers: what is closed to the account that asks is neither absent nor switched off, and what
is there is read as the rules expect it.
"""

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from maint.checks.facts import Answered
from maint.checks.registry import CHECKS
from maint.model.fleet import State
from tests.checks.facts import host, site
from tests.checks.test_rules import NAMES, units

AGENT = "var/lib/cloudera-scm-agent"
CHAIN = f"{AGENT}/agent-cert/cm-auto-host_key_cert_chain.pem"
KRB = "[libdefaults]\n renew_lifetime = 7d\nincludedir {}/etc/krb5.conf.d\n"
FILES = {
    CHAIN: "x", f"{AGENT}/agent-cert/cm-auto-host_key.pem": "x", "etc/krb5.conf": KRB,
    "etc/krb5.conf.d/site": "[libdefaults]\n default_realm = A\n", "etc/rancher/rke2/rke2.yaml": "x",
}  # fmt: skip
NOBODY: dict[str, Any] = {"user": 65534, "group": 65534, "extra_groups": []} if os.geteuid() == 0 else {}


@pytest.fixture
def root() -> Iterator[Path]:
    """A folder that everybody may enter, with the files of a host."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    for name, content in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content.format(folder))
    yield folder
    for path in folder.rglob("*"):
        path.chmod(0o700)
    shutil.rmtree(folder)


def told(root: Path, question: str, **programs: str) -> Answered:
    """Return what an account that owns nothing is told by a host whose files lie in a folder; `programs`: by name."""
    text = CHECKS.questions()[question]
    for place in (
        "/var/lib/",
        "/etc/krb5.conf",
        "/etc/rancher",
        "/etc/cloudera-scm-",
        "/run/",
        "/opt/",
        "/usr/java/",
        "/proc/mounts",
    ):
        text = text.replace(place, f"{root}{place}")
    for name, content in programs.items():
        (root / name).write_text(f"#!/bin/sh\n{content}\n")
        (root / name).chmod(0o755)
    env = {"PATH": f"{root}:/usr/bin:/bin"}
    said = subprocess.run(["/bin/sh", "-c", text], capture_output=True, text=True, env=env, **NOBODY)
    return Answered(said.returncode, said.stdout, said.stderr)


@pytest.mark.parametrize(
    ("check", "closed"),
    [
        ("tls.files", AGENT),
        ("tls.match", AGENT),
        ("tls.expiry", f"{AGENT}/agent-cert"),
        ("tls.expiry", CHAIN),
        ("krb.conf", "etc/krb5.conf.d"),
        ("krb.conf", "etc/krb5.conf.d/site"),
        ("ecs.vault", "etc/rancher"),
        ("ecs.vault", "etc/rancher/rke2/rke2.yaml"),
        ("ecs.kubelet.nodes", "etc/rancher/rke2/rke2.yaml"),
    ],
)
def test_what_is_closed_to_the_account_that_asks_could_not_be_told(root: Path, check: str, closed: str) -> None:
    (root / closed).chmod(0)
    answers = {question: told(root, question) for question in CHECKS[check].asks if question != "names"}
    verdict = CHECKS[check].judge(host({**answers, "names": NAMES}))
    assert (verdict.state, "this account may not" in verdict.observed) == (State.ERROR, True), verdict


def test_the_modes_of_keys_are_those_that_they_have(root: Path) -> None:
    (root / AGENT / "agent-cert/cm-auto-host_key.pem").chmod(0o640)
    verdict = CHECKS["tls.files"].judge(host({"tls_files": told(root, "tls_files")}))
    assert (verdict.state, "the key has mode 640" in verdict.observed) == (State.FAIL, True), verdict


@pytest.mark.parametrize(
    ("hue", "found", "state"), [(True, 1, State.WARN), (True, 0, State.SKIP), (False, 1, State.SKIP)]
)
def test_psycopg2_is_looked_for_where_hue_runs(root: Path, hue: bool, found: int, state: State) -> None:
    (root / f"run/cloudera-scm-agent/process/12-{'hue-HUE_SERVER' if hue else 'hdfs-DATANODE'}").mkdir(parents=True)
    python = f"case $* in *psycopg2*) exit {found};; esac; echo Python 3.9.18"
    programs = dict.fromkeys(("python3", "python2", "python3.8", "python3.9", "python3.11"), python)
    verdict = CHECKS["os.python"].judge(host({"python": told(root, "python", **programs)}))
    assert (verdict.state, "psycopg2" in verdict.observed) == (state, state is State.WARN), verdict


@pytest.mark.parametrize(
    ("device", "layers", "state"),
    [
        ("mapper/luks-1", r"crypt\npart\ndisk", State.PASS),
        ("mapper/mpatha", r"mpath\ndisk\ndisk", State.PASS),
        ("dm-4", r"lvm\ncrypt\ndisk", State.WARN),
        ("md0", r"raid1\ndisk\ndisk", State.WARN),
        ("mapper/luks-1", "", State.WARN),
    ],
)
def test_what_lies_below_a_volume_of_data_is_asked_of_the_kernel_not_read_from_its_name(
    root: Path, device: str, layers: str, state: State
) -> None:
    lines = "proc /proc proc rw 0 0", "/dev/sda1 / xfs rw 0 0", f"/dev/{device} /data/1 xfs rw,noatime 0 0"
    (root / "proc").mkdir()
    (root / "proc/mounts").write_text("\n".join(lines) + "\n")
    lsblk = f"[ \"$*\" = '-snro TYPE /dev/{device}' ] && printf '{layers}'"
    answers = {"mounts": told(root, "mounts"), "layers": told(root, "layers", lsblk=lsblk)}
    assert answers["layers"].out.split()[0] == f"/dev/{device}"
    assert CHECKS["disk.data.mount"].judge(host(answers)).state is state


@pytest.mark.parametrize(("shown", "state"), [("-----BEGIN CERTIFICATE-----", State.PASS), ("CONNECTED", State.FAIL)])
def test_the_port_of_the_agents_has_tls_where_it_shows_a_certificate(root: Path, shown: str, state: State) -> None:
    answer = told(root, "agents_tls", openssl=f"echo '{shown}'")
    listening = "".join(f"LISTEN 0 50 *:{port} *:*\n" for port in (7180, 7182, 7183))
    verdict = CHECKS["cm.ports"].judge(host({"listening": listening, "agents_tls": answer, "agent_reach": ""}))
    assert verdict.state is state, verdict


def test_a_port_of_the_agents_that_answers_nothing_is_not_said_to_be_without_tls(root: Path) -> None:
    answer = told(root, "agents_tls", openssl="exit 124")  # as `timeout` ends it
    listening = "".join(f"LISTEN 0 50 *:{port} *:*\n" for port in (7180, 7182, 7183))
    verdict = CHECKS["cm.ports"].judge(host({"listening": listening, "agents_tls": answer, "agent_reach": ""}))
    assert verdict.state is State.ERROR, verdict


@pytest.mark.parametrize(
    "line",
    ["server_host=cm.example.internal", "server_host = cm.example.internal ", "server_host: cm.example.internal"],
)
def test_an_agent_tries_the_port_of_its_server_however_its_configuration_is_spelled(root: Path, line: str) -> None:
    config = root / "etc/cloudera-scm-agent/config.ini"
    config.parent.mkdir()
    config.write_text(f"[General]\n{line}\n")
    answer = told(root, "agent_reach", nc="[ \"$*\" = '-z cm.example.internal 7182' ]")
    verdict = CHECKS["cm.ports"].judge(host({"agent_reach": answer}, profiles="B"))
    assert (verdict.state, verdict.observed) == (State.PASS, "reaches cm.example.internal:7182")


@pytest.mark.parametrize("between", ["=", " = "])
def test_a_database_is_tried_however_its_properties_are_spelled(root: Path, between: str) -> None:
    folder, key = root / "etc/cloudera-scm-server", "com.cloudera.cmf.db"
    folder.mkdir()
    (folder / "db.properties").write_text(f"{key}.type{between}mysql\n{key}.host{between}db.example.internal\n")
    answer = told(root, "db_reach", nc="[ \"$*\" = '-z db.example.internal 3306' ]")
    assert CHECKS["db.reach"].judge(host({"db_reach": answer})).observed == "db.example.internal:3306 answers"


@pytest.mark.parametrize(
    ("files", "state"),
    [
        ({"etc/sysctl.d/zz.conf": 1, "etc/sysctl.conf": 60}, State.PASS),  # is read as 99-sysctl.conf
        ({"etc/sysctl.d/zz.conf": 60, "etc/sysctl.conf": 1}, State.WARN),
        ({"usr/lib/sysctl.d/zz.conf": 60, "etc/sysctl.d/50-own.conf": 1}, State.WARN),
        ({"usr/lib/sysctl.d/zz.conf": 60, "etc/sysctl.d/zz.conf": 1}, State.PASS),  # stands in its place
        ({"run/sysctl.d/zz.conf": 60, "etc/sysctl.d/50-own.conf": 1}, State.WARN),
        ({"etc/sysctl.d/zz.txt": 60, "etc/sysctl.d/50-own.conf": 1}, State.PASS),
    ],
)
def test_what_the_kernel_is_told_at_boot_is_what_the_last_file_by_name_says(
    root: Path, files: dict[str, int], state: State
) -> None:
    contents = {"etc/sysctl.conf": ""} | {name: f"vm.swappiness = {value}\n" for name, value in files.items()}
    for name, content in contents.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(content)
    (root / "etc/sysctl.d").mkdir(exist_ok=True)
    (root / "etc/sysctl.d/99-sysctl.conf").symlink_to("../sysctl.conf")
    text = re.sub(r"(?<= )/(?=etc|run|usr)", f"{root}/", CHECKS.questions()["swappiness_files"])
    said = subprocess.run(["/bin/sh", "-c", text], capture_output=True, text=True)
    answers = {"swappiness": "1", "swappiness_files": said.stdout, "tuned": ""}
    assert CHECKS["os.swappiness.persist"].judge(host(answers)).state is state, said


@pytest.mark.parametrize(("active", "state"), [("CDH-2", State.PASS), ("CDH-1", State.WARN)])
def test_a_host_on_which_another_parcel_is_active_is_found(root: Path, active: str, state: State) -> None:
    folder, answers, known = root / "opt/cloudera/parcels", [], site()
    for name in ("CDH-1", "CDH-2"):
        (folder / name).mkdir(parents=True)
    for target in ("CDH-2", "CDH-2", active):
        (folder / "CDH").unlink(missing_ok=True)
        (folder / "CDH").symlink_to(target)
        answers.append(told(root, "parcels"))
    for name, answer in zip("abc", answers, strict=True):
        host({"parcels": answer}, name=name, profiles="B", site=known)
    verdicts = CHECKS["cm.parcels"].judge_all(known)
    assert (verdicts["a"].state, verdicts["c"].state) == (State.PASS, state), verdicts


@pytest.mark.parametrize(
    ("config", "wrong"),
    [
        ("includedir {}/etc/krb5.conf.d\n[libdefaults]\n{own} default_ccache_name = FILE:/tmp/x\n", "KCM:"),
        ("[libdefaults]\n{own}includedir {}/etc/krb5.conf.d/\n default_ccache_name = FILE:/tmp/x\n", "KCM:"),
        ("[libdefaults]\n{own} default_ccache_name = FILE:/tmp/x\ninclude {}/etc/krb5.conf.d/kcm_default_ccache", ""),
        ("[libdefaults]\n{own}[appdefaults]\n default_ccache_name = KCM:\n", ""),
        (
            "[libdefaults]\n default_realm = A\n[appdefaults]\n pam = {{\n renew_lifetime = 36000\n }}\n",
            "renew_lifetime",
        ),
    ],
)
def test_of_settings_of_kerberos_the_first_in_its_section_counts(root: Path, config: str, wrong: str) -> None:
    own = " default_realm = A\n renew_lifetime = 7d\n udp_preference_limit = 1\n"
    (root / "etc/krb5.conf.d/site").unlink()
    (root / "etc/krb5.conf.d/kcm_default_ccache").write_text(
        "# of sssd-kcm\n[libdefaults]\n default_ccache_name = KCM:\n"
    )
    (root / "etc/krb5.conf").write_text(config.format(root, own=own))
    verdict = CHECKS["krb.conf"].judge(host({"krb5_conf": told(root, "krb5_conf"), "keytab": "none"}))
    assert (verdict.state, wrong in verdict.observed) == (State.WARN if wrong else State.PASS, True), verdict


@pytest.fixture
def unit() -> Iterator[subprocess.Popen[bytes]]:
    """A process that may open 1024 files, as systemd 219 shows a unit's."""
    words = "ulimit -n 1024; exec tail -f /dev/null --pid=$$ -- -Dcom.cloudera.api.redaction=false"
    process = subprocess.Popen(["/bin/sh", "-c", words], stderr=subprocess.DEVNULL)
    while not Path(f"/proc/{process.pid}/cmdline").read_bytes().startswith(b"tail"):
        pass
    yield process
    process.kill()
    process.wait()


def of_old_systemd(process: "subprocess.Popen[bytes]") -> str:
    return (
        f"case $* in *--value*) echo \"unrecognized option '--value'\" >&2; exit 1;; esac; echo MainPID={process.pid}"
    )


def test_the_limits_of_an_agent_are_those_of_its_unit_whatever_it_calls_itself(
    root: Path, unit: "subprocess.Popen[bytes]"
) -> None:
    answer = told(root, "limits", systemctl=of_old_systemd(unit), pidof="exit 1")
    verdict = CHECKS["os.nofile"].judge(host({"limits": answer}))
    assert (verdict.state, verdict.observed) == (State.WARN, "1024"), answer
    assert "cloudera-scm-agent.service.d" in verdict.remedy


def test_the_options_of_a_running_server_are_seen_where_systemd_is_old(
    root: Path, unit: "subprocess.Popen[bytes]"
) -> None:
    answer = told(root, "java_running", systemctl=of_old_systemd(unit))
    verdict = CHECKS["cm.redaction"].judge(host({"java_options": "file-there", "java_running": answer}))
    assert verdict.observed.startswith("the file says true, the running server has false"), answer


@pytest.mark.parametrize(
    ("kind", "says", "state"),
    [
        ("postgresql", "echo AB-1", State.PASS),
        ("postgresql", "exit 2", State.ERROR),  # which is not one without a GUID
        ("mysql", "echo AB-1", State.ERROR),
    ],
)
def test_a_database_that_could_not_be_asked_says_nothing_of_its_guid(
    root: Path, kind: str, says: str, state: State
) -> None:
    folder, key = root / "etc/cloudera-scm-server", "com.cloudera.cmf.db"
    folder.mkdir()
    (folder / "uuid").write_text("ab-1")
    (folder / "db.properties").write_text(f"{key}.type={kind}\n{key}.host=localhost\n{key}.name=scm\n")
    answer = told(root, "cm_uuid", psql="true", runuser=says)
    verdict = CHECKS["cm.uuid"].judge(host({"cm_uuid": answer}, profiles="M"))
    assert verdict.state is state, verdict


@pytest.mark.parametrize(("peer", "state"), [("*10.0.0.1 .GPS.", State.PASS), (" 10.0.0.1 .INIT.", State.FAIL)])
def test_a_clock_is_asked_of_ntpd_where_that_keeps_it_and_chrony_is_only_installed(
    root: Path, peer: str, state: State
) -> None:
    answer = told(
        root,
        "sync",
        chronyc="echo '506 Cannot talk to daemon'; exit 1",
        ntpq=f"echo '{peer} 1 u 3 64 377 0.1 1.2 0.1'",
        timedatectl="echo NTPSynchronized=no",
    )
    verdict = CHECKS["time.sync"].judge(host({"units": units("ntpd"), "sync": answer}))
    assert verdict.state is state, verdict


@pytest.mark.parametrize(("mounts", "state"), [(("/var", "/var"), State.FAIL), (("/d", "/l"), State.WARN)])
def test_folders_of_docker_and_longhorn_are_asked_for_with_their_volumes(
    root: Path, mounts: tuple[str, str], state: State
) -> None:
    for name, mount in zip(("docker", "longhorn"), mounts, strict=True):
        (root / f"var/lib/{name}").mkdir(parents=True)
        (root / name).write_text(mount)
    which = f'case "$*" in *docker*) m=$(cat {root}/docker);; *) m=$(cat {root}/longhorn);; esac'
    findmnt, df = f"{which}; echo $m", f"{which}; echo Filesystem; echo /dev/disk$m 9 1 8 10% $m"
    answer = told(root, "ecs_folders", findmnt=findmnt, df=df).out.replace(str(root), "")
    verdict = CHECKS["disk.ecs"].judge(host({"ecs_folders": answer}))
    assert verdict.state is state, (verdict, answer)  # a warning: there is no folder for local paths


def test_accounts_that_a_host_lacks_are_asked_for_with_their_groups(root: Path) -> None:
    getent = "[ $1 = passwd ] && echo cloudera-scm:x:990:990::/:/bin/sh || echo cloudera-scm:x:990:"
    known = host({"accounts": told(root, "accounts", getent=getent)}).site
    (verdict,) = CHECKS["os.users"].judge_all(known).values()
    missing = [name for name in ("hdfs", "hive", "yarn", "zookeeper") for _ in range(2)]
    assert verdict.state is State.WARN
    assert sorted(one.removeprefix("group ").split()[0] for one in verdict.observed.split(", ")) == missing, verdict


def test_an_oracle_jdk_whose_release_names_no_implementor_is_known_for_one(root: Path) -> None:
    (root / "usr/java/jdk1.8.0_181-amd64/bin").mkdir(parents=True)
    (root / "usr/java/jdk1.8.0_181-amd64/bin/java").touch(mode=0o755)
    release = root / "usr/java/jdk1.8.0_181-amd64/release"
    release.write_text('JAVA_VERSION="1.8.0_181"\nOS_NAME="Linux"\nSOURCE=" .:0"\nBUILD_TYPE="commercial"\n')
    known = site()
    host({"java": told(root, "java")}, site=known)
    (verdict,) = CHECKS["jdk.present"].judge_all(known).values()
    assert (verdict.state, verdict.observed.split(", ")[0]) == (State.PASS, "oracle 8.181"), verdict


def test_a_disk_that_this_kernel_has_given_up_is_found_and_one_that_is_mounted_read_only_beside_is_not(
    tmp_path: Path,
) -> None:
    if os.geteuid() or not shutil.which("mkfs.ext4"):
        pytest.skip("needs root and mkfs.ext4 for a disk to break")
    image, disk, beside = (tmp_path / name for name in ("image", "disk", "beside"))
    image.write_bytes(bytes(8 << 20))
    subprocess.run(["mkfs.ext4", "-q", image], check=True)
    disk.mkdir()
    beside.mkdir()
    if subprocess.run(["mount", "-o", "loop,errors=remount-ro", image, disk], check=False).returncode:
        pytest.skip("this machine lets nobody mount")
    try:
        subprocess.run(["mount", "--bind", disk, beside], check=True)
        subprocess.run(["mount", "-o", "remount,bind,ro", beside], check=True)
        assert judged_mounts(tmp_path) == (State.PASS, "none")
        device = Path(subprocess.check_output(["findmnt", "-no", "SOURCE", disk], text=True).strip())
        Path(f"/sys/fs/ext4/{device.name}/trigger_fs_error").write_text("x")
        assert judged_mounts(tmp_path) == (State.FAIL, f"{disk}, {beside}")
    finally:
        subprocess.run(["umount", beside, disk], check=False)


def judged_mounts(folder: Path) -> tuple[State | None, str]:
    """Return what `disk.ro` says of what is mounted below a folder."""
    lines = [line for line in Path("/proc/mounts").read_text().splitlines() if f" {folder}/" in line]
    verdict = CHECKS["disk.ro"].judge(host({"mounts": "\n".join(lines)}))
    return verdict.state, verdict.observed
