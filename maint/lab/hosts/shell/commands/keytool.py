"""keytool -list over a Java keystore of the host."""

from maint.lab.hosts.shell.call import Call, Failed, NotSimulated
from maint.lab.hosts.shell.streams import decode

_VALUED = ("-keystore", "-storepass", "-storepass:file", "-storepass:env", "-storetype", "-alias")


def keytool(call: Call) -> int:
    """`keytool -list -keystore FILE [-storepass:file F | -storepass:env N | -storepass P] [-alias A] [-v]`.

    Without a password option the first line of standard input is the password.
    """
    given = _given(call)
    if "-list" not in given:
        raise NotSimulated("anything but -list")
    path = given.get("-keystore", "/root/.keystore")
    if not call.files.exists(call.path(path)):
        return _error(call, f"java.lang.Exception: Keystore file does not exist: {path}")
    aliases = call.machine.keystore_opens(call.files.read(call.path(path)), _password(call, given))
    if aliases is None:
        return _error(call, "java.io.IOException: keystore password was incorrect")
    wanted = given.get("-alias")
    if wanted is not None and wanted not in aliases:
        return _error(call, f"java.lang.Exception: Alias <{wanted}> does not exist")
    call.out(f"Keystore type: JKS\nKeystore provider: SUN\n\nYour keystore contains {len(aliases)} entries\n\n")
    call.out("".join(f"{alias}, trustedCertEntry,\n" for alias in aliases if wanted in (None, alias)))
    return 0


def _given(call: Call) -> dict[str, str]:
    given, rest = dict[str, str](), list(call.args)
    while rest:
        name = rest.pop(0)
        if name in ("-list", "-v", "-noprompt", "-rfc"):
            given[name] = ""
        elif name in _VALUED and rest:
            given[name] = rest.pop(0)
        else:
            raise NotSimulated(f"option {name}")
    return given


def _password(call: Call, given: dict[str, str]) -> str:
    if "-storepass" in given:
        return given["-storepass"]
    if "-storepass:env" in given:
        return call.state.environment().get(given["-storepass:env"], "")
    if "-storepass:file" in given:
        try:
            data = call.open(given["-storepass:file"]).readline()
        except OSError:
            raise Failed(f"Cannot find file {given['-storepass:file']}") from None
    else:
        call.stderr.write(b"Enter keystore password:  ")
        data = call.stdin.readline()
    return decode(data).rstrip("\r\n")


def _error(call: Call, text: str) -> int:
    call.out(f"keytool error: {text}\n")
    return 1
