"""Checks of disks: room, inodes, how data is mounted, what became read-only."""

import re
from collections.abc import Iterable, Iterator, Sequence
from shlex import quote

import msgspec

from maint.checks.check import FAIL, WARN, Check, Verdict, broken, failed, good, held, warned
from maint.checks.facts import CouldNotTell, HostFacts, NotApplicable
from maint.model.fleet import GIVEN_UP
from maint.model.formatting import show_count

PATHS = (
    "/", "/var", "/var/log", "/var/lib", "/opt", "/tmp", "/usr", "/var/log/cloudera-scm-agent", "/opt/cloudera/parcels",
    "/opt/cloudera/parcel-cache", "/var/lib/cloudera-*",
)  # fmt: skip
# Folders with floors of their own in GiB: below the first a warning, below the second a failure.
FLOORS = {"/var/log/cloudera-scm-agent": (2, 1), "/opt/cloudera/parcels": (10, 5)}
_STATE = "/var/lib/cloudera-"  # folders of agent, server and monitors
# The usual folders of images, block storage and local volumes; the second where the first is not there.
_ECS_FOLDERS = (("/docker", "/var/lib/docker"), ("/longhorn", "/var/lib/longhorn"), ("/local-path",))
_SYSTEM = ("/", "/boot", "/home", "/opt", "/root", "/tmp", "/usr", "/var", "/var/lib", "/var/log", "/var/tmp")
_ELSEWHERE = "where they lie elsewhere, `--plan` judges them; accept it in the config then"
_EXISTING = 's=""; for p in {paths}; do [ -e $p ] && s="$s $p"; done;'
QUESTIONS = {
    "space": f'{_EXISTING.format(paths=" ".join(PATHS))} for p in $s; do df -Pk $p | sed -n "2s|^|$p |p"; done; true',
    "inodes": f"{_EXISTING.format(paths=' '.join(PATHS[:7]))} df -Pi $s; true",
    "mounts": "cat /proc/mounts",
    "layers": "for d in $(sed -n 's|^\\(/dev/[dm][^ ]*\\) .*|\\1|p' /proc/mounts); do echo $d $(lsblk -snro TYPE $d);"
    " done; true",
    "tmp": 'echo "options=$(findmnt -no OPTIONS --target /tmp)"; echo "mode=$(stat -c %a /tmp)"',
    "ecs_folders": f"for p in {' '.join(p for kind in _ECS_FOLDERS for p in kind)}; do [ -d $p ] &&"
    ' echo "$p $(findmnt -no TARGET --target $p) $(df -Pk $p | sed -n 2p)"; done; true',
}
_DATA = re.compile(r"/(data(?!base)|grid|hadoop|dfs)")  # a database's volume is none of the platform's
_LAYERED = ("/dev/mapper/", "/dev/dm-", "/dev/md")
_FINE = {"crypt", "disk", "mpath", "part"}  # as lsblk calls what spreads and copies nothing: encryption, ways to a disk
_REAL = ("ext2", "ext3", "ext4", "xfs", "btrfs")


class Room(msgspec.Struct, frozen=True):
    """How full a folder's file system is; sizes in KiB."""

    path: str
    free: int
    percent: int


def rooms(host: HostFacts) -> list[Room]:
    """Return how full the file systems of the folders are."""
    found = []
    for line in host.text("space").splitlines():
        words = line.split()
        if len(words) >= 7 and words[4].isdigit() and words[5].rstrip("%").isdigit():
            found.append(Room(words[0], int(words[4]), int(words[5].rstrip("%"))))
    if not found:
        raise CouldNotTell("df printed nothing that can be read")
    return found


