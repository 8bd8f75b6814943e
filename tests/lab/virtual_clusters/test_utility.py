"""The virtual-cluster utility on a lab host: what it says, what it leaves behind."""

import socket
import ssl
from datetime import UTC, datetime

import pytest

from maint.lab import pki
from maint.lab.hosts import kerberos
from maint.lab.hosts.shell.executor import run
from maint.lab.virtual_clusters.utility import SCRIPT

USER = "etl_user"
PRINCIPAL = "etl_user@EXAMPLE.COM"


@pytest.fixture
def lab(make_lab):
    return make_lab(vc_initialised="no").lab


@pytest.fixture
def master(lab):
    machine = lab.machines["ds-01.example.internal"]
    machine.files.write("/root/principal", f"{PRINCIPAL}\n".encode())
    machine.files.write("/root/keytab", kerberos.new_keytab(PRINCIPAL))
    return machine


@pytest.fixture
def cluster(lab):
    (cluster,) = lab.service.clusters()
    return cluster


def call(machine, script):
    done = run(machine, script)
    return done.status, done.out.decode(), done.err.decode()


def test_a_new_virtual_cluster_is_not_initialised(cluster):
    assert (cluster.tls_ready, cluster.kerberos) == (False, {})


def test_it_makes_certificates_for_virtual_cluster_and_gateway(lab, master, cluster):
    status, out, err = call(master, f"{SCRIPT} init-virtual-cluster -h {cluster.identity.host} -a")
    assert status == 0, err
    assert f"secret/tls-dex-app-{cluster.identity.id}" in out
    assert cluster.tls_ready
    host, port = cluster.identity.gateway, lab.service.port
    context = ssl.create_default_context(cafile=lab.folder / f"vc/tls/{host}.pem")
    with socket.create_connection(("127.0.0.1", port)) as raw, context.wrap_socket(raw, server_hostname=host) as tls:
        assert ("DNS", cluster.identity.host) in tls.getpeercert()["subjectAltName"]


def test_it_takes_a_certificate_of_ones_own(lab, master, cluster):
    pair = pki.Authority.load(lab.folder / "ca").server([cluster.identity.host], datetime.now(UTC))
    master.files.write("/root/c.pem", pair.pem)
    master.files.write("/root/k.pem", pair.key_pem)
    words = f"{SCRIPT} init-virtual-cluster -h {cluster.identity.host}"
    assert call(master, f"{words} -c /root/k.pem -k /root/c.pem")[0] == 1
    assert not cluster.tls_ready
    assert call(master, f"bash {words} -c /root/c.pem -k /root/k.pem")[0] == 0
    assert cluster.tls_ready


def test_it_gives_a_user_secrets_and_takes_them(master, cluster):
    words = f"-h {cluster.identity.host} -u {USER}"
    status, out, _ = call(
        master, f"cd /tmp && {SCRIPT} init-user-in-virtual-cluster {words} -p /root/principal -k /root/keytab"
    )
    assert status == 0
    assert "secret/etl---user-krb5-secret created" in out
    assert cluster.kerberos == {USER: PRINCIPAL}
    assert call(master, f"{SCRIPT} delete-user-in-virtual-cluster {words}")[0] == 0
    assert call(master, f"{SCRIPT} delete-user-in-virtual-cluster {words}")[0] == 1
    assert cluster.kerberos == {}


def test_it_says_what_failed_and_nothing_more(master, cluster):
    for options, words in (
        ("-u etl_user -p /root/principal -k /root/keytab", "Missing -host value"),
        ("-h HOST -u etl_user -p /root/none -k /root/keytab", "ERROR: No principal file found at location: /root/none"),
        ("-h HOST -u etl_user -p /root/principal -k /root/none", "No keytab file found"),
        ("-h HOST -u Etl@X -p /root/principal -k /root/keytab", "is invalid"),
        ("-h https://HOST -u etl_user -p /root/principal -k /root/keytab", 'namespaces "dex-app-https://'),
    ):
        told = options.replace("HOST", cluster.identity.host)
        status, _, err = call(master, f"{SCRIPT} init-user-in-virtual-cluster {told}")
        assert (status, words in err) == (1, True), (options, err)
        assert cluster.kerberos == {}, options


def test_it_is_not_atomic(master, cluster):
    words = f"{SCRIPT} init-user-in-virtual-cluster -h {cluster.identity.host} -u {USER}"
    assert call(master, f"{words} -p /root/principal -k /root/keytab")[0] == 0
    script = (
        f"cd /tmp && cat /root/keytab > etl---user-krb5-secret && {words} -p /root/principal -k etl---user-krb5-secret"
    )
    status, _, err = call(master, script)
    assert status == 1
    assert "are the same file" in err
    assert cluster.kerberos == {}


def test_files_that_do_not_fit_are_taken_and_fail_only_later(master, cluster):
    master.files.write("/root/principal", b"other@ELSEWHERE\n")
    words = f"{SCRIPT} init-user-in-virtual-cluster -h {cluster.identity.host} -u {USER}"
    assert call(master, f"{words} -p /root/principal -k /root/keytab")[0] == 0
    assert cluster.kerberos == {USER: ""}


def test_a_dry_run_and_a_question_for_help_change_nothing(master, cluster):
    assert call(master, f"{SCRIPT} -d init-virtual-cluster -h {cluster.identity.host} -a")[0] == 0
    assert not cluster.tls_ready
    status, out, _ = call(master, SCRIPT)
    assert (status, out.startswith("Usage")) == (0, True)
    assert call(master, f"{SCRIPT} unknown-word")[0] == 1


def test_other_hosts_reach_no_cluster(lab):
    status, _, err = call(lab.machines["base-02.example.internal"], "/opt/cloudera/lib/cde-utils help")
    assert status == 127
    assert "not found" in err
