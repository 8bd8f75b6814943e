"""`maint backup`: create, list, show, verify."""

from typing import Annotated

import typer

from maint.cli.connection_options import ELSEWHERE, MANAGER, STORE
from maint.cli.flags import Flags, command

group = typer.Typer(no_args_is_help=True, help="Snapshots of the site's configuration.")


@command(group, "create")
def create(
    flags: Flags,
    open_window: Annotated[bool, typer.Option("--open-window", help="Switch redaction off for the export.")] = False,
    accept_empty: Annotated[
        bool, typer.Option("--accept-empty", help="Virtual clusters hold what is found, however little it is.")
    ] = False,
) -> int:
    """Take a snapshot: as the server gives it, or through the redaction window."""
    from maint.cli.open_site import settings_of
    from maint.cli.run_playbook import carry_out

    backup = settings_of(flags).site().backup
    through = open_window or (backup is not None and backup.on_redacted == "window")
    return carry_out(flags, "export-unredacted" if through else "export", {"accept_empty": accept_empty})


@command(group, "list", STORE)
def list_snapshots(
    flags: Flags,
    rebuild: Annotated[
        bool, typer.Option("--rebuild", help="Read every stored byte again, and keep what was found.")
    ] = False,
) -> None:
    """List the site's snapshots, the newest last, with holds and the age of the last verified success.

    The list is always read from the store: manifests and signed records, nothing else. --rebuild also reads every
    part, holds it against its manifest, and writes a new signed record for each snapshot.
    """
    from maint.cli.backup.retention import rebuild as rebuild_list
    from maint.cli.backup.retention import show_list
    from maint.cli.open_site import opened

    with opened(flags) as (site, screen):
        (rebuild_list if rebuild else show_list)(site, screen)


@command(group, "show", STORE)
def show(flags: Flags, snapshot: Annotated[str, typer.Argument(help="Its id or the beginning of it.")]) -> None:
    """Show what a snapshot holds, how it was judged, and what it does not cover."""
    from maint.cli.backup.snapshots import described
    from maint.cli.open_site import opened
    from maint.snapshots.catalogue import find

    with opened(flags) as (site, screen):
        data, text = described(find(site, snapshot))
        screen.emit({"snapshot": data}, text)


@command(group, "verify", MANAGER)
def verify(
    flags: Flags,
    snapshot: Annotated[str, typer.Argument(help="Its id or the beginning of it; else the newest.")] = "",
    level: Annotated[
        int | None,
        typer.Option("--level", min=1, max=4, help="1 bytes, 2 contents, 3 restorability, 4 drill; else 3 at most."),
    ] = None,
) -> int:
    """Verify a snapshot and keep the result; unreadable means failed."""
    from maint.cli.backup.snapshots import verified
    from maint.cli.open_site import opened

    # What a machine without a config finds is signed by a key that nobody else trusts, so it is told and not kept.
    bare = flags.way.is_bare
    deepest = 2 if bare and not flags.way.password else 3  # level 3 asks whether the manager's password fits
    if level == 4:
        from maint.cli.backup.drill import run

        return run(flags, snapshot, [])
    with opened(flags) as (site, screen):
        return verified(site, screen, snapshot, level or deepest, keep=not bare)


@command(group, "hold")
def hold(
    flags: Flags,
    snapshot: Annotated[str, typer.Argument(help="Its id or the beginning of it.")],
    reason: Annotated[str, typer.Option("--reason", help="Why.")],
    until: Annotated[str, typer.Option("--until", help="Last day of the hold, such as 2027-06-30.")] = "",
) -> int:
    """Keep a snapshot from being pruned, until a day or until it is released."""
    from maint.cli.run_playbook import carry_out

    return carry_out(flags, "hold", {"snapshot": snapshot, "reason": reason, "until": until})


