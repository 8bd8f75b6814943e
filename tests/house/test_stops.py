"""Whoever catches a failure and goes on lets pass what stops everything: a signal, and a limit that has passed."""

import ast
from collections.abc import Iterator

import pytest

from tests.house.source import modules, tree

_WIDE = {"MaintError", "Exception"}  # what a stop is, too
# Who takes a stop as well, and why none is lost.
TAKE_STOPS = {
    "maint.adapters.notices.NoticeSender._told": "nobody else is told, and the command ends where it insists",
    "maint.adapters.seal._decrypt": "what a call of ours raised is raised again",
    "maint.adapters.seal._encrypt": "what a call of ours raised is raised again",
    "maint.adapters.ssh.shell.FabricFleet._visit": "in a thread, where none strikes",
    "maint.adapters.ssh.shell._presented": "in a thread, where none strikes",
    "maint.cli.after_run.followed": "raised again once its end is told",
    "maint.cli.after_run.tell_age": "all but the limit that it has set itself",
    "maint.cli.boundary.guarded": "the end of every command",
    "maint.cli.command.LazyGroup.main": "before a command begins, and told as at its end",
    "maint.cli.completion.names.main": "where a signal ends the process",
    "maint.cli.hosts.check._carry_out": "a plugin's every end is a status",
    "maint.cli.playbooks.commands.WithParameters.format_options": "where a signal ends the process",
    "maint.cli.playbooks.test.perform": "a limit is the playbook's own, which is what a test looks at",
    "maint.cli.run_playbook._follow": "raised again once the run's report is written",
    "maint.cli.run_playbook._watch": "thrown into the run, which ends by it",
    "maint.cli.start.main": "where a signal ends the process",
    "maint.engine.lease.Lease._beat": "in a thread, where none strikes",
    "maint.engine.run.Runner._after": "handed on once what puts things back is done",
    "maint.engine.run.Runner._on_hosts": "raised again where it does not name hosts that failed",
    "maint.engine.run.Runner.events": "raised again once what puts things back is done",
    "maint.engine.session.RunSession._run": "raised again once the run's end is told",
}


def _names(node: ast.expr | None) -> set[str]:
    return {one.id for one in ast.walk(node) if isinstance(one, ast.Name)} if node else {"BaseException"}


def _raises_again(handler: ast.ExceptHandler) -> bool:
    return isinstance(last := handler.body[-1], ast.Raise) and last.exc is None


def _swallowing(node: ast.AST, where: str) -> Iterator[str]:
    """Yield the places, as module and function, that catch a stop and do not surely raise it again."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        where = f"{where}.{node.name}"
    if isinstance(node, ast.FunctionDef) and node.name == "__exit__":
        asked = {one.id for line in node.body for one in ast.walk(line) if isinstance(one, ast.Name)}
        if asked & _WIDE and "Stopped" not in asked:
            yield where
    if isinstance(node, ast.Call) and _names(node.func) == {"suppress"}:
        yield from (where for one in node.args if _names(one) & _WIDE)
    for handler in node.handlers if isinstance(node, ast.Try) else ():
        if "Stopped" in _names(handler.type) and _raises_again(handler):
            break
        if _names(handler.type) & _WIDE and not _raises_again(handler):
            yield where
    for child in ast.iter_child_nodes(node):
        yield from _swallowing(child, where)


def test_a_stop_ends_whatever_is_under_way() -> None:
    ours = {name: path for name, path in modules().items() if not name.startswith("maint.lab")}  # servers of their own
    found = {place for name, path in ours.items() for place in _swallowing(tree(path), name)}
    assert found - TAKE_STOPS.keys() == set(), "catch `Failure`, of which `Stopped` is none"
    assert TAKE_STOPS.keys() - found == set(), "these take none any more"


@pytest.mark.parametrize(
    ("text", "loses"),
    [
        ("try: f()\nexcept MaintError: pass", True),
        ("try: f()\nexcept (OSError, MaintError): g()", True),
        ("with suppress(OSError, MaintError): f()", True),
        ("try: f()\nexcept MaintError as error: raise WorkFailed('x') from error", True),
        ("try: f()\nexcept Stopped: g()\nexcept MaintError: pass", True),
        ("try: f()\nexcept Stopped: raise\nexcept MaintError: pass", False),
        ("try: f()\nexcept Failure: pass", False),
        ("try: f()\nexcept MaintError:\n    g()\n    raise", False),
        ("with suppress(OSError): f()", False),
        ("def __exit__(self, kind, error, trace):\n if isinstance(error, Exception): raise WorkFailed('x')", True),
        ("def __exit__(self, kind, error: Exception, trace): self.close()", False),
    ],
)
def test_the_rule_sees_who_loses_a_stop(text: str, loses: bool) -> None:
    assert bool([*_swallowing(ast.parse(text), "x")]) is loses
