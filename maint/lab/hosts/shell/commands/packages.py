"""dnf and yum: take packages off a host; what is gone is remembered in its files."""

from maint.lab.hosts.shell.call import Call, NotSimulated

_GONE = "/var/lib/rpm/.removed"


def installed(call: Call) -> list[str]:
    """Return the packages of a host, NAME-VERSION-RELEASE.ARCH each."""
    gone = call.files.read(_GONE).decode().split() if call.files.exists(_GONE) else []
    return [package for package in call.machine.fact("packages").split() if package.rsplit("-", 2)[0] not in gone]


def dnf(call: Call) -> int:
    """`dnf -y remove NAME…`, `yum -y remove NAME…`; a unit that only the package has is gone too."""
    options = call.options("yq", "", ("assumeyes", "quiet", "setopt=", "noautoremove"))
    verb, *names = options.operands or [""]
    if verb not in ("remove", "erase") or "y" not in options:
        raise NotSimulated(" ".join(call.args))
    known = {package.rsplit("-", 2)[0] for package in installed(call)}
    for name in names:
        if name not in known:
            call.out(f"No match for argument: {name}\n")
            continue
        before = call.files.read(_GONE) if call.files.exists(_GONE) else b""
        call.files.write(_GONE, before + f"{name}\n".encode())
        if name == "iscsi-initiator-utils":
            call.machine.units.pop("iscsid", None)
        call.machine.tell(f"{call.name} remove {name}")
    call.out("Complete!\n")
    return 0
