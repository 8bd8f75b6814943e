"""ss, nc: who listens on the host, and whom it can reach among the lab's hosts."""

import re

from maint.lab.hosts.shell.call import Call, Failed, NotSimulated

_TIME = 323  # chronyd's own port, on loopback alone


def ss(call: Call) -> int:
    """`ss [-Hlntu] ['sport = :PORT']`."""
    options = call.options("Hlntu")
    filtered = re.fullmatch(r"sport = :(\d+)", " ".join(options.operands)) if options.operands else None
    if options.operands and not filtered:
        raise NotSimulated(" ".join(options.operands))
    rows = []
    if "u" in options:
        rows += [("UNCONN", f"127.0.0.1:{_TIME}")]
    if "t" in options or "u" not in options:
        rows += [("LISTEN", f"0.0.0.0:{port}") for port in sorted(call.machine.listening())]
    if "H" not in options:
        call.out("State  Recv-Q Send-Q Local Address:Port Peer Address:Port\n")
    for state, local in rows:
        if filtered is None or local.endswith(f":{filtered[1]}"):
            call.out(f"{state} 0      128    {local} 0.0.0.0:*\n")
    return 0


def nc(call: Call) -> int:
    """`nc -z [-w SECONDS] HOST PORT`: whether somebody listens there."""
    options = call.options("zv", "w")
    if "z" not in options:
        raise NotSimulated("anything but -z")
    if len(options.operands) != 2 or not options.operands[1].isdigit():
        raise Failed("a host and a port are needed")
    return 0 if call.machine.reaches(options.operands[0], int(options.operands[1])) else 1
