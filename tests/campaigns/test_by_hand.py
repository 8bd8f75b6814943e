"""RESTORE.txt followed to the letter, with Debian's own tools and nothing of ours."""

import hashlib
import json
import os
import pty
import re
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import requests

from maint.lab.manager.commands import kdc_account

TOOLS = ("age", "zstd", "tar", "curl", "ssh-keygen", "sha256sum", "shred", "ssh")
FIRST = r"(?:umask|age|echo|grep|curl|ssh-keygen|shred|sha256sum) "


def need_tools() -> None:
    """Skip without the tools, or fail where every part must be there."""
    absent = [tool for tool in TOOLS if not shutil.which(tool)]
    if absent and os.environ.get("MAINT_TESTS_NEED_REAL_PARTS"):
        pytest.fail(f"not installed: {', '.join(absent)}")
    if absent:
        pytest.skip(f"not installed: {', '.join(absent)}")


def commands(text: str) -> list[str]:
    """Return the commands that the text tells to type, in order; continued lines and here-documents are one."""
    found: list[str] = []
    lines = iter(text.replace("\\\n", " ").splitlines())
    for line in lines:
        if re.match(rf"(?: {{7}})?{FIRST}", line):
            command = [line.strip()]
            if line.endswith("<<'END'"):
                for more in lines:
                    command.append(more)
                    if more == "END":
                        break
            found.append("\n".join(command))
    return found


class Hands:
    """Somebody who types commands in a folder, and passwords where they are asked for."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.typed: list[str] = []

    def type(self, command: str, password: str = "") -> str:
        """Run one command on a terminal; return what it said. AssertionError when it fails."""
        self.typed.append(command)
        child, terminal = pty.fork()
        if child == 0:
            os.chdir(self.folder)
            os.execvp("bash", ["bash", "-c", f"set -o pipefail; umask 077\n{command}"])
        said, answered = b"", False
        while True:
            try:
                block = os.read(terminal, 65_536)
            except OSError:  # how Linux tells the end of a terminal
                break
            if not block:
                break
            said += block
            if b"assword for user" in said and not answered:
                os.write(terminal, password.encode() + b"\n")
                answered = True
        _, status = os.waitpid(child, 0)
        os.close(terminal)
        assert os.waitstatus_to_exitcode(status) == 0, f"{command}\n{said.decode()}"
        return said.decode()


def restart(operator: Any) -> None:
    """Restart the manager server on its host, as an operator with ssh would."""
    ssh = operator.lab.status()["ssh"]
    options = ["-i", ssh["key"], "-p", str(ssh["port"]), "-o", f"UserKnownHostsFile={ssh['known_hosts']}"]
    words = ["ssh", *options, "-o", "BatchMode=yes", f"{ssh['user']}@{ssh['host']}"]
    subprocess.run([*words, "systemctl restart cloudera-scm-server"], check=True, timeout=60, capture_output=True)
    operator.lab.server.wait()


def export(operator: Any) -> Any:
    """Return the whole deployment with its secrets, as the server has it now."""
    off = 'export CMF_JAVA_OPTS="-Dcom.cloudera.api.redaction=false"\n'
    operator.options.write_text(operator.options.read_text() + off)
    operator.lab.server.restart()
    operator.lab.server.wait()
    at, folder = operator.lab.status()["manager"], operator.lab.folder
    base = at["tls"] if operator.lab.world.tls else at["plain"]
    login = ("admin", (folder / "password").read_text().strip())
    answer = requests.get(f"{base}/api/v49/cm/deployment", auth=login, verify=str(at["ca"]), timeout=30)
    answer.raise_for_status()
    return answer.json()


@pytest.fixture
def hands(lost: Any, tmp_path: Path) -> Hands:
    """Somebody beside a copy of a snapshot, with the key, the signer's line and the CA: what was kept elsewhere."""
    need_tools()
    (snapshot,) = [path.parent for path in (lost.lab.folder / "backups").glob("*/*/manifest.json")]
    folder = tmp_path / "by-hand"
    shutil.copytree(snapshot, folder)
    shutil.copy(lost.lab.folder / "identity", folder / "identity")
    shutil.copy(lost.lab.folder / "ca/bundle.pem", folder / "manager-ca.pem")
    line = (lost.state / "keys/signing.pub").read_text().rsplit(" ", 1)[0]
    (folder / "allowed").write_text(f"maint {line}\n")
    return Hands(folder)


