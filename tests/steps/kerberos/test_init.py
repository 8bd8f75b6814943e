"""A virtual cluster gets its certificate: the config's, or the utility's own; whole paths against the lab."""

import signal
from datetime import UTC, datetime, timedelta

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from maint.errors import Interrupted
from maint.lab import pki
from maint.model.certificate import end_of, fingerprint, first_of, names_of
from maint.steps.virtual_clusters import certificate, undo
from tests.adapters.virtual_clusters.test_safety_net import run_of
from tests.steps.kerberos.conftest import FIRST, MASTER, PRINCIPAL, SECOND, USER

INIT = ("vc", "init", FIRST)


def names(keeper, cluster=FIRST):
    identity = keeper.cluster(cluster).identity
    return [identity.host, identity.gateway]


def given(keeper, pair):
    """Configure a certificate."""
    authority = pki.Authority.load(keeper.lab.folder / "ca")
    (keeper.folder / "vc.pem").write_bytes(authority.chain_pem(pair))
    (keeper.folder / "vc.key").write_bytes(pair.key_pem)
    (keeper.folder / "vc.key").chmod(0o600)
    keeper.vc()["tls"] = {"cert": str(keeper.folder / "vc.pem"), "key": f"file:{keeper.folder / 'vc.key'}"}


def issued(keeper, hosts, *, expired=False):
    authority = pki.Authority.load(keeper.lab.folder / "ca")
    return (authority.expired if expired else authority.server)(hosts, datetime.now(UTC))


def held(keeper):
    """The fingerprints of the certificates that Kubernetes holds, by secret."""
    kubernetes = keeper.lab.kubernetes
    found = kubernetes.secrets(kubernetes.base)
    return {name: fingerprint(first_of(data["tls.crt"])) for name, data in found.items()}


def test_a_fresh_virtual_cluster_is_initialised_and_runs_jobs(keeper):
    """The whole way: nothing works, certificate, user, smoke test."""
    keeper.give(keeper.kdc.keytab(PRINCIPAL))
    assert keeper("vc", "smoke", "--vc", FIRST, "--yes").code == 4
    said = keeper(*INIT, "--yes")
    assert said.code == 0, said.err
    assert "both show it" in said.err
    told = keeper("vc", "smoke", "--vc", FIRST, "--yes")
    assert (told.code, f"maint vc init-user {FIRST} {USER}" in told.err) == (1, True)
    told = keeper("vc", "job", "run", "--name", "pi-estimate", "--wait", "--vc", FIRST, "--yes")  # so it is of any job
    assert (told.code, f"maint vc init-user {FIRST} {USER}" in told.err) == (1, True), told.err
    assert keeper("vc", "init-user", FIRST, USER, "--yes").code == 0
    assert keeper("vc", "smoke", "--vc", FIRST, "--yes").code == 0
    assert keeper.private == []


def test_the_configured_certificate_is_installed_for_both_names_and_once_and_what_it_replaces_is_sealed_and_comes_back(
    keeper,
):
    given(keeper, issued(keeper, names(keeper)))
    plan = keeper(*INIT, "--dry-run", "-o", "json").json["plan"]["actions"][0]
    assert plan["effect"] == "CHANGE"
    assert f"{SECOND} (ca: " in plan["summary"]
    assert keeper(*INIT, "--yes").code == 0
    mine = fingerprint(first_of((keeper.folder / "vc.pem").read_bytes()))
    assert set(held(keeper).values()) == {mine}
    heard = len(keeper.heard)
    assert keeper(*INIT).code == 0, "nothing to be done needs no answer"
    assert not any("cde-utils" in line and "init-virtual" in line for line in keeper.heard[heard:])
    kubernetes = keeper.lab.kubernetes
    before = kubernetes.secrets(kubernetes.base)
    given(keeper, issued(keeper, names(keeper)))
    assert "maint vc undo RUN" in keeper(*INIT, "--dry-run", "-o", "json").json["plan"]["actions"][0]["undo"]
    said = keeper(*INIT, "--yes")
    assert said.code == 0, said.err
    replaced = kubernetes.secrets(kubernetes.base)
    assert replaced != before
    back = keeper("vc", "undo", run_of(said), "--yes")
    assert back.code == 0, back.err
    assert kubernetes.secrets(kubernetes.base) == before  # with their keys
    assert keeper("vc", "undo", run_of(back), "--yes").code == 0
    assert kubernetes.secrets(kubernetes.base) == replaced


