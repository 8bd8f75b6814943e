"""A realm is found wherever krb5.conf names it, and a KDC counts for its own realm alone."""

from pathlib import Path

from maint.checks.facts import Answered
from maint.checks.registry import CHECKS
from maint.model.fleet import State
from tests.checks.facts import healthy, host

OWN = "[libdefaults]\n\tdefault_realm = EXAMPLE.INTERNAL\n[realms]\n\tEXAMPLE.INTERNAL = {\n\t\tkdc = kdc.own\n\t}\n"


def test_a_realm_in_a_folder_that_is_included_is_read_and_its_kdc_tried(tmp_path: Path) -> None:
    files = {
        "/etc/krb5.conf": ("includedir\t/etc/krb5.conf.d/\n[libdefaults]\n\trenew_lifetime = 7d\n", 0o644),
        "/etc/krb5.conf.d/site": (OWN, 0o644),
        "/etc/krb5.conf.d/site.rpmsave": ("[libdefaults]\n default_realm = OLD\n", 0o644),
    }
    made = host(healthy(tmp_path, files=files))
    assert made.realm == "EXAMPLE.INTERNAL"
    found = CHECKS["krb.kdc"].judge(made)
    assert (found.state, found.observed) == (State.FAIL, "kdc.own:88 does not answer")


def test_the_realm_is_that_of_libdefaults() -> None:
    lines = "[appdefaults]\n\tdefault_realm = B\n[libdefaults]\n\tdefault_realm = A\n\tdefault_realm = C\n"
    assert host({"krb5_conf": Answered(0, lines)}).realm == "A"
