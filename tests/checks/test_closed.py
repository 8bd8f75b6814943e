"""What is closed to the account that asks is told so by the real shell, and is neither absent nor switched off."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from maint.checks.facts import Answered
from maint.checks.registry import CHECKS
from maint.model.fleet import State
from tests.checks.facts import host
from tests.checks.test_rules import NAMES

AGENT = "var/lib/cloudera-scm-agent"
CHAIN = f"{AGENT}/agent-cert/cm-auto-host_key_cert_chain.pem"
KRB = "[libdefaults]\n renew_lifetime = 7d\nincludedir {}/etc/krb5.conf.d\n"
FILES = {
    CHAIN: "x", f"{AGENT}/agent-cert/cm-auto-host_key.pem": "x", "etc/krb5.conf": KRB,
    "etc/krb5.conf.d/site": "[libdefaults]\n default_realm = A\n", "etc/rancher/rke2/rke2.yaml": "x",
}  # fmt: skip
NOBODY: dict[str, Any] = {"user": 65534, "group": 65534, "extra_groups": []} if os.geteuid() == 0 else {}


@pytest.fixture
def root() -> Iterator[Path]:
    """A folder that everybody may enter, with the files of a host."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    for name, content in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content.format(folder))
    yield folder
    for path in folder.rglob("*"):
        path.chmod(0o700)
    shutil.rmtree(folder)


def told(root: Path, question: str) -> Answered:
    """Return what an account that owns nothing is told by a host whose files lie in a folder."""
    text = CHECKS.questions()[question]
    for place in ("/var/lib/", "/etc/krb5.conf", "/etc/rancher"):
        text = text.replace(place, f"{root}{place}")
    said = subprocess.run(["/bin/sh", "-c", text], capture_output=True, text=True, **NOBODY)
    return Answered(said.returncode, said.stdout, said.stderr)


@pytest.mark.parametrize(
    ("check", "closed"),
    [
        ("tls.files", AGENT),
        ("tls.match", AGENT),
        ("tls.expiry", f"{AGENT}/agent-cert"),
        ("tls.expiry", CHAIN),
        ("krb.conf", "etc/krb5.conf.d"),
        ("krb.conf", "etc/krb5.conf.d/site"),
        ("ecs.vault", "etc/rancher"),
    ],
)
def test_what_is_closed_to_the_account_that_asks_could_not_be_told(root: Path, check: str, closed: str) -> None:
    (root / closed).chmod(0)
    answers = {question: told(root, question) for question in CHECKS[check].asks if question != "names"}
    verdict = CHECKS[check].judge(host({**answers, "names": NAMES}))
    assert (verdict.state, "this account may not" in verdict.observed) == (State.ERROR, True), verdict
