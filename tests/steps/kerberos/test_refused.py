"""Whatever jobs could not log in with is refused here, before the host hears of it."""

import pytest

from tests.steps.kerberos.conftest import FIRST, PRINCIPAL, USER, secrets_of


def refused(owner, words, code=5, hint=""):
    before = secrets_of(owner)
    said = owner("vc", "init-user", FIRST, USER, "--yes", "-o", "json")
    assert said.code == code, said.err
    assert words in " ".join([said.error["message"], *said.error["detail"]])
    assert hint in said.error["hint"]
    assert owner.heard == []
    assert secrets_of(owner) == before
    assert not list((owner.state / "undo").glob("*"))


def test_a_keytab_of_somebody_else(owner):
    owner.kdc.add("other")
    owner.give(owner.kdc.keytab("other"))
    refused(owner, f"no key of {PRINCIPAL}, but of other@EXAMPLE.COM")


def test_a_keytab_with_rc4_keys_alone(owner):
    owner.give(owner.kdc.ktutil(PRINCIPAL, [(2, "arcfour-hmac")]))
    refused(owner, "only arcfour (RC4)")


@pytest.mark.parametrize("size", [1, 10, 70])
def test_a_truncated_keytab(owner, size):
    owner.give(owner.kdc.keytab(PRINCIPAL)[:size])
    refused(owner, "is of no use")


@pytest.mark.parametrize("preauth", [True, False])
def test_a_keytab_whose_key_version_is_older_than_the_kdcs(owner, preauth):
    name = f"aged{preauth}".lower()
    owner.kdc.add(name, preauth=preauth)
    old = owner.kdc.keytab(name)
    owner.kdc.keytab(name)
    owner.give(old, f"{name}@EXAMPLE.COM")
    refused(owner, "older than the KDC's")


def test_a_principal_that_the_kdc_does_not_know(owner):
    owner.give(owner.kdc.ktutil("gone@EXAMPLE.COM", [(1, "aes256-cts")]), "gone@EXAMPLE.COM")
    made = "have gone@EXAMPLE.COM made in the KDC (addprinc), or correct the principal of etl_user in the config"
    refused(owner, "not found in Kerberos database", hint=made)


@pytest.mark.parametrize(
    ("order", "words", "hint"),
    [
        ("-allow_tix", "have been revoked", "unlock and enable {}"),
        ("-expire yesterday", "has expired", "(modprinc -expire never)"),
        ("-pwexpire yesterday", "assword has expired", "(modprinc -pwexpire never)"),
    ],
)
def test_an_account_that_the_kdc_lets_nobody_in_with_is_not_helped_by_another_export(owner, order, words, hint):
    name = f"shut{order.partition(' ')[0]}"
    owner.kdc.add(name)
    owner.give(owner.kdc.keytab(name), f"{name}@EXAMPLE.COM")
    owner.kdc.admin("modprinc", *order.split(), name)
    refused(owner, words, hint=hint.format(f"{name}@EXAMPLE.COM"))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"etl_user@EXAMPLE.COM\r\n", "carriage return"),
        (b"etl_user@EXAMPLE.COM\netl_user@EXAMPLE.COM\n", "more than one line"),
        (b"etl_user@EXAMPLE.COM\n\n", "more than one line"),
        (b"\xef\xbb\xbfetl_user@EXAMPLE.COM\n", "byte order mark"),
        (b"etl_user\n", "not a principal of the form"),
        (b"etl_user@EXAMPLE.COM \n", "not a principal of the form"),
        (b"etl\xffuser@EXAMPLE.COM", "not UTF-8"),
        (b"", "not a principal of the form"),
    ],
)
def test_a_principal_file_that_is_not_one_clean_line_is_refused_with_a_way_out(owner, content, words):
    owner.give(owner.kdc.keytab(PRINCIPAL), content)
    refused(owner, words)


def test_a_keytab_that_others_can_read(owner):
    (owner.folder / "user.keytab").chmod(0o644)
    refused(owner, "open to others", code=3)


def test_a_user_whose_secrets_kubernetes_would_not_take(owner):
    owner.vc()["users"][0]["name"] = "Etl_user"
    said = owner("vc", "init-user", FIRST, "Etl_user", "--yes")
    assert (said.code, owner.heard) == (5, [])
    assert "not a name that Kubernetes allows" in said.err


def test_a_user_whom_the_config_does_not_know(owner):
    said = owner("vc", "init-user", FIRST, "nobody", "--yes")
    assert (said.code, owner.heard) == (2, [])


def test_an_older_keytab_than_the_one_in_place_where_no_kdc_can_tell(owner, tmp_path):
    nowhere = tmp_path / "krb5.conf"
    nowhere.write_text("[libdefaults]\n dns_lookup_kdc = false\n")
    cluster = owner.cluster()
    with cluster.lock:
        cluster.set_kerberos(USER, PRINCIPAL, owner.kdc.ktutil(PRINCIPAL, [(9, "aes256-cts")]))
    owner.give(owner.kdc.ktutil(PRINCIPAL, [(8, "aes256-cts")]))
    before = secrets_of(owner)
    said = owner("vc", "init-user", FIRST, USER, "--yes", KRB5_CONFIG=str(nowhere))
    assert said.code == 5
    assert "has version 9 already" in said.err
    assert secrets_of(owner) == before