@Check(
    id="disk.space", profiles="", severity=FAIL, asks=("space",), source="HM own",
    expected="no file system over 90 %; agent logs 2 GiB, parcels 10 GiB, state folders 5 GiB free",
    why="A full disk stops databases and agents in the middle of what they write.",
    remedy="make room in the folder: `du -xk FOLDER | sort -n | tail` shows what takes it",
).host_rule  # fmt: skip
def _space(host: HostFacts) -> Verdict:
    worst: list[tuple[int, str, str]] = []
    for room in rooms(host):
        low, lowest = FLOORS.get(room.path, (5, 0) if room.path.startswith(_STATE) else (0, 0))
        free = room.free / (1 << 20)
        level = 2 if room.percent > 95 or free < lowest else 1 if room.percent > 90 or free < low else 0
        worst.append((level, room.path, f"{room.path} {room.percent} % full, {free:.1f} GiB free"))
    level = max(item[0] for item in worst)
    if not level:
        return good(show_count(len(worst), "folder"))
    shown = "; ".join(words for own, _, words in worst if own == level)
    folders = " ".join(quote(path) for own, path, _ in worst if own == level)
    remedy = f"make room there: `du -xk {folders} | sort -n | tail` shows what takes it"
    return (warned, failed)[level - 1](shown, remedy)


@Check(
    id="disk.inodes", profiles="", severity=WARN, asks=("inodes",), source="own",
    expected="over 10 % of the inodes free",
    why="Without inodes no file can be made, however much room there is.",
    remedy="remove files: `find FOLDER -xdev -type d -size +1M` shows folders with very many",
).host_rule  # fmt: skip
def _inodes(host: HostFacts) -> Verdict:
    rows = [line.split() for line in host.text("inodes").splitlines()]
    used = {row[5]: int(row[4].rstrip("%")) for row in rows if len(row) >= 6 and row[4].rstrip("%").isdigit()}
    if not used:
        raise CouldNotTell("df shows no inodes")
    full = [f"{path} {percent} %" for path, percent in used.items() if percent >= 90]
    folders = " ".join(quote(path) for path, percent in used.items() if percent >= 90)
    remedy = f"remove files there: `find {folders} -xdev -type d -size +1M` shows folders with very many"
    return held(not full, ", ".join(full) or f"{show_count(len(used), 'file system')}", remedy)


def _mounts(host: HostFacts) -> list[tuple[str, str, str, list[str]]]:
    rows = [line.split() for line in host.text("mounts").splitlines()]
    if not any(len(row) > 3 for row in rows):
        raise CouldNotTell("/proc/mounts names nothing that is mounted")
    return [(row[0], row[1].replace("\\040", " "), row[2], row[3].split(",")) for row in rows if len(row) > 3]


@Check(
    id="disk.data.mount", profiles="B", severity=WARN, asks=("mounts", "layers"), source="RA",
    expected="data volumes on ext4 or xfs, with noatime, neither LVM nor RAID nor NFS",
    why="The platform spreads and copies data itself; layers below only make it slower.",
    remedy="mount the volumes by themselves, with noatime, in /etc/fstab",
).host_rule  # fmt: skip
def _data_mounts(host: HostFacts) -> Verdict:
    data = [row for row in _mounts(host) if _DATA.match(row[1])]
    if not data:
        raise NotApplicable("no data volumes below /data, /grid, /hadoop or /dfs")
    layers = {words[0]: words[1:] for line in host.lines("layers") if (words := line.split())}
    wrong, anew, timed = [], [], []
    for source, target, kind, options in data:
        if kind not in ("ext4", "xfs"):
            wrong.append(f"{target} is {kind}")
            anew.append(target)
        if "noatime" not in options:
            wrong.append(f"{target} without noatime")
            timed.append(quote(target))
        below = layers.get(source, [])
        if source.startswith(_LAYERED) and not (below and _FINE.issuperset(below)):
            wrong.append(f"{target} on {source}{f' ({below[0]})' if below else ''}")
            anew.append(target)
    remedy = f"for d in {' '.join(timed)}; do mount -o remount,noatime $d; done # and in /etc/fstab" if timed else ""
    if anew:  # what is on them goes
        moved = f"have the manager take {', '.join(dict.fromkeys(anew))} out of use, then make xfs on a bare disk"
        remedy = "; ".join([moved, *([f"noatime in /etc/fstab for {', '.join(timed)}"] if timed else [])])
    return held(not wrong, "; ".join(wrong) or show_count(len(data), "volume"), remedy)