@command(group, "release")
def release(
    flags: Flags,
    snapshot: Annotated[str, typer.Argument(help="Its id or the beginning of it.")],
    reason: Annotated[str, typer.Option("--reason", help="Why.")],
) -> int:
    """End all holds of a snapshot."""
    from maint.cli.run_playbook import carry_out

    return carry_out(flags, "release", {"snapshot": snapshot, "reason": reason})


@command(group, "prune", ELSEWHERE)
def prune(
    flags: Flags,
    thaw: Annotated[str, typer.Option("--thaw", help="Why a doubtful backup or unfinished restore is no reason.")] = "",
    damaged: Annotated[bool, typer.Option("--damaged", help="Let old snapshots go that cannot be believed.")] = False,
) -> int:
    """Remove the snapshots that neither policy, nor floor, nor a hold keeps; tells the reason for each."""
    from maint.cli.backup.retention import prune as prune_snapshots

    return prune_snapshots(flags, thaw, damaged)


_Redacted = Annotated[bool, typer.Option("--redacted", help="Compare redacted copies, even where the key is at hand.")]
_ExitCode = Annotated[bool, typer.Option("--exit-code", help="Exit 8 when there are differences.")]


@command(group, "diff", outputs=("text",))
def diff(
    flags: Flags,
    first: Annotated[str, typer.Argument(help="The id of the first snapshot, or its beginning.")],
    second: Annotated[str, typer.Argument(help="The id of the second.")],
    redacted: _Redacted = False,
    exit_code: _ExitCode = False,
) -> int:
    """Show what differs between two snapshots: by cluster, service, role group and property; order does not matter."""
    from maint.cli.backup.diff import diff as show_differences

    return show_differences(flags, first, second, redacted, exit_code)


@command(group, "drift", outputs=("text",))
def drift(
    flags: Flags,
    snapshot: Annotated[str, typer.Argument(help="Its id or the beginning of it; else the newest.")] = "",
    redacted: _Redacted = False,
    exit_code: _ExitCode = False,
) -> int:
    """Show what has changed on the live manager since a snapshot."""
    from maint.cli.backup.diff import drift as show_drift

    return show_drift(flags, snapshot, redacted, exit_code)


@command(group, "heal")
def heal(
    flags: Flags,
    snapshot: Annotated[str, typer.Argument(help="The redacted snapshot: its id or the beginning of it.")],
    source: Annotated[str, typer.Option("--from", help="An older snapshot that is not redacted.")] = "",
    secrets: Annotated[str, typer.Option("--secrets", help="A file of paths and references, 0600.")] = "",
    purpose: Annotated[str, typer.Option("--purpose", help="backup or safety.")] = "backup",
) -> int:
    """Fill the secrets that a redacted snapshot lacks, and keep the result as a snapshot of its own."""
    from maint.cli.backup.heal import run

    return run(flags, snapshot, source, secrets, purpose)


@command(group, "drill")
def drill(
    flags: Flags,
    snapshot: Annotated[str, typer.Argument(help="Its id or the beginning of it; else the newest restorable.")] = "",
    switch: Annotated[
        list[str] | None, typer.Option("--switch", help="NAME=VALUE: a behaviour of the throw-away manager.")
    ] = None,
) -> int:
    """Rehearse a restore in a throw-away manager: send, restart, read back, compare, measure, and keep the evidence."""
    from maint.cli.backup.drill import run

    return run(flags, snapshot, list(switch or ()))


@command(group, "files")
def files(
    flags: Flags,
    snapshot: Annotated[str, typer.Argument(help="Its id or the beginning of it.")],
    extract: Annotated[str, typer.Option("--extract", help="Take out the file that lay here on the host.")] = "",
    to: Annotated[str, typer.Option("--to", help="Write it to this new file, 0600.")] = "",
) -> None:
    """List the manager's own files that a snapshot keeps, or take one out, such as the GUID."""
    from maint.cli.backup.files import run

    run(flags, snapshot, extract, to)
