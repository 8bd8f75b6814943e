"""pg_dump, as the host of a manager has it: the manager's own database, and who is let in."""

from maint.lab.hosts.shell.call import Call, Failed

_PROPERTIES = "/etc/cloudera-scm-server/db.properties"


def pg_dump(call: Call) -> int:
    """`PGPASSFILE=FILE pg_dump --no-password --host=H --port=P --username=USER DATABASE`."""
    options = call.options(long=("no-password", "host=", "port=", "username="))
    name = " ".join(options.operands)
    known = _settings(call)
    if words := call.machine.fact("database_refuses"):
        raise Failed(f"error: {words}")
    given = call.state.environment().get("PGPASSFILE", "")
    if not given or call.files.entry(call.path(given)).mode & 0o077:
        raise Failed("error: fe_sendauth: no password supplied")
    entry = call.files.read(call.path(given)).decode().rstrip("\n").removeprefix("*:*:*:*:")
    password = entry.replace("\\:", ":").replace("\\\\", "\\")
    if (options.get("username"), password) != (known.get("user"), known.get("password")):
        raise Failed(f'error: FATAL:  password authentication failed for user "{options.get("username")}"')
    if name != known.get("name"):
        raise Failed(f'error: FATAL:  database "{name}" does not exist')
    call.out("--\n-- PostgreSQL database dump\n--\n\nCREATE TABLE public.cm_version (guid text);\n")
    call.out("--\n-- PostgreSQL database dump complete\n--\n\n")
    return 0


def _settings(call: Call) -> dict[str, str]:
    lines = call.files.read(_PROPERTIES).decode().splitlines()
    pairs = (line.removeprefix("com.cloudera.cmf.db.").partition("=") for line in lines)
    return {name: value for name, _, value in pairs}