@Check(
    id="disk.ro", profiles="", severity=FAIL, asks=("mounts",), source="own",
    expected="no disk is mounted read-only",
    why="The kernel makes a disk read-only when it no longer trusts it.",
    remedy="dmesg shows why; repair the file system",
).host_rule  # fmt: skip
def _read_only(host: HostFacts) -> Verdict:
    rows = [row for row in _mounts(host) if row[0].startswith("/dev/") and row[2] in _REAL]
    # Of a disk that can be written to, somebody wanted one mount read-only, as pods have theirs.
    written = {row[0] for row in rows if row[3][0] == "rw"}
    rows = [row for row in rows if (row[3][0] == "ro" and row[0] not in written) or GIVEN_UP.intersection(row[3])]
    disks = ", ".join(dict.fromkeys(row[0] for row in rows))
    remedy = f"`dmesg` shows why; unmount {disks}, repair (xfs_repair, e2fsck -f) or replace it, mount it again"
    return held(not rows, ", ".join(row[1] for row in rows) or "none", remedy)


@Check(
    id="disk.ecs", profiles="E", severity=FAIL, asks=("ecs_folders",), source="FX",
    expected="docker, longhorn and local-path folders there, on volumes of their own",
    why="Images and block storage fill whatever they lie on.",
    remedy="mount a volume on each of them; `--plan` judges their places and sizes before an installation",
).host_rule  # fmt: skip
def _ecs_folders(host: HostFacts) -> Verdict:
    there = {row[0]: row for row in (line.split() for line in host.lines("ecs_folders"))}
    rows = [next((there[path] for path in kind if path in there), None) for kind in _ECS_FOLDERS]
    found = [row for row in rows if row is not None]
    if not found:
        raise NotApplicable("none of the usual folders is there; their places stand in the wizard's plan")
    if any(len(row) < 2 for row in found):
        raise CouldNotTell("findmnt does not say where the folders lie")
    shown = ", ".join(row[0] for row in found)
    if wrong := list(not_alone(found)):
        return broken("; ".join(wrong))
    if missing := [" or ".join(kind) for kind, row in zip(_ECS_FOLDERS, rows, strict=True) if row is None]:
        return warned(f"{shown}; not there: {', '.join(missing)}", _ELSEWHERE)
    return good(shown)


def not_alone(rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Yield which folders have no volume of their own; each row is the folder, its mount point and its device."""
    taken: dict[str, str] = {}
    for folder, target, *rest in rows:
        places = {target, *(name for name in rest[:1] if name.startswith("/dev/"))}
        others = [taken[place] for place in places if place in taken]
        if target in _SYSTEM:
            yield f"{folder} is on {'the root file system' if target == '/' else f'{target}, with the system'}"
        elif others:
            yield f"{folder} shares a volume with {others[0]}"
        taken |= dict.fromkeys(places, folder)


@Check(
    id="os.tmp", profiles="BEM", severity=WARN, asks=("tmp",), source="PS EXE",
    expected="mode 1777, without noexec",
    why="Installers and Java unpack programs there.",
    remedy="chmod 1777 /tmp",
).host_rule  # fmt: skip
def _tmp(host: HostFacts) -> Verdict:
    seen = host.fields("tmp")
    mode, options = seen.get("mode", ""), seen.get("options", "")
    if not mode:
        raise CouldNotTell("stat says nothing about /tmp")
    if not options:
        raise CouldNotTell("findmnt does not say how /tmp is mounted")
    noexec = "noexec" in options.split(",")
    lasting = "take noexec out of /etc/fstab, or of tmp.mount, for the next boot"
    remedy = f"mount -o remount,exec /tmp; chmod 1777 /tmp # {lasting}" if noexec else ""
    return held(mode == "1777" and not noexec, f"mode {mode}{', noexec' if noexec else ''}", remedy)
