"""Certificates read without their key, and what clients get to see of a virtual cluster's."""

from datetime import UTC, datetime

import pytest
from cryptography import x509

from maint.config.schema import VirtualClusterSettings
from maint.errors import Refused, WorkFailed
from maint.lab import pki
from maint.model.certificate import covers, end_of, first_of, names_of
from maint.steps.virtual_clusters.certificate import served
from maint.steps.virtual_clusters.init_host import (
    SHARED_SECRET,
    MasterAnswer,
    ServiceAddress,
    address_of,
    require_ingress,
)
from tests.adapters.virtual_clusters.conftest import Hurried

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
HOST = "k7m2q9xz.cde-abc12345.apps.example.internal"


@pytest.mark.parametrize("begin", [NOW, datetime(2055, 1, 1, tzinfo=UTC)])
@pytest.mark.parametrize("names", [[HOST], ["*.cde-abc12345.apps.example.internal", "127.0.0.1", "localhost"]])
def test_end_and_names_are_those_that_the_library_reads(names, begin):
    pair = pki.self_signed(names, begin)
    library = x509.load_der_x509_certificate(pair.der)
    alternative = library.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert end_of(pair.der) == library.not_valid_after_utc
    assert names_of(pair.der) == alternative.get_values_for_type(x509.DNSName)
    assert covers(pair.der, HOST)
    assert not covers(pair.der, f"deeper.{HOST}")
    assert first_of(b"some words before it\n" + pair.pem + b"and after") == pair.der


def test_a_certificate_without_names_covers_nothing():
    root = pki.Authority.create(NOW).root
    assert (names_of(root.der), covers(root.der, HOST)) == ([], False)
    with pytest.raises(ValueError, match="no certificate"):
        first_of(b"-----BEGIN PRIVATE KEY-----")


def test_a_certificate_that_breaks_off_anywhere_is_said_to_be_unreadable():
    der = pki.self_signed([HOST], NOW).der
    for size in range(len(der)):
        with pytest.raises(ValueError, match=r"certificate|time data"):
            end_of(der[:size])
        try:
            names_of(der[:size])
        except ValueError:
            continue


class Looking:
    """A site of which only one virtual cluster and the time are asked."""

    def __init__(self, shown):
        self.clock, self.shown = Hurried(), shown

    def virtual_cluster(self, name):
        return self

    def certificates(self):
        return self.shown


def looked(*names, **shown):
    """Wait for names, else both, to show what they should; `own` and `shared` are what they do show."""
    url = f"https://{HOST}/dex/api/v1"
    settings = VirtualClusterSettings(
        name="default-vc",
        base_url=url,
        auth_url="https://service.example.internal",
        username="u",
        password="file:p",
    )
    address = address_of(settings)
    held = {address.certificate_secret: b"own", SHARED_SECRET: b"shared", "tls-dex-app-older": b"older"}
    held = {name: der for name, der in held.items() if der.decode() in (names or ("own", "shared"))}
    hosts = {"own": address.host, "shared": address.gateway}
    steps = served(Looking({hosts[which]: der for which, der in shown.items()}), settings, held)
    while True:
        try:
            next(steps)
        except StopIteration as stop:
            return stop.value


def test_what_kubernetes_holds_must_be_what_both_names_show():
    assert looked(own=b"own", shared=b"shared") == (", and both show it", True)
    words, seen = looked()
    assert ("neither could be reached from here" in words, seen) == (True, False)
    with pytest.raises(WorkFailed, match=r"^service\.cde-abc12345.*it is not shown"):
        looked(own=b"own", shared=b"old")


def test_a_host_that_is_not_reached_is_not_said_to_show_another_certificate_since_another_host_is():
    words, seen = looked("shared", own=b"own")
    assert ("its host could not be reached from here" in words, seen) == (True, False)


def test_for_the_certificate_of_a_virtual_cluster_that_was_made_anew_nobody_waits():
    assert looked("older", own=b"own", shared=b"shared") == ("", True)


def test_a_virtual_cluster_without_an_ingress_is_still_being_made():
    address = ServiceAddress(HOST, "k7m2q9xz", "abc12345", HOST.partition(".")[2])
    listed = ["ingress.networking.k8s.io/dex-base-api", "ingress.networking.k8s.io/dex-app-k7m2q9xz-api"]
    require_ingress(MasterAnswer("master", "", "1.5.4", listed), address)
    with pytest.raises(Refused, match="still being made"):
        require_ingress(MasterAnswer("master", "", "1.5.4", listed[:1]), address)


@pytest.mark.parametrize(
    ("release", "gone"),
    [("1.4.0", False), ("1.5.4", False), ("1.5.5", True), ("1.5.10", True), ("2.0.0", True), ("", False)],
)
def test_releases_are_compared_as_numbers(release, gone):
    assert MasterAnswer("master", "", release, []).too_new == gone
