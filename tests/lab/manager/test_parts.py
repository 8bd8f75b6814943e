"""The parts of the lab's manager, each by itself."""

import io
import random
import shutil
import subprocess
from datetime import UTC, datetime, timedelta

import pyrage
import pytest
from cryptography.x509 import SubjectAlternativeName, load_pem_x509_certificate
from hypothesis import given, settings
from hypothesis import strategies as st

from maint.lab import pki
from maint.lab.create import yaml
from maint.lab.faults import FAULTS, HOST, ONCE, TARGETS, FaultBox, UnknownFault
from maint.lab.http.server import BodyCut
from maint.lab.manager import document, host_files, jks
from maint.lab.manager.accounts import hash_password, matches, new_salt
from maint.lab.manager.api.manager import BadLicense, make_license, read_license
from maint.lab.manager.document import Hide, hidden
from maint.lab.manager.host_files import java_options, redaction_property
from maint.lab.manager.http import ManagerExchange
from maint.lab.switches import SWITCHES, Switches, UnknownSwitch, check, parse

NOW = datetime(2026, 1, 15, tzinfo=UTC)
KEYTOOL = shutil.which("keytool")
keytool_only = pytest.mark.skipif(KEYTOOL is None, reason="there is no keytool on this machine")


@pytest.fixture(scope="module")
def authority():
    return pki.Authority.create(NOW)


def keytool(path, password):
    return subprocess.run(
        [str(KEYTOOL), "-list", "-storetype", "JKS", "-keystore", str(path)],
        input=f"{password}\n", capture_output=True, text=True, check=False,
    )  # fmt: skip


@keytool_only
def test_the_real_keytool_opens_a_truststore_with_its_password_only(tmp_path, authority):
    path = tmp_path / "truststore.jks"
    path.write_bytes(host_files.truststore_jks(authority, "Xq7mB2vN", NOW))
    assert "2 entries" in keytool(path, "Xq7mB2vN").stdout
    refused = keytool(path, "another one")
    assert refused.returncode != 0
    assert "password was incorrect" in refused.stdout + refused.stderr