def test_a_replacement_that_is_taken_up_seals_nothing_but_the_two_certificates(keeper):
    del keeper.vc(SECOND)["tls"]
    assert keeper("vc", "init", SECOND, "--confirm", SECOND).code == 0
    given(keeper, issued(keeper, names(keeper)))
    assert keeper(*INIT, "--yes").code == 0
    kubernetes = keeper.lab.kubernetes
    before = kubernetes.secrets(kubernetes.base)
    assert len(before) == 3, "there is a secret that the replacement has nothing to do with"
    sealed = len(list((keeper.state / "undo").glob("*")))
    given(keeper, issued(keeper, names(keeper)))
    keeper.lab.break_("kubectl-apply-own", "vc-kubectl-fails")
    assert keeper(*INIT, "--yes").code == 1
    resumed = keeper("playbook", "resume")
    assert resumed.code == 0, resumed.err
    assert len(list((keeper.state / "undo").glob("*"))) == sealed + 2
    assert keeper("vc", "undo", run_of(resumed), "--yes").code == 0
    assert kubernetes.secrets(kubernetes.base) == before


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda keeper: issued(keeper, names(keeper), expired=True), "has expired"),
        (lambda keeper: issued(keeper, names(keeper)[:1]), "is not for service."),
        (lambda keeper: issued(keeper, names(keeper)[1:]), "is not for k7m2q9xz."),
    ],
)
def test_a_certificate_that_is_not_fit_is_refused_before_the_host_hears_of_it(keeper, make, words):
    given(keeper, make(keeper))
    said = keeper(*INIT, "--yes")
    assert (said.code, keeper.heard) == (5, [])
    assert words in said.err


