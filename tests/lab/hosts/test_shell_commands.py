"""The commands of a lab host."""

import io
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from maint.lab.hosts.furnish import furnish_host
from maint.lab.hosts.machine import Machine
from maint.lab.hosts.shell.commands import COMMANDS
from maint.lab.hosts.shell.executor import run
from maint.lab.manager.simulator import PlainUnit

PURE = [
    ("printf 'b\\na\\nb\\n' | sort -u", "a\nb\n"),
    ("printf '10\\n9\\n' | sort -n", "9\n10\n"),
    ("printf '10\\n9\\n' | sort -nr | head -n 1", "10\n"),
    ("printf 'a\\0b\\0' | tr '\\0' ' '", "a b "),
    ("seq 5 | head -n 2 | tail -n 1", "2\n"),
    ("seq 4 5 | tail -c 3", "\n5\n"),
    ("echo one | wc -l", "1\n"),
    ("echo hello | sed 's/l/L/'", "heLlo\n"),
    ("echo hello | sed 's/l/L/g;s/^\\(.\\)/<\\1>/'", "<h>eLLo\n"),
    ("echo a.b | sed 's/[.]/&&/'", "a..b\n"),
    ("seq 5 | sed -n '2,3p'", "2\n3\n"),
    ("seq 5 | sed -n '4,$p'", "4\n5\n"),
    ("seq 3 | sed '$d'", "1\n2\n"),
    ("seq 3 | sed -n '$s/./last/p'", "last\n"),
    ("echo 'password=x' | sed 's/password=.*/password=***/'", "password=***\n"),
    ("echo a/b | sed 's|\\(.\\)/\\(.\\)|\\2/\\1|'", "b/a\n"),
    ("printf 'x\\nb\\n' | sed -n 's|^|/opt |p;1d'", "/opt x\n/opt b\n"),
    ("echo '# c' | grep -v '^ *#' || echo none", "none\n"),
    ("printf 'a\\nb\\n' | grep -c .", "2\n"),
    ("printf 'foo=1\\n' | grep -o '[0-9]*'", "1\n"),
    ("printf 'a\\nb\\nc\\n' | grep -A1 -i A", "a\nb\n"),
    ("printf 'ab\\nb\\n' | grep -x -e b -e c", "b\n"),
    ("echo 'redaction=false x' | grep -o 'redaction=[a-z]*'", "redaction=false\n"),
    ("basename /a/b.txt", "b.txt\n"),
    ("echo aGk= | base64 -d", "hi"),
    ("printf x | sha256sum", "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881  -\n"),
    ("X=1 sh -c 'echo $X'", "1\n"),
    ("timeout 0.05 sleep 5; echo $?", "124\n"),
    ("timeout 5 echo in time", "in time\n"),
    ("sudo -n -- /bin/sh -c 'echo root'", "root\n"),
]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    machine = Machine("cm", tmp_path / "cm", {}, address="10.0.0.5")
    furnish_host(machine)
    return machine


Ask = Callable[[str], str]


@pytest.fixture
def ask(machine: Machine) -> Ask:
    def asked(command: str) -> str:
        ended = run(machine, command)
        assert ended.err == b"", ended.err
        return ended.out.decode()

    return asked


@pytest.mark.parametrize(("command", "answer"), PURE)
def test_a_filter_answers(command: str, answer: str, ask: Ask) -> None:
    assert ask(command) == answer


def test_files_are_made_moved_and_removed(ask: Ask) -> None:
    ask("mkdir -p -m 750 /srv/a/b; echo x > /srv/a/f; echo y > /srv/a/g; mv -f /srv/a/g /srv/a/b/; rm /srv/a/f")
    assert ask("find /srv/a -type f; stat -c '%a %U' /srv/a/b") == "/srv/a/b/g\n750 root\n"
    ask("rm -rf /srv/a")
    assert ask("ls -A /srv") == ""


