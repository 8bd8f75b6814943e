"""What a login script prints before a command begins, such as a greeting with the time of day, is no answer."""

from maint.cli.open_site import opened
from maint.cli.options import Flags
from maint.snapshots.parts import MANAGER_FILES
from maint.steps.manager.server import invocations
from tests.steps.hosts.test_check import FIRST


def test_a_greeting_that_changes_passes_for_no_restart_of_the_server(loaded):
    loaded.lab.break_(FIRST, "banner-junk")
    with opened(Flags(config=loaded.config)) as (site, _):
        first = invocations(site)
        assert (first, "watched" in str(first), "InvocationID=" in str(first)) == (invocations(site), False, True)


def test_a_greeting_costs_a_backup_no_part(loaded):
    loaded.lab.break_(FIRST, "banner-junk")
    assert loaded("backup", "create", "--open-window", "--yes").code == 0
    newest = loaded("backup", "list", "-o", "json").json["snapshots"][-1]
    assert MANAGER_FILES in {part["name"] for part in newest["parts"]}


def test_nothing_that_is_streamed_or_read_begins_with_a_greeting(loaded):
    (loaded.lab.folder / "hosts" / FIRST / "root/etc/motto").write_text("for ever\n")
    loaded.lab.break_(FIRST, "banner-junk")
    with opened(Flags(config=loaded.config)) as (site, _):
        assert site.shell.read_file(FIRST, "/etc/motto") == b"for ever\n"
        assert site.shell.ask(FIRST, "exec /bin/sh -s", stdin=b"cat /etc/motto").out == b"for ever\n"
        with site.shell.stream(FIRST, "cat < /etc/motto") as answer:
            assert answer.read() == b"for ever\n"
