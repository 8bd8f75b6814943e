"""What the source keeps to: imports point down, every library has one home, modules and functions are small and say
what they are for, and whoever catches a failure and goes on lets pass what stops everything: a signal, a passed limit.
"""

import ast
from collections import Counter
from collections.abc import Iterator
from functools import cache

import pytest

from tests.house.count import late_imports
from tests.house.source import functions, imports, modules, nodes, tree

GROUND = {"errors"}
NOUNS = {*GROUND, "model", "ports", "config", "render", "plugins"}
MAY_IMPORT = {
    "errors": set(),
    "publishing": set(),
    "files": {*GROUND, "publishing", "retry"},
    "retry": GROUND,
    "plugins": GROUND,
    "model": GROUND,
    "ports": {*GROUND, "model", "config"},
    "config": {*GROUND, "files", "model"},
    "render": {*GROUND, "config", "model", "ports"},
    "deployment": NOUNS,
    "snapshots": {*NOUNS, "files", "retry", "deployment"},
    "checks": NOUNS,
    "restore": {*NOUNS, "files", "retry", "deployment", "snapshots"},
    "steps": {*NOUNS, "files", "retry", "deployment", "snapshots", "restore", "checks"},
    "engine": {*NOUNS, "files", "retry", "deployment", "snapshots", "restore", "checks", "steps"},
    "adapters": {*GROUND, "publishing", "files", "retry", "model", "ports", "config", "plugins"},
    "lab": {*GROUND, "files", "model"},
    "report": {*GROUND, "files", "model", "render"},
    "help": set(),
    "airflow": set(),  # it stands by itself: `maint generate airflow --program` prints it into a DAG
}
HTTP = ("maint.adapters.http", "maint.adapters.manager", "maint.adapters.virtual_clusters")
HOMES = {
    "requests": (
        "maint.adapters.http",
        "maint.adapters.manager",
        "maint.adapters.virtual_clusters",
        "maint.adapters.notices",
    ),
    "urllib3": ("maint.adapters.http", "maint.adapters.manager", "maint.adapters.virtual_clusters"),
    "fabric": ("maint.adapters.ssh", "maint.lab.hosts.ssh_server"),
    "paramiko": ("maint.adapters.ssh", "maint.lab.hosts.ssh_server"),
    "invoke": ("maint.adapters.ssh",),
    "typer": ("maint.cli",),
    "rich": ("maint.cli.progress",),
    "yaml": ("maint.config.yaml",),
    "jinja2": ("maint.render",),
    "pyrage": ("maint.adapters.seal", "maint.lab.pki"),
    "zstandard": ("maint.adapters.seal",),
    "cryptography": ("maint.adapters.sign", "maint.lab.pki"),
    "vl_convert": ("maint.report.pages",),
    "airflow": ("maint.airflow",),
    "botocore": ("maint.adapters.stores.s3", "maint.adapters.stores.s3_wire"),
}