def test_modes_and_owners_are_kept(ask: Ask) -> None:
    ask("echo x > /srv/f; chmod 660 /srv/f; chown hdfs:hive /srv/f")
    assert ask("stat -c '%a %U:%G %s %n' /srv/f") == "660 hdfs:hive 2 /srv/f\n"


def test_a_file_is_replaced_atomically_as_the_toolkit_does_it(ask: Ask) -> None:
    ask("chmod 600 /etc/hosts; chown hdfs /etc/hosts")
    script = """
        set -eu; target=/etc/hosts; new=$(mktemp -p "${target%/*}" .new.XXXXXX)
        trap 'rm -f "$new"' EXIT
        printf 'content' > "$new"; chmod "$(stat -c %a "$target")" "$new"
    """
    ask(script + 'chown "$(stat -c %U:%G "$target")" "$new"; sync "$new"; mv -f "$new" "$target"')
    assert ask("cat /etc/hosts; stat -c ' %a %U' /etc/hosts; ls -A /etc | grep -c '^[.]new' || true") == (
        "content 600 hdfs\n0\n"
    )


def test_old_files_are_found_and_handed_to_a_command(machine: Machine, ask: Ask) -> None:
    ask("touch /srv/.maint-old /srv/.maint-new /srv/other")
    machine.files.touch("/srv/.maint-old", machine.clock() - 7200)
    ask("find /srv -maxdepth 1 -type f -name '.maint-*' -mmin +60 -exec rm -f '{}' ';'")
    assert ask("ls -A /srv") == ".maint-new\nother\n"


def test_links_are_read_and_resolved(ask: Ask) -> None:
    ask("mkdir /srv/real; echo x > /srv/real/f; ln -s real /srv/link; ln -sf /srv/link/f /srv/f")
    assert ask("readlink /srv/f; readlink -f /srv/f; readlink -f /srv/link; cat /srv/f") == (
        "/srv/link/f\n/srv/real/f\n/srv/real\nx\n"
    )


def test_a_second_name_of_a_file_keeps_mode_and_owner_and_replaces_nothing(machine: Machine, ask: Ask) -> None:
    ask("echo x > /srv/f; chmod 640 /srv/f; chown hdfs:hive /srv/f; ln /srv/f /srv/g; rm /srv/f; echo y > /srv/other")
    assert ask("cat /srv/g; stat -c '%a %U %G' /srv/g") == "x\n640 hdfs hive\n"
    assert run(machine, "ln /srv/other /srv/g").status == 1
    assert ask("cat /srv/g") == "x\n"


def test_an_archive_holds_names_modes_owners_and_links(machine: Machine) -> None:
    script = (
        "mkdir -p /srv/a/b; echo x > /srv/a/b/f; ln -s b /srv/a/l; chmod 640 /srv/a/b/f; chown hdfs:hive /srv/a/b/f"
    )
    assert run(machine, script).status == 0
    with tarfile.open(fileobj=io.BytesIO(run(machine, "tar -C / -cf - -- srv/a").out)) as archive:
        members = {member.name: member for member in archive}
        file, link = members["srv/a/b/f"], members["srv/a/l"]
        content = archive.extractfile(file)
        assert content and content.read() == b"x\n"
    assert (file.mode, file.uname, file.gname, link.linkname) == (0o640, "hdfs", "hive", "b")
    assert sorted(members) == ["srv/a", "srv/a/b", "srv/a/b/f", "srv/a/l"]


def test_sed_edits_in_place(ask: Ask) -> None:
    ask("printf 'a=1\\nb=2' > /srv/f; chmod 600 /srv/f; sed -i 's/^b=.*/b=3/' /srv/f")
    assert ask("cat /srv/f; stat -c ' %a' /srv/f") == "a=1\nb=3 600\n"


