"""The flags that say where a store and a manager are, for one command or where there is no config at all."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Annotated, Any

import typer


@dataclass(frozen=True, slots=True)
class Way:
    """What the operator said of store and manager; empty is "not said"."""

    store: str = ""
    signed_by: tuple[str, ...] = ()
    identity: str = ""
    s3: tuple[str, ...] = ()
    ssh_key: str = ""
    ssh_user: str = ""
    ssh_port: int = 0
    known_hosts: str = ""
    manager: str = ""
    username: str = ""
    password: str = ""
    bootstrap: str = ""
    ca: str = ""
    license: str = ""

    @property
    def is_bare(self) -> bool:
        """Whether it stands for a config; a store alone is read as the config says."""
        return any(getattr(self, field.name) for field in fields(self) if field.name != "store")


Options = Mapping[str, tuple[object, object]]

NOTHING: Options = {}
STORE: Options = {
    "store": (Annotated[str, typer.Option("--store", help="The store to read, instead of the config's.")], ""),
    "signed_by": (
        Annotated[list[str] | None, typer.Option("--signed-by", help="Without a config: whose signatures to believe.")],
        None,
    ),
    "identity": (Annotated[str, typer.Option("--identity", help="Without a config: the private key, file:PATH.")], ""),
    "s3": (
        Annotated[
            list[str] | None, typer.Option("--s3", help="Without a config: NAME=VALUE as under backup.s3; repeatable.")
        ],
        None,
    ),
    "ssh_key": (Annotated[str, typer.Option("--ssh-key", help="Without a config: SSH key for hosts and store.")], ""),
    "ssh_user": (Annotated[str, typer.Option("--ssh-user", help="Without a config: SSH account; root.")], ""),
    "ssh_port": (Annotated[int, typer.Option("--ssh-port", help="Without a config: SSH port of the hosts; 22.")], 0),
    "known_hosts": (Annotated[str, typer.Option("--known-hosts", help="Without a config: trusted host keys.")], ""),
}
MANAGER: Options = {
    **STORE,
    "manager": (
        Annotated[str, typer.Option("--manager", help="Without a config: HOST, or HOST:PLAIN:TLS with its ports.")],
        "",
    ),
    "username": (Annotated[str, typer.Option("--username", help="Without a config: account; admin.")], ""),
    "password": (
        Annotated[str, typer.Option("--password", help="Without a config: its password as a reference, file:PATH.")],
        "",
    ),
    "bootstrap": (
        Annotated[
            str, typer.Option("--bootstrap", help="Without a config: password of the fresh server, a reference.")
        ],
        "",
    ),
    "ca": (Annotated[str, typer.Option("--ca", help="Without a config: PEM bundle of the TLS port.")], ""),
    "license": (Annotated[str, typer.Option("--license", help="Without a config: the licence file.")], ""),
}
ELSEWHERE: Options = {"store": STORE["store"]}


def taken_from(options: Options, values: dict[str, Any]) -> Way:  # Any: typer hands over whatever the options hold
    """Return what a command was told by these options, taken out of its values."""
    own = {name: values.pop(name) for name in options}
    said: dict[str, Any] = {  # Any: as above; the options and the fields of a Way have the same names
        name: tuple(value) if isinstance(value, list) else value for name, value in own.items() if value
    }
    return Way(**said)
