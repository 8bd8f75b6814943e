"""Imports point down, and every library has one home."""

from functools import cache

from tests.house.source import imports, modules, nodes

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
    import ast

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
    import ast

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