def test_the_host_knows_itself(ask: Ask) -> None:
    assert ask("hostname -f; hostname -s; hostname") == "cm.example.internal\ncm\ncm.example.internal\n"
    assert ask("getent ahostsv4 localhost | head -n 1").split()[0] == "127.0.0.1"
    assert ask('getent hosts "$(hostname -f)"').split() == ["10.0.0.5", "cm.example.internal", "cm"]
    assert ask("getent hosts 10.0.0.5").split()[1] == "cm.example.internal"
    assert ask("grep '^VERSION_ID' /etc/os-release") == 'VERSION_ID="9.4"\n'
    assert ask("cat /proc/sys/vm/swappiness; nproc; getenforce") == "1\n16\nDisabled\n"
    assert ask("ip -4 -o addr show scope global").split()[3] == "10.0.0.5/24"
    assert ask("id -u; getent passwd hdfs").split(":")[5] == "/var/lib/hdfs"
    assert ask("df -Pk / | tail -n 1").split()[4:] == ["20%", "/"]
    assert ask("findmnt -no OPTIONS --target /tmp; stat -c %a /tmp") == "rw,nosuid,nodev\n1777\n"


def test_the_clock_is_the_machine_s(machine: Machine, ask: Ask) -> None:
    machine.now = lambda: 1_700_000_000.5
    assert ask("date +%s; date -u +%Y-%m-%dT%H:%M:%SZ; date +%Z%z") == "1700000000\n2023-11-14T22:13:20Z\nUTC+0000\n"
    machine.facts["clock_drift"] = "7"
    assert ask("date +%s.%N") == "1700000007.500000000\n"
    machine.facts["timezone"] = "CET+0100"
    assert ask("date '+%H %Z%z'; date -u +%H") == "23 CET+0100\n22\n"


def test_a_truststore_opens_with_its_password_alone(machine: Machine) -> None:
    machine.files.write("/srv/store.jks", b"STORE")
    machine.keystore_opens = lambda data, word: ["ca"] if (data, word) == (b"STORE", "right") else None
    list_it = "keytool -list -keystore /srv/store.jks"
    right = run(machine, list_it, b"right\n")
    assert right.status == 0 and b"contains 1 entries" in right.out and b"ca, trustedCertEntry" in right.out
    assert run(machine, list_it, b"wrong\n").status == 1
    assert run(machine, "keytool -list -keystore /srv/none", b"right\n").status == 1


def test_an_unknown_command_answers_as_sh_does(machine: Machine) -> None:
    ended = run(machine, "frobnicate --now")
    assert (ended.status, ended.err) == (127, b"sh: 1: frobnicate: not found\n")


NOT_SIMULATED = [
    "ls --zzz",
    "stat -f /",
    "grep -P x /etc/hosts",
    "grep '[[:digit:]]' /etc/hosts",
    "df --output=pcent",
    "systemctl kill x",
    "date -d yesterday",
    "sed y",
    "sed '/a/d' /etc/hosts",
    "find / -newer x",
    "chmod u+x /etc/hosts",
    "tar -xf -",
    "test a = a -a b = b",
    "printf %5s x",
    "read x",
    "command ls",
    "set -x",
    "awk 1",
    "cut -c1 /etc/hosts",
    "cat <<E",
    "echo `true`",
    "echo $((1 << 2))",
    "echo ${#x}",
    "IFS=: read -r a b",
]


@pytest.mark.parametrize("command", NOT_SIMULATED)
def test_what_is_not_simulated_says_so(command: str, machine: Machine) -> None:
    ended = run(machine, command)
    assert ended.status != 0 and ended.err != b""
    assert ended.out == b""


def test_settings_of_the_kernel_are_written_as_the_kernel_keeps_them(machine: Machine, ask: Ask) -> None:
    assert ask("sysctl -w vm.swappiness=7 vm.overcommit_memory=0") == "vm.swappiness = 7\nvm.overcommit_memory = 0\n"
    assert ask("cat /proc/sys/vm/swappiness /proc/sys/vm/overcommit_memory") == "7\n0\n"
    assert run(machine, "sysctl -w vm.nothing=1").status == 1
    pages = "/sys/kernel/mm/transparent_hugepage/defrag"
    assert ask(f"echo madvise > {pages}; cat {pages}") == "always defer defer+madvise [madvise] never\n"
    assert run(machine, f"echo nonsense > {pages}").status != 0
    assert ask(f"cat {pages}") == "always defer defer+madvise [madvise] never\n"


