"""What can be wrong with a lab host, by name."""

from maint.lab.hosts.problems import AILMENTS

HOST_FAULTS: dict[str, str] = {
    "unreachable": "its SSH port is closed",
    "slow": "every command waits two seconds before it begins",
    "hangs-after-login": "login works, commands never answer",
    "dies-mid-command": "the connection breaks in the middle of a command's answer",
    "wrong-key": "it presents another host key than the known one",
    "banner-junk": "it prints a line of junk before each command's answer, as some login scripts do",
    "login-refused": "it lets nobody in",
    "disk-full": "whatever writes fails: No space left on device",
    "clock-skew": "its clock is off by the fact clock_skew (seconds)",
    **AILMENTS,
}
