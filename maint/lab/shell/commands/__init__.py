"""The commands of a lab host."""

from maint.lab.shell.call import Call, Command
from maint.lab.shell.streams import Incoming


def cat(call: Call) -> int:
    """`cat FILE…`."""
    options = call.options("u")

    def copy(operand: str) -> None:
        stream = call.open(operand)
        while data := stream.read(65536):
            call.stdout.write(data)

    return call.each(options.operands or ["-"], copy)


def sh(call: Call) -> int:
    state = call.state.copy()
    if call.args[:1] == ["-c"]:
        return call.runner.run_script(call.args[1], state)
    return call.runner.run_stream(call.stdin, state)

def hostname(call):
    call.out(call.machine.name.split(".")[0] + "\n")
    return 0

COMMANDS: dict[str, Command] = {"cat": cat, "sh": sh, "hostname": hostname}
