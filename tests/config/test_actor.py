"""Who runs this: the process's account, whatever the environment says; and who became it."""

import os
import pwd

import pytest

from maint.config.paths import account, user

OWN = pwd.getpwuid(os.getuid()).pw_name


def test_nobody_signs_with_a_name_that_only_the_environment_says(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.setenv(name, "somebody-else")
    monkeypatch.delenv("SUDO_USER", raising=False)
    assert (account(), user()) == (OWN, OWN)


@pytest.mark.parametrize(("before", "shown"), [("ann", f"{OWN} (ann)"), (OWN, OWN), ("", OWN), ("a\nb", OWN)])
def test_who_became_root_is_named_beside_it(before: str, shown: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUDO_USER", before)
    assert (account(), user()) == (OWN, shown)
