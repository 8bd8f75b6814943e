"""A short command loads little: most of its time is spent on importing."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.house.source import ROOT

PROGRAM = """
import os, sys
from maint.cli.start import main
os._exit = sys.exit  # as which a command ends
try:
    main()
except SystemExit:
    pass
print(*sys.modules, file=open({found!r}, "w"))
"""
CONFIG = """
sites:
  prod:
    manager: {{host: 127.0.0.1, plain_port: 1, tls_port: 2, password: "env:PASSWORD"}}
    backup: {{store: {folder}/store, identity: "env:IDENTITY"}}
"""
# Command → how many modules it may load beyond those that `import typer` loads; as measured, and a tenth more;
# `playbook lint` less: shipped playbooks are checked without Jinja2, which is 26.
STARTS = {"--version": 55, "--help": 55, "backup --help": 172, "backup list": 275, "playbook lint": 340}
_OF_PYTHON = 5 if sys.version_info >= (3, 13) else 0  # modules more, into which its own library was divided


def loaded(program: str, words: list[str], folder: Path) -> set[str]:
    """Run a program in a process of its own, and return which modules it ended with."""
    config, found = folder / "config.yaml", folder / "modules"
    config.write_text(CONFIG.format(folder=folder))
    environ = {**os.environ, "MAINT_CONFIG": str(config), "PASSWORD": "x", "IDENTITY": "x", "HOME": str(folder)}
    called = [sys.executable, "-c", program.format(found=str(found)), *words]
    subprocess.run(called, env=environ, capture_output=True, check=True, timeout=60)
    return set(found.read_text().split())


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """The modules that `import typer` loads."""
    program = "import sys, typer\nprint(*sys.modules, file=open({found!r}, 'w'))"
    return loaded(program, [], tmp_path_factory.mktemp("plain"))


@pytest.mark.parametrize("command", list(STARTS))
def test_a_short_command_loads_few_modules(command: str, plain: set[str], tmp_path: Path) -> None:
    found = loaded(PROGRAM, command.split(), tmp_path)
    assert found & {"jinja2", "ssl", "concurrent.futures"} == set(), "what is needed to act, and not to look"
    assert len(found) - len(plain) <= STARTS[command] + _OF_PYTHON


def test_a_playbook_whose_list_of_names_holds_a_parameter_is_checked_without_jinja2(tmp_path: Path) -> None:
    text = """\
name: mine
summary: Mine.
parameters:
  group: {type: string, help: A group, default: ecs}
steps:
  - name: look
    do: host.run
    with: {groups: ["{{ group }}"], command: "true"}
"""
    (tmp_path / "mine.yaml").write_text(text)
    assert "jinja2" not in loaded(PROGRAM, ["playbook", "lint", str(tmp_path / "mine.yaml")], tmp_path)


def test_a_core_dump_is_never_written_and_keys_of_connections_nowhere() -> None:
    program = (
        "import os, resource, sys; sys.argv = ['maint', 'version']; os._exit = sys.exit\n"
        "from maint.cli.start import main\n"
        "try: main()\n"
        "finally:\n"
        "    import urllib3.util\n"
        "    print(resource.getrlimit(resource.RLIMIT_CORE))\n"
        "    print(urllib3.util.ssl_.create_urllib3_context().keylog_filename)"
    )
    env = {**os.environ, "SSLKEYLOGFILE": "/dev/null"}
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=env)
    assert ended.stdout.endswith("(0, 0)\nNone\n")


def test_the_package_runs_as_a_program() -> None:
    words = [sys.executable, "-m", "maint", "--version"]
    ended = subprocess.run(words, capture_output=True, text=True, check=True)
    assert ended.stdout.startswith("maint ")


@pytest.mark.parametrize(
    ("command", "code", "words"),
    [
        ("{maint} version > /dev/full", 1, "standard output cannot be written: No space left on device"),
        ("{maint} playbook list -o json > /dev/full", 1, "standard output cannot be written"),
        ("{maint} backup --help > /dev/full", 1, "standard output cannot be written"),
        ("{maint} -o json --version > /dev/full", 1, '"error": {"message": "standard output cannot be written'),
        ("{maint} version >&-", 1, "standard output cannot be written: Bad file descriptor"),
        ("{maint} -o json --version >&-", 1, '"hint": "it is closed'),
        ("{maint} version <&- >&- 2>&-", 1, ""),
        ("{maint} version <&- 2>&-", 0, ""),
    ],
)
def test_what_a_full_or_closed_output_does_not_take_is_told_and_no_bug(command: str, code: int, words: str) -> None:
    whole = command.format(maint=f"{sys.executable} -m maint")
    ended = subprocess.run(["sh", "-c", whole], capture_output=True, text=True, check=False)
    assert (ended.returncode, words in ended.stderr, "bug" in ended.stderr) == (code, True, False), ended.stderr


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_output_that_a_disk_takes_half_of_does_not_pass_for_written(tmp_path: Path, unbuffered: str) -> None:
    command = f"ulimit -f 4; exec {sys.executable} -m maint help configuration > {tmp_path / 'half'}"  # KiB
    env = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    ended = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False, env=env)
    assert (tmp_path / "half").stat().st_size == 4096
    assert (ended.returncode, "standard output cannot be written" in ended.stderr) == (1, True), ended.stderr


def test_a_signature_is_checked_without_the_formats_of_other_keys(tmp_path: Path) -> None:
    program = (
        "import sys, pathlib; from maint.adapters.sign import load_or_make_signer as signer\n"
        "made = signer(None, pathlib.Path(sys.argv[1]), [])\n"
        "made.verify(b'x', made.sign(b'x'))\n"
        "print('cryptography.hazmat.primitives.serialization' in sys.modules)"
    )
    words = [sys.executable, "-c", program, str(tmp_path)]
    said = [subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip() for _ in range(2)]
    assert said == ["True", "False"]  # it takes them to make the key, the first time, and never again


def test_what_tests_start_under_nohup_still_hears_a_lost_terminal() -> None:
    """Where SIGHUP is ignored, so it is in all that is started; a test that sends it would wait for ever."""
    inner = "import signal; print(signal.getsignal(signal.SIGHUP).name)"
    begin = "import signal, subprocess, sys; signal.signal(signal.SIGHUP, signal.SIG_IGN)\n"
    start = f"print(subprocess.run([sys.executable, '-c', {inner!r}], capture_output=True, text=True).stdout)"
    heard = [
        subprocess.run(
            [sys.executable, "-c", f"{begin}{tests}\n{start}"], cwd=ROOT, capture_output=True, text=True, check=True
        ).stdout.strip()
        for tests in ("", "import tests.conftest")
    ]
    assert heard == ["SIG_IGN", "SIG_DFL"]
