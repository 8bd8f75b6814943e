"""The virtual-cluster utility of ECS masters."""

from maint.lab.shell.call import Call, Failed


def cde_utils(call: Call) -> int:
    """Initialise virtual clusters and their users."""
    if call.machine.utility is None:
        raise Failed("the connection to the server 127.0.0.1:6443 was refused: no cluster answers here")

    def read(place: str) -> bytes | None:
        path = call.path(place)
        return call.files.read(path) if call.files.exists(path) else None

    status, out, err = call.machine.utility(call.args, call.state.cwd, read)
    call.stderr.write(err.encode())
    call.stdout.write(out.encode())
    return status