def room(module: str) -> str:
    """Return the room of the house that a module lives in."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else ""


def ours(module: str) -> set[str]:
    """Return what a module imports of the package."""
    return {name for name in imports(modules()[module]) if name.startswith("maint.")}


def reaching(astray: dict[str, set[str]]) -> list[str]:
    """Return in words which modules import what they may not."""
    return [f"{module} reaches up or sideways to {where}" for module, where in astray.items() if where]


def test_imports_point_down() -> None:
    astray = {}
    for module in (name for name in modules() if room(name) not in ("", "cli", "__main__")):
        rooms = {room(name) for name in ours(module) if name != "maint.__version__"}
        astray[module] = rooms - MAY_IMPORT[room(module)] - {room(module)}
    assert reaching(astray) == [], "what both need belongs in a room below both, as a record, a port or an argument"


# The lab in parts: the ground that all stand on, the manager by itself, hosts, what runs on them, and the whole.
LAB_GROUND = {"faults", "files", "http", "pki", "switches"}
LAB_MAY_IMPORT = {
    **dict.fromkeys(LAB_GROUND, LAB_GROUND),
    "manager": LAB_GROUND,
    "hosts": {*LAB_GROUND, "manager"},
    "virtual_clusters": {*LAB_GROUND, "manager", "hosts"},
}


def lab_part(module: str) -> str:
    """Return the part of the lab that a module belongs to."""
    return module.split(".")[2] if module.count(".") >= 2 else ""


def test_parts_of_the_lab_import_downwards_and_its_manager_stands_by_itself() -> None:
    astray = {}
    for module in (name for name in modules() if name.startswith("maint.lab.") and lab_part(name) in LAB_MAY_IMPORT):
        parts = {lab_part(name) for name in ours(module) if name.startswith("maint.lab.")}
        astray[module] = parts - LAB_MAY_IMPORT[lab_part(module)] - {lab_part(module)}
    assert reaching(astray) == [], "what both need belongs on the ground; what only the whole knows, it lends a part"


def test_every_library_is_used_in_its_home_only() -> None:
    astray = [
        f"{module} imports {name}, whose home is {homes}"
        for module, path in modules().items()
        for name in imports(path)
        if (homes := HOMES.get(name.split(".")[0])) and not module.startswith(homes)
    ]
    assert astray == [], "reach it through the room of its home, or its port"


def test_no_import_goes_round_in_a_circle() -> None:
    known = modules()

    @cache
    def targets(module: str) -> frozenset[str]:
        return frozenset(name for name in imports(known[module]) if name in known and name != module)

    def visit(module: str, trail: tuple[str, ...]) -> None:
        assert module not in trail, " → ".join((*trail, module))
        if module not in seen:
            for target in targets(module):
                visit(target, (*trail, module))
            seen.add(module)

    seen: set[str] = set()
    for module in known:
        visit(module, ())


def test_only_the_screen_prints() -> None:
    for name, path in modules().items():
        called = (node.func for node in nodes(path) if isinstance(node, ast.Call))
        calls = [one for one in called if isinstance(one, ast.Name) and one.id == "print"]
        assert not calls or name == "maint.cli.screen", f"{name} prints: give the words to a `Screen`, or yield them"


# Who opens files for writing, and why `maint/files.py` does not do it.
WRITERS = {
    "maint.adapters.stores.local": "a part of a snapshot is a stream",
    "maint.airflow.hook": "it stands by itself",
    "maint.cli.backup.drill": "a throw-away folder",
    "maint.cli.boundary": "the report of a crash, whatever else is broken",
    "maint.cli.playbooks.commands": "a formatter of Typer, no file",
    "maint.cli.open_site": "the terminal",
    "maint.cli.screen": "what nobody reads any more",
    "maint.cli.start": "the streams of the process",
    "maint.cli.packaging": "a throw-away folder",
    "maint.engine.journal": "lines are added to a file",
    "maint.engine.lock": "a lock is an open file",
    "maint.files": "",
}


def test_files_are_written_in_one_place_and_each_other_one_has_its_reason() -> None:
    def writes(node: ast.AST) -> bool:
        if isinstance(node, ast.Attribute):
            return node.attr in ("write_text", "write_bytes", "O_WRONLY", "O_RDWR", "O_CREAT", "O_APPEND")
        if not isinstance(node, ast.Call) or ast.unparse(node.func).rpartition(".")[2] not in ("open", "fdopen"):
            return False
        modes = [one.value for one in node.args[:2] if isinstance(one, ast.Constant) and isinstance(one.value, str)]
        return any(set(mode) <= set("rwaxbt+") and not {"r"} >= set(mode) - set("bt") for mode in modes)

    found = {name for name, path in modules().items() if any(map(writes, nodes(path)))}
    ours = {name for name in found if not name.startswith("maint.lab")}
    assert ours - WRITERS.keys() == set(), "write by `maint/files.py`, else say in WRITERS why that does not do"
    assert WRITERS.keys() - ours == set(), "these write no file any more"


def test_no_python_that_is_started_imports_what_lies_in_the_working_folder() -> None:
    each = ((name, node) for name, path in modules().items() for node in nodes(path))
    rows = [
        (name, [ast.unparse(one) for one in node.elts]) for name, node in each if isinstance(node, ast.List | ast.Tuple)
    ]
    started = [(name, row) for name, row in rows if "sys.executable" in row and "'-m'" in row]
    assert len(started) > 3
    assert [name for name, row in started if "'-P'" not in row] == []


# -- small modules, small functions, a sentence on top of each, and no drawer for odds and ends


def test_no_module_is_long() -> None:
    lengths = {name: len(path.read_text().splitlines()) for name, path in modules().items()}
    long = {name: length for name, length in lengths.items() if length > 500}
    assert long == {}, "move one of its subjects into the module of that subject, or into one of its own"


def test_the_product_has_few_files() -> None:
    assert len(modules()) <= 380, "put it into the module of its subject, or merge two that belong together"


def test_no_folder_holds_more_files_than_a_reader_takes_in() -> None:
    folders = Counter(path.parent for path in modules().values())
    full = {str(folder): count for folder, count in folders.items() if count > 25}
    assert full == {}, "put it into the module of its subject, or what belongs together into a folder within"


def test_no_function_is_long() -> None:
    lengths = {f"{name}.{function}": lines for name, path in modules().items() for function, lines in functions(path)}
    assert {name: lines for name, lines in lengths.items() if lines > 60} == {}, "give a part of it a name of its own"


def test_few_modules_are_imported_late() -> None:
    late = {name: late_imports(path) for name, path in modules().items()}
    assert sum(late.values()) <= 80, f"import it at the top of its module; these are imported late: {+Counter(late)}"


def test_every_module_says_on_top_what_it_is_for() -> None:
    tops = {name: (ast.get_docstring(tree(path)) or "").split("\n")[0] for name, path in modules().items()}
    silent = [name for name, top in tops.items() if not top.endswith((".", ":", "?"))]
    assert silent == [], "open it with one sentence, on one line"


def test_no_module_is_a_drawer_for_odds_and_ends() -> None:
    assert [name for name in modules() if name.split(".")[-1] in ("utils", "common", "helpers", "base", "misc")] == []


def test_every_public_function_and_class_is_documented() -> None:
    missing = []
    for name, path in modules().items():
        for node in tree(path).body:
            if not isinstance(node, ast.FunctionDef | ast.ClassDef) or node.name.startswith("_"):
                continue
            # A port is what its adapters and its callers agree on, so each of its methods says what it is.
            inside = node.body if name.startswith("maint.ports") and isinstance(node, ast.ClassDef) else []
            methods = [one for one in inside if isinstance(one, ast.FunctionDef) and not one.name.startswith("_")]
            missing += [f"{name}.{one.name}" for one in (node, *methods) if ast.get_docstring(one) is None]
    assert missing == []


# -- stops

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