def told(hands: Hands) -> list[str]:
    """Return the commands for the manager; tests/snapshots/virtual_clusters types those for virtual clusters."""
    found = commands((hands.folder / "RESTORE.txt").read_text())
    return [one for one in found if not re.search(r"\b(NAME|SIGNATURE|SERVICEID|USER|job|resource|token)\b", one)]


def carry_out(hands: Hands, operator: Any) -> bytes:
    """Type everything that the text tells, in its order; return the document as it was before it is shredded."""
    recovered = b""
    new = (operator.lab.folder / "password").read_text().strip()
    old = (operator.lab.folder / "bootstrap-password").read_text().strip()
    for command in told(hands):
        if "-C /" in command:  # this machine is not the manager's host
            (hands.folder / "tree").mkdir()
            command = command.replace("-C /", "-C tree")
        if "shred" in command:
            recovered = (hands.folder / "deployment.json").read_bytes()
        if "--cacert" in command and "/api/version" in command:
            restart(operator)
        if "-K kdc" in command:
            text = (hands.folder / "RESTORE.txt").read_text()
            (address,) = re.findall(r"https://\S+/importAdminCredentials", text)
            name, kdc = kdc_account(operator.lab.world.settings)
            (hands.folder / "kdc").write_text(f'url = "{address}?username={quote(name, safe="")}&password={kdc}"\n')
        said = hands.type(command, new if "--cacert" in command else old)
        if "-K kdc" in command or "/cm/commands/" in command:
            see_it_succeed(hands, command, said, new)
    return recovered


def see_it_succeed(hands: Hands, command: str, said: str, password: str) -> None:
    """Ask for the command with which the server answered until that has succeeded, as the text says."""
    (api,) = re.findall(r"(https://\S+)/cm/commands/importAdminCredentials", (hands.folder / "RESTORE.txt").read_text())
    number, account = re.findall(r'"id" : (\d+)', said)[0], re.findall(r"-u \S+", command)[0]
    look = f"curl -fsS {account} --cacert manager-ca.pem {api}/commands/{number}"
    while '"success" : true' not in (now := hands.type(look, password)):
        assert '"success" : false' not in now
        time.sleep(0.05)


def test_the_text_names_every_tool_and_the_order_of_calls(hands: Hands) -> None:
    typed = told(hands)
    kinds = ["ssh-keygen", "sha256sum", "age -d", "/api/version", "license=@", "-T deployment", "--cacert"]
    kinds += ["-K kdc", "cm/commands/generateCredentials", "shred"]
    places = [next(i for i, command in enumerate(typed) if kind in command) for kind in kinds]
    assert places == sorted(places)
    assert sum("-T deployment.json" in command for command in typed) == 1
    assert not any(re.search(r"curl .*(-L|--location|-k|--insecure)\b", command) for command in typed)


def test_followed_to_the_letter_it_recovers_every_byte_and_the_manager(hands: Hands, lost: Any) -> None:
    manifest = json.loads((hands.folder / "manifest.json").read_bytes())
    (part,) = [part for part in manifest["parts"] if part["name"] == "deployment.json.zst.age"]
    recovered = carry_out(hands, lost)
    assert (len(recovered), hashlib.sha256(recovered).hexdigest()) == (part["content_bytes"], part["content_sha256"])
    assert not (hands.folder / "deployment.json").exists()
    assert lost.puts == 1 and lost.lab.world.kdc_account
    now, then = export(lost), json.loads(recovered)
    for document in (now, then):
        document.pop("timestamp", None)
    assert now == then


def test_a_changed_byte_is_seen_by_the_first_commands(hands: Hands) -> None:
    manifest = hands.folder / "manifest.json"
    manifest.write_bytes(manifest.read_bytes().replace(b'"purpose": "backup"', b'"purpose": "safety"'))
    part = hands.folder / "deployment.redacted.json.zst"
    part.write_bytes((whole := part.read_bytes())[:-1] + bytes([whole[-1] ^ 1]))
    for kind in ("sha256sum -c", "ssh-keygen"):
        command = next(command for command in told(hands) if kind in command)
        with pytest.raises(AssertionError):
            hands.type(command)
