"""The scripts that hosts are given: templates, filled in, for the `/bin/sh` of a host to read from its input."""

from maint.render import from_file

SHELL = "exec /bin/sh -s"
_BEFORE = "LC_ALL=C; export LC_ALL\nPATH=$PATH:/usr/sbin:/sbin:/usr/local/sbin; export PATH\n"


def script(name: str, **values: object) -> bytes:
    """Return a script.

    Args:
        name: of the template, without `.sh.j2`.
        values: what it may use.
    """
    return f"{_BEFORE}{from_file(f'{name}.sh.j2', values)}".encode("utf-8", "surrogateescape")