def test_a_key_that_does_not_fit_is_refused(keeper):
    given(keeper, issued(keeper, names(keeper)))
    (keeper.folder / "vc.key").write_bytes(issued(keeper, names(keeper)).key_pem)
    said = keeper(*INIT, "--yes")
    assert (said.code, keeper.heard) == (5, [])
    assert "do not fit each other" in said.err
    (keeper.folder / "vc.key").write_bytes(pki.encrypted_key(issued(keeper, names(keeper)), "secret"))
    said = keeper(*INIT, "--yes")
    assert (said.code, "the key without a password" in said.err) == (5, True), said.err
    other = rsa.generate_private_key(65537, 2048)
    (keeper.folder / "vc.key").write_bytes(other.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    assert "do not fit each other" in keeper(*INIT, "--yes").err


def test_without_one_the_utility_makes_its_own_and_the_name_is_asked_for(keeper):
    del keeper.vc()["tls"]
    assert keeper(*INIT, "--yes").code == 5
    assert held(keeper) == {}
    said = keeper(*INIT, "--confirm", FIRST)
    assert said.code == 0, said.err
    kept = keeper.state / "certificates" / f"{FIRST}.pem"
    assert str(kept) in said.err
    der = first_of(kept.read_bytes())
    assert names(keeper)[0] in names_of(der)
    assert timedelta(days=364) < end_of(der) - datetime.now(UTC) < timedelta(days=366)
    keeper.vc()["ca"] = str(kept)
    assert keeper("vc", "status", "--vc", FIRST).code == 0
    again = keeper(*INIT)
    assert (again.code, "`--renew`" in again.err) == (0, True)


@pytest.fixture
def renewed(keeper):
    """The run that replaced a self-made certificate, which alone is trusted; the keeper knows what was held before."""
    del keeper.vc()["tls"]
    assert keeper(*INIT, "--confirm", FIRST).code == 0
    keeper.before = held(keeper)
    keeper.vc()["ca"] = str(keeper.state / "certificates" / f"{FIRST}.pem")
    said = keeper(*INIT, "--renew", "--confirm", FIRST)
    assert said.code == 0, said.err
    return run_of(said)


def test_a_certificate_that_came_back_and_is_not_shown_stays_so_however_often_it_is_undone(
    keeper, renewed, monkeypatch
):
    monkeypatch.setattr(certificate, "_SERVED", 1.0)
    place = keeper.vc()["connect_to"]
    keeper.vc()["connect_to"] = f"127.0.0.1:{keeper.lab.server.tls_port}"  # where the manager's is shown
    for _ in range(2):
        said = keeper("vc", "undo", renewed, "--yes")
        assert (said.code, "it is not shown after 1 s" in said.err) == (1, True), said.err
    keeper.vc()["connect_to"] = place
    said = keeper("vc", "undo", renewed, "--yes")
    assert (said.code, "its host shows it" in said.err) == (0, True), said.err
    assert keeper("vc", "status", "--vc", FIRST).code == 0


def test_who_trusts_a_self_made_certificate_gets_in_after_it_was_undone_too_also_where_the_undo_was_ended_before(
    keeper, renewed, monkeypatch
):
    def struck(*_):
        raise Interrupted(signal.SIGTERM)

    with monkeypatch.context() as patch:
        patch.setattr(undo, "_trusted_too", struck)
        assert keeper("vc", "undo", renewed, "--yes").code == 128 + signal.SIGTERM
    said = keeper("vc", "undo", renewed, "--yes")
    assert (said.code, said.err.count("names it, too")) == (0, said.err.count(" is back")), said.err
    kept = keeper.state / "certificates" / f"{FIRST}.pem"
    assert "its host shows it" in said.err and f"{kept} names it, too" in said.err
    assert held(keeper) == keeper.before
    assert keeper("vc", "status", "--vc", FIRST).code == 0


def test_the_gateways_certificate_is_replaced_once_for_a_service(keeper):
    for name in (FIRST, SECOND):
        del keeper.vc(name)["tls"]
        said = keeper("vc", "init", name, "--confirm", name)
        assert said.code == 0, said.err
    first, second = held(keeper)[f"tls-dex-app-{keeper.cluster().identity.id}"], held(keeper)["tls-dex-base"]
    assert first == second, "the second one left the gateway what the first one had given it"
    assert "put back a moment later" in said.err
    assert f"{FIRST} (ca: " in said.err
    renewed = keeper(*INIT, "--renew", "--confirm", FIRST)
    assert renewed.code == 0, renewed.err
    assert held(keeper)["tls-dex-base"] not in (first, "")
    assert len(list((keeper.state / "undo").glob("*"))) == 2, "what it replaced is sealed, and nothing else"
    assert keeper("vc", "undo", run_of(renewed), "--yes").code == 0
    assert held(keeper)["tls-dex-base"] == second


def test_a_self_made_certificate_that_is_not_for_the_gateway_is_told_as_half_of_the_work(keeper):
    del keeper.vc()["tls"]
    keeper.lab.switch("vc-self-signed", "own")
    try:
        said = keeper(*INIT, "--confirm", FIRST)
    finally:
        keeper.lab.switch("vc-self-signed", "both")
    assert (said.code, "NOT for service." in said.err) == (7, True)


def given_by_the_first(keeper):
    """Return the gateway's certificate once the first cluster has one, and the second none yet."""
    for name in (FIRST, SECOND):
        del keeper.vc(name)["tls"]
    assert keeper(*INIT, "--confirm", FIRST).code == 0
    return held(keeper)["tls-dex-base"]


def test_killed_in_the_middle_it_is_taken_up_and_the_gateway_keeps_its_certificate(keeper):
    shared = given_by_the_first(keeper)
    keeper.lab.break_("kubectl-replace", "vc-kubectl-hangs")
    process = keeper.fork("vc", "init", SECOND, "--confirm", SECOND)
    keeper.struck()
    process.kill()
    process.communicate()
    assert held(keeper)["tls-dex-base"] != shared
    assert keeper("playbook", "resume").code == 0
    assert held(keeper)["tls-dex-base"] == shared
    assert not list((keeper.state / "undo").glob("*"))


def test_where_the_script_fails_the_gateway_keeps_its_certificate(keeper):
    shared = given_by_the_first(keeper)
    keeper.lab.break_("kubectl-apply-own", "vc-kubectl-fails")
    said = keeper("vc", "init", SECOND, "--confirm", SECOND)
    assert (said.code, "InternalError" in said.err) == (1, True)
    assert held(keeper)["tls-dex-base"] == shared
    assert keeper("playbook", "resume").code == 0
    assert held(keeper)["tls-dex-base"] == shared
    assert keeper.cluster(SECOND).tls_ready


@pytest.fixture
def left_behind(keeper):
    """What the gateway had, and a run that stopped while the utility's own certificate was there in its place."""
    shared = given_by_the_first(keeper)
    keeper.lab.break_("kubectl-replace", "vc-kubectl-fails")
    said = keeper("vc", "init", SECOND, "--confirm", SECOND)
    assert (said.code, held(keeper)["tls-dex-base"] != shared) == (1, True), said.err
    return shared, max(path.stem for path in (keeper.state / "runs").glob("*.jsonl"))


def by_hand(keeper):
    pair = issued(keeper, names(keeper, SECOND))
    kubernetes = keeper.lab.kubernetes
    kubernetes.put(kubernetes.base, "tls-dex-base", {"tls.key": pair.key_pem, "tls.crt": pair.pem})


def by_another_run(keeper):
    said = keeper("vc", "init", SECOND, "--renew", "--confirm", SECOND)
    assert said.code == 0, said.err


@pytest.mark.parametrize("replaced", [by_hand, by_another_run])
def test_a_gateways_certificate_that_somebody_installed_since_is_not_replaced_by_the_old_one(
    keeper, left_behind, replaced
):
    replaced(keeper)
    newer = held(keeper)["tls-dex-base"]
    said = keeper("playbook", "resume", left_behind[1])
    assert (said.code, held(keeper)["tls-dex-base"]) == (0, newer), said.err
    assert "it stays" in said.err
    assert keeper("vc", "undo", left_behind[1], "--yes").code == 0
    assert held(keeper)["tls-dex-base"] == left_behind[0]


def test_undoing_a_run_that_stopped_brings_the_gateways_certificate_back_and_resuming_it_finds_that(
    keeper, left_behind
):
    shared, run_id = left_behind
    for words in (("vc", "undo", run_id, "--yes"), ("playbook", "resume", run_id)):
        said = keeper(*words)
        assert (said.code, held(keeper)["tls-dex-base"]) == (0, shared), said.err


def test_a_renewal_that_came_as_far_as_the_gateway_is_not_told_as_done(keeper):
    del keeper.vc()["tls"]
    assert keeper(*INIT, "--confirm", FIRST).code == 0
    before = held(keeper)
    keeper.lab.break_("kubectl-apply-own", "vc-kubectl-fails")
    assert keeper(*INIT, "--renew", "--confirm", FIRST).code == 1
    resumed = keeper("playbook", "resume")
    assert resumed.code == 0, resumed.err
    assert not set(before.values()) & set(held(keeper).values())
    assert keeper("vc", "undo", run_of(resumed), "--yes").code == 0
    assert held(keeper) == before


def test_an_url_that_is_no_virtual_clusters_a_missing_script_and_no_master_are_refused(keeper):
    keeper.vc()["base_url"] = "https://jobs.example.internal/dex/api/v1"
    said = keeper(*INIT, "--yes")
    assert (said.code, keeper.heard) == (3, [])
    keeper.vc()["base_url"] = "https://gone1234.cde-abc12345.apps.example.internal/dex/api/v1"
    keeper.vc().pop("tls")
    said = keeper(*INIT, "--confirm", FIRST)
    assert (said.code, "no namespace dex-app-gone1234" in said.err) == (5, True)


def test_a_script_that_is_not_there_is_told_with_where_it_was_looked_for(keeper):
    keeper.vc()["utility"] = "/opt/none/cde-utils.sh"
    said = keeper(*INIT, "--yes")
    assert (said.code, "looked for /opt/none/cde-utils.sh" in said.err) == (5, True)
    machine = keeper.lab.machines[MASTER]
    del keeper.vc()["utility"]
    assert keeper(*INIT, "--yes", "--dry-run").code == 0, "it is looked for where nothing is configured"
    machine.files.rename("/opt/cloudera/cde-utils.sh", "/opt/cloudera/other.sh")
    try:
        said = keeper(*INIT, "--yes")
        assert (said.code, "looked for /opt/cloudera, " in said.err) == (5, True)
    finally:
        machine.files.rename("/opt/cloudera/other.sh", "/opt/cloudera/cde-utils.sh")


@pytest.mark.parametrize("release", ["1.5.5", "1.6.0"])
def test_releases_without_the_script_are_told_apart_with_what_to_do_instead(keeper, release):
    machine, parcel = keeper.lab.machines[MASTER], "/opt/cloudera/parcels/ECS/meta/parcel.json"
    before = machine.files.read(parcel)
    machine.files.write(parcel, before.replace(b"1.5.4", release.encode()))
    try:
        keeper.give(keeper.kdc.keytab(PRINCIPAL))
        for words in ((*INIT, "--yes"), ("vc", "init-user", FIRST, USER, "--yes")):
            said = keeper(*words)
            assert said.code == 5
            assert "kerberos authenticate" in said.err
    finally:
        machine.files.write(parcel, before)


def test_without_kubernetes_it_fails_with_what_kubectl_said(keeper):
    keeper.lab.break_("", "vc-kubectl-down")
    said = keeper(*INIT, "--yes")
    assert (said.code, "was refused" in said.err) == (1, True)
