"""`maint vc init` and `maint vc init-user`: a virtual cluster's certificate, and its users' Kerberos secrets."""

from typing import Annotated

import typer

from maint.cli.flags import Flags, command
from maint.cli.vc.select import chosen

Name = Annotated[str, typer.Argument(help="The virtual cluster as the config names it.")]


def add_to(group: typer.Typer) -> None:
    """Register the commands on the noun."""
    command(group, "init")(init)
    command(group, "init-user")(init_user)


def init(
    flags: Flags,
    name: Name,
    renew: Annotated[
        bool, typer.Option("--renew", help="Without a configured certificate: make a new one although one is good.")
    ] = False,
) -> int:
    """Give a virtual cluster its certificate; without a configured one, asks for the virtual cluster's name."""
    from maint.cli.run_playbook import carry_out

    return carry_out(flags, "init-virtual-cluster", {"vc": chosen(name), "renew": renew})


def init_user(
    flags: Flags, name: Name, user: Annotated[str, typer.Argument(help="The user, from `users:` of the config.")]
) -> int:
    """Give a user of a virtual cluster its Kerberos secrets: the old ones or the new ones, never none."""
    from maint.cli.run_playbook import carry_out

    return carry_out(flags, "init-user", {"vc": chosen(name), "user": user})