@keytool_only
def test_the_real_keytool_reads_the_key_of_a_keystore(tmp_path, authority):
    path = tmp_path / "keystore.jks"
    pair = authority.server(["localhost"], NOW)
    path.write_bytes(host_files.keystore_jks(authority, pair, "pL4sWn8R", NOW))
    changed = subprocess.run(
        [str(KEYTOOL), "-importkeystore", "-srckeystore", str(path), "-srcstoretype", "JKS",
         "-srcstorepass", "pL4sWn8R",
         "-destkeystore", str(tmp_path / "out.p12"), "-deststoretype", "PKCS12", "-deststorepass", "pL4sWn8R"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert changed.returncode == 0, changed.stdout
    assert "1 entries successfully imported" in changed.stdout + changed.stderr  # it could decrypt the key


def test_a_keystore_gives_back_its_key(authority):
    pair = authority.server(["localhost"], NOW)
    entry = jks.read(host_files.keystore_jks(authority, pair, "secret", NOW), "secret")[0]
    assert jks.unprotect(entry.protected_key, "secret") == pair.key_der
    assert entry.chain[0] == pair.der
    with pytest.raises(jks.BadKeystore):
        jks.unprotect(entry.protected_key, "wrong")


def test_an_expired_host_certificate_is_still_of_its_key_and_names(authority):
    pair = authority.server(["base-01.example.internal"], NOW)
    good, bad = (load_pem_x509_certificate(pem) for pem in (pair.pem, authority.expired_copy(pair.pem, NOW)))
    assert bad.not_valid_after_utc < NOW < good.not_valid_after_utc
    assert bad.public_key() == good.public_key()
    named = SubjectAlternativeName
    assert bad.extensions.get_extension_for_class(named) == good.extensions.get_extension_for_class(named)


def test_a_changed_keystore_does_not_open(authority):
    content = bytearray(host_files.truststore_jks(authority, "secret", NOW))
    content[100] ^= 1
    with pytest.raises(jks.BadKeystore):
        jks.read(bytes(content), "secret")
    with pytest.raises(jks.BadKeystore):
        jks.read(b"no keystore", "secret")


def test_an_age_key_of_the_lab_is_one_for_everybody():
    identity, recipient = pki.age_key()
    key = pyrage.x25519.Identity.from_str(identity)
    assert str(key.to_public()) == recipient
    assert pyrage.decrypt(pyrage.encrypt(b"x", [pyrage.x25519.Recipient.from_str(recipient)]), [key]) == b"x"


OPTIONS = [
    'export CMF_JAVA_OPTS="-Xmx2G -Dcom.cloudera.api.redaction=false"',
    "CMF_JAVA_OPTS=-Dcom.cloudera.api.redaction=false\n",
    'export CMF_JAVA_OPTS="-Xmx2G"\nexport CMF_JAVA_OPTS="-Dcom.cloudera.api.redaction=false ${CMF_JAVA_OPTS}"',
    'CMF_JAVA_OPTS="-Da=1"\nCMF_JAVA_OPTS="$CMF_JAVA_OPTS -Dcom.cloudera.api.redaction=true"',
    "# export CMF_JAVA_OPTS=-Dcom.cloudera.api.redaction=false\nexport CMF_JAVA_OPTS=-Xmx1G # and no more",
    "export CMF_JAVA_OPTS='-Da=$HERE -Db=\"x\"'",
    'export CMF_JAVA_OPTS="-Xmx2G \\\n -Dcom.cloudera.api.redaction=false"',
    'A=1; export CMF_JAVA_OPTS="-Da=${A}"; export B=2',
    'export CMF_JAVA_OPTS="-Da=${NONE:-fallback}-Db"',
    'OTHER="-Dcom.cloudera.api.redaction=false"\nexport CMF_JAVA_OPTS=-Xmx2G" -Dx=#1 "',
    "export CMF_JAVA_OPTS=-Da\\ -Db",
    "export CMF_JDBC_DRIVER_JAR=/x.jar\n",
    'export CMF_JAVA_OPTS="-XX:OnOutOfMemoryError=kill"\n\n\nif true; then :; fi\n',
]


@pytest.mark.parametrize("text", OPTIONS)
def test_java_options_are_what_a_shell_makes_of_the_file(text, tmp_path):
    path = tmp_path / "defaults"
    path.write_text(text)
    shown = subprocess.run(
        ["sh", "-c", f'. {path}; printf "%s" "$CMF_JAVA_OPTS"'], capture_output=True, text=True, env={}, check=True
    ).stdout
    assert java_options(text) == shown.split()


def test_the_last_word_on_redaction_counts():
    first, then = "-Dcom.cloudera.api.redaction=false", "-Dcom.cloudera.api.redaction=true"
    assert redaction_property(f'CMF_JAVA_OPTS="{first} {then}"') is True
    assert redaction_property(f'CMF_JAVA_OPTS="{then} {first}"') is False
    assert redaction_property("CMF_JAVA_OPTS=-Xmx1G") is None
    assert redaction_property(f"# CMF_JAVA_OPTS={first}") is None


def test_a_licence_is_taken_until_its_last_day():
    content = make_license("Somebody", 10, NOW)
    assert read_license(content, NOW + timedelta(days=10))["name"] == "Somebody"
    assert read_license(content.replace(b"\n", b"\r\n"), NOW)["name"] == "Somebody"
    with pytest.raises(BadLicense, match="expired"):
        read_license(content, NOW + timedelta(days=11))


@pytest.mark.parametrize("content", [b"", b"{}", b"-----BEGIN PGP SIGNED MESSAGE-----\n", make_license("X", 1)[:120]])
def test_what_is_no_licence_is_refused(content):
    with pytest.raises(BadLicense):
        read_license(content, NOW)


def test_a_licence_without_a_field_is_refused():
    with pytest.raises(BadLicense, match="cannot be read"):
        read_license(make_license("X", 1, NOW).replace(b'"uuid"', b'"other"'), NOW)


@given(st.text(), st.integers(-(2**63), 2**63 - 1))
def test_a_password_matches_its_own_hash_only(password, salt):
    stored = hash_password(password, salt)
    assert matches(password, stored, salt)
    assert not matches(password + "x", stored, salt)


def test_salts_are_signed_64_bit_numbers():
    salts = [new_salt(random.Random(seed)) for seed in range(200)]
    assert min(salts) < 0 < max(salts)
    assert all(-(2**63) <= salt < 2**63 for salt in salts)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@settings(max_examples=20)
@given(st.dictionaries(st.text(), json_values))
def test_printed_json_reads_back_as_it_was(value):
    assert document.parse(document.dumps(value)) == value


def test_numbers_with_fractions_keep_their_spelling():
    assert document.dumps(document.parse('{"a": 1.50, "b": 1E+3}')) == '{\n  "a" : 1.50,\n  "b" : 1E+3\n}'


def test_control_characters_are_escaped_in_capitals():
    assert document.dumps("a\x1f\n\\u001f") == '"a\\u001F\\n\\\\u001f"'


def test_redaction_leaves_the_original_alone():
    doc = {"managerSettings": {"items": [{"name": "P", "value": "secret", "sensitive": True}]},
           "peers": [{"name": "p", "password": "x"}], "users": [{"name": "u", "pwHash": "h", "pwSalt": 1}]}  # fmt: skip
    copy = hidden(doc, Hide(values=True, accounts=True, peers=True))
    assert copy["managerSettings"]["items"][0] == {"name": "P", "value": "REDACTED", "sensitive": True}
    assert (copy["peers"][0]["password"], copy["users"]) == ("REDACTED", [{"name": "u"}])
    assert doc["managerSettings"]["items"][0]["value"] == "secret"


def test_secrets_without_a_flag_are_known_by_name():
    listed = [{"name": "KDC_ADMIN_PASSWORD", "value": "x"}, {"name": "KDC_HOST", "value": "y"}]
    doc = {"managerSettings": {"items": listed}}
    assert [item["value"] for item in hidden(doc, Hide(values=True))["managerSettings"]["items"]] == ["REDACTED", "y"]


@pytest.mark.parametrize("name", [name for name, fault in FAULTS.items() if fault.target != HOST])
def test_every_fault_strikes_where_it_is_aimed_and_as_often_as_it_says(name):
    box, fault = FaultBox(), FAULTS[name]
    box.add("", name)
    assert fault.target in TARGETS
    assert all(target in TARGETS for target in fault.targets)
    calls = {"export": "GET /api/v49/cm/deployment", "restore": "PUT /api/v49/cm/deployment",
             "delete": "DELETE /api/v49/clusters/base", "commands": "POST /api/v49/clusters/base/commands/stop",
             "truststore": "GET /api/v49/certs/truststorePassword", "virtual-cluster": "GET /dex/api/v1/info",
             "writes": "POST /dex/api/v1/jobs", "lists": "GET /dex/api/v1/jobs", "gateway": "GET /gateway/x",
             "downloads": "GET /dex/api/v1/resources/a/b", "logs": "GET /dex/api/v1/job-runs/1/logs",
             "config": "PUT /api/v45/cm/config", "kubectl": "kubectl get nodes",
             "services": "POST /api/v45/clusters/base/services/hdfs/commands/stop"}  # fmt: skip
    call = calls.get(fault.target, "GET /api/version")
    assert box.strikes(name, call), f"name in `calls` one that {fault.target!r} means"
    assert box.strikes(name, call) is (fault.count != ONCE)


def test_a_fault_of_hosts_cannot_be_aimed_at_calls():
    with pytest.raises(UnknownFault, match="strikes hosts"):
        FaultBox().add("", "swappiness-60")


def test_a_fault_aimed_at_one_call_spares_the_others():
    box = FaultBox()
    box.add("polling", "error-500-once")
    assert not box.strikes("error-500-once", "GET /api/version")
    assert box.strikes("error-500-once", "GET /api/v49/commands/7")


@pytest.mark.parametrize(("target", "name"), [("", "no-such"), ("truststore", "put-slow"), ("nowhere", "proxy-502")])
def test_what_cannot_be_broken_is_said(target, name):
    with pytest.raises(UnknownFault):
        FaultBox().add(target, name)


@pytest.mark.parametrize("name", SWITCHES)
def test_every_switch_takes_its_default_and_says_what_it_means(name):
    check(name, SWITCHES[name].default)
    assert SWITCHES[name].meaning
    assert SWITCHES[name].section


@pytest.mark.parametrize("word", ["redirect-code=200", "no-such=1", "down-seconds=soon", "redirect-code"])
def test_a_switch_that_makes_no_sense_is_refused(word):
    with pytest.raises(UnknownSwitch):
        parse([word])


def test_switches_are_read_by_name():
    assert Switches(parse(["redirect-code=307"]))["redirect-code"] == "307"
    assert Switches()["redirect-code"] == "302"


def received(raw: bytes, left: int | None) -> bytes:
    """Return the body that an exchange takes from what comes; `left` is its length, None for chunks."""
    exchange = ManagerExchange.__new__(ManagerExchange)  # without a connection
    exchange.rfile, exchange._left = io.BytesIO(raw), left
    return b"".join(exchange.received())


@pytest.mark.parametrize("raw", [b"", b"5\r\nabc", b"5\r\nabcdeXX\r\n0\r\n\r\n", b"3\r\nabc\r\n"])
def test_chunks_that_end_early_are_no_body(raw):
    with pytest.raises(BodyCut):
        received(raw, None)


def test_chunks_are_joined():
    assert received(b"3;note=1\r\nabc\r\n2\r\nde\r\n0\r\nTrailer: x\r\n\r\n", None) == b"abcde"


def test_a_body_shorter_than_its_length_is_no_body():
    with pytest.raises(BodyCut):
        received(b"abc", 4)


def test_the_configuration_is_yaml_that_reads_back():
    import yaml as pyyaml

    value = {"a": {"b": "x: y", "n": 1}, "l": [{"k": "v", "g": ["a", "b"]}, {"k": "w", "g": []}], "e": []}
    assert pyyaml.safe_load(yaml(value)) == value
