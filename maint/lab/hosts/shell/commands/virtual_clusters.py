"""The virtual-cluster utility of ECS masters."""

from maint.lab.hosts.shell.call import Call, Failed
from maint.lab.hosts.shell.commands.kubectl import wait_for_nothing
from maint.lab.virtual_clusters.kubernetes import Hangs


class _Files:
    """The host's files, seen from the folder of a call (maint.lab.virtual_clusters.utility.Files)."""

    def __init__(self, call: Call) -> None:
        self._call = call

    def read(self, place: str) -> bytes | None:
        """Return a file's bytes, None where there is none."""
        path = self._call.path(place)
        return self._call.files.read(path) if self._call.files.exists(path) else None

    def write(self, place: str, content: bytes) -> None:
        """Make or replace a file, with the rights that the umask leaves."""
        self._call.files.write(self._call.path(place), content, 0o666 & ~self._call.state.umask)

    def remove(self, place: str) -> None:
        """Remove a file."""
        self._call.files.remove(self._call.path(place))


def cde_utils(call: Call) -> int:
    """Initialise virtual clusters and their users."""
    if call.machine.utility is None:
        raise Failed("the connection to the server 127.0.0.1:6443 was refused: no cluster answers here")
    try:
        status, out, err = call.machine.utility(call.args, call.state.cwd, _Files(call))
    except Hangs:
        wait_for_nothing(call)
    call.stderr.write(err.encode())
    call.stdout.write(out.encode())
    return status