def test_others_lose_their_rights_and_a_clock_its_drift(machine: Machine, ask: Ask) -> None:
    assert ask("chmod 4755 /etc/hosts; chmod go= /etc/hosts; stat -c %a /etc/hosts") == "4700\n"
    machine.facts["clock_drift"] = "7"
    machine.units["chronyd"] = PlainUnit()
    machine.units["chronyd"].start()
    assert (ask("chronyc makestep"), machine.fact("clock_drift")) == ("200 OK\n", "0")


def test_a_full_disk_still_reads(machine: Machine) -> None:
    machine.fault = "disk-full"
    assert run(machine, "cat /etc/hostname").status == 0
    opening = ("echo x > /srv/f", "mkdir /srv/d", "mktemp -d /srv/x.XXXX")
    for write in (*opening, "sed -i s/a/b/ /etc/hosts", "echo x >> /etc/hosts"):
        ended = run(machine, write)
        assert ended.status != 0 and b"No space left on device" in ended.err, write


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_ends_without_a_bug(name: str, machine: Machine) -> None:
    for command in (name, f"{name} --no-such-option", f"{name} /none", f"{name} a b"):
        ended = run(machine, command)
        assert b"the lab itself failed" not in ended.err, (command, ended.err)


def test_facts_change_what_a_furnished_host_says(tmp_path: Path) -> None:
    machine = Machine("w1.corp.test", tmp_path / "w1", {})
    furnish_host(machine, {"cpus": "4", "os_version": "8.10"})
    assert run(machine, "hostname -f; nproc; grep -o '8.10' /etc/redhat-release").out == b"w1.corp.test\n4\n8.10\n"


def test_an_owner_that_nobody_knows_keeps_its_number(tmp_path: Path) -> None:
    machine = Machine("bare", tmp_path / "bare", {})
    machine.files.write("/srv/f", b"x", 0o640, "1234", "1234")
    ended = run(machine, 'echo y > /srv/g; chown "$(stat -c %u:%g /srv/f)" /srv/g; stat -c %u:%g:%U /srv/g')
    assert (ended.out, ended.err) == (b"1234:1234:1234\n", b"")


def test_accounts_packages_and_the_time_zone_can_be_changed(machine: Machine, ask: Ask) -> None:
    assert ask("groupadd -r -g 7 ops; useradd -r -g ops -u 8 ops; id ops") == "uid=8(ops) gid=7(ops) groups=7(ops)\n"
    ask("touch /srv/o; chown ops:ops /srv/o; find /srv -xdev -uid 8 -exec chown -h 9 {} +; usermod -u 9 ops")
    assert ask("groupmod -g 10 ops; find /srv -gid 10 -uid 9; id ops").startswith("/srv/o\nuid=9(ops) gid=10(")
    for wrong in ("groupadd ops", "useradd ops", "useradd -g nobody-s x", "usermod -u 9 hdfs", "groupmod -g 1 who"):
        assert run(machine, wrong).status != 0, wrong
    assert ask("dnf install -y openssl-3.9.1 > /dev/null; rpm -q openssl") == "openssl-3.9.1-27.el9.x86_64\n"
    assert ask("dnf -y remove openssl > /dev/null; dnf -y install openssl; rpm -q openssl").endswith("-27.el9.x86_64\n")
    assert run(machine, "dnf install -y unheard-of").status == 1
    ask("timedatectl set-timezone CET")
    assert ask("timedatectl show -p Timezone --value; date +%z").split()[0] == "CET"
    assert ask("timedatectl").split() == ["Time", "zone:", "CET"]
    assert run(machine, "timedatectl set-timezone Nowhere/Else").status == 1
