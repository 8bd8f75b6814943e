"""The copy for reading: no secret in it, the server's own style, and the same document otherwise."""

import json
import re
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any, SupportsIndex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from maint.deployment.compare import compare
from maint.deployment.judge import Judge
from maint.deployment.normalize import normalize
from maint.deployment.reader import Reader, blocks
from maint.deployment.redacted_copy import RedactedCopy
from maint.deployment.secrets import Fingerprint, SecretIndex, masked, secret_name
from maint.deployment.secrets_in_text import veiled

FINGERPRINT = Fingerprint(b"k" * 32)


def judged(content: bytes) -> SecretIndex:
    known = SecretIndex()
    judge = Judge(secrets=known)
    judge.feed(content)
    judge.close()
    return known


def copy(content: bytes, fingerprint: Callable[[str], str] = FINGERPRINT, size: int = 4096) -> bytes:
    pieces = iter([content[at : at + size] for at in range(0, len(content), size)])
    return b"".join(blocks(RedactedCopy(pieces, judged(content), fingerprint).read, 1000))


def secrets(path: Path) -> set[str]:
    """All secrets of a document that are long enough to be told from chance."""
    document, found = json.loads(path.read_bytes()), set()

    def walk(value: Any) -> None:
        if isinstance(value, dict):
            name = str(value.get("name", "")).lower()
            if value.get("sensitive") or (
                "sensitive" not in value and name.endswith(("password", "secret_key", "signature_secret"))
            ):
                found.add(str(value.get("value")))
            found.update(str(value[key]) for key in ("pwHash", "pwSalt", "password") if key in value)
        for child in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
            walk(child)

    walk(document)
    return {secret for secret in found if len(secret) >= 8}


def test_the_style_is_the_servers_byte_for_byte(deployment: Path) -> None:
    content = deployment.read_bytes()
    shown = copy(content, fingerprint=lambda value: value)
    salts_as_numbers = json.loads(content, parse_int=str)
    assert json.loads(shown, parse_int=str) == salts_as_numbers
    lines = shown.replace(b'"pwSalt" : "', b'"pwSalt" : ').splitlines()
    same = sum(1 for line, original in zip(lines, content.splitlines(), strict=False) if line == original)
    assert len(lines) == len(content.splitlines())
    assert same >= len(lines) - 2 * len(salts_as_numbers["users"])


def test_a_copy_compares_equal_holds_as_much_and_no_secret_and_one_in_clear_is_seen(deployment: Path) -> None:
    content = deployment.read_bytes()
    shown = copy(content)
    wanted = secrets(deployment)
    assert wanted
    assert [secret for secret in wanted if secret in shown.decode()] == []
    verdict = Judge().verdict([shown])
    assert {**verdict.judgement.counts, "redacted": 0} == {**Judge().verdict([content]).judgement.counts, "redacted": 0}
    assert verdict.summary.secrets == 0
    hidden = rb'"value" : "(fp:[0-9a-f]{16})",\n *"sensitive" : true|"(?:pwHash|pwSalt)" : "(fp:[0-9a-f]{16})"'
    for found in list(re.finditer(hidden, shown))[::20]:
        begin, end = found.span(found.lastindex or 0)
        assert Judge().verdict([shown[:begin] + b"in clear" + shown[end:]]).summary.secrets == 1
    compared = compare(normalize(iter([content]), FINGERPRINT), normalize(iter([shown]), FINGERPRINT))
    assert compared.not_comparable == []
    assert [one for one in compared.differences if "fp:" not in str(one.after)] == []


def test_a_known_secret_inside_free_text_is_replaced(
    recording: Callable[[str], Path], spoiled: Callable[..., bytes]
) -> None:
    def hide_inside(item: dict[str, Any]) -> None:
        if item.get("name") == "KDC_HOST":
            item["value"] = "jdbc:x?password=Xq7mB2vN9sT4kL8pR1wZ6yC3dF5gH0jKuEaQoViMnbY&kdc-admin-Pw-12end"

    shown = copy(spoiled(recording("example"), hide_inside)).decode()
    assert "Xq7mB2vN9sT4" not in shown
    assert "kdc-admin-Pw-12" not in shown
    assert '"jdbc:x?password=fp:' in shown


@pytest.mark.parametrize("flag", ['"true"', "1", '"no"', "{ }"])
def test_a_flag_that_is_neither_yes_nor_no_hides(flag: str) -> None:
    content = b'{"managerSettings" : {"items" : [ {"name" : "x", "value" : "Canary-1", "sensitive" : %s} ]}}'
    assert b"Canary" not in copy(content % flag.encode())


def test_a_value_whose_flag_comes_late_is_still_hidden() -> None:
    content = b'{"managerSettings" : {"items" : [ {"value" : "hunter2hunter2", "name" : "x", "sensitive" : true} ]}}'
    assert b"hunter2" not in copy(content, size=3)
    nested = b'{"managerSettings" : {"items" : [ {"value" : "hunter2hunter2", "more" : {}, "sensitive" : true} ]}}'
    assert b"hunter2" not in copy(nested, size=3)
    before = b'{"managerSettings" : {"items" : [ {"more" : [], "value" : "hunter2hunter2", "sensitive" : true} ]}}'
    assert b"hunter2" not in copy(before, size=3)


@pytest.mark.parametrize("text", ["\u00e9\U0001f600", 'quote " and \\', "tab\tnew\nline", "\u2028"])
def test_any_text_survives(text: str) -> None:
    content = json.dumps({"clusters": [], "note": text, "empty": {}, "numbers": [1, -2.5, True, None]}).encode()
    assert json.loads(copy(content)) == json.loads(content)


@given(st.lists(st.text("ab-", min_size=4, max_size=12), min_size=1), st.text("ab- ", max_size=60))
def test_known_secrets_are_found_wherever_they_count(words: list[str], text: str) -> None:
    known = SecretIndex()
    for word in words:
        known.add(word)
    spans = list(known.found(text))
    assert all(text[start:end] in words for start, end in spans)
    assert all(before[1] <= after[0] for before, after in pairwise(spans))
    rest = text
    for start, end in reversed(spans):
        rest = rest[:start] + "\0" + rest[end:]
    assert not [word for word in words if len(word) >= 8 and word in rest]


def test_short_secrets_count_as_whole_words_and_tiny_ones_never() -> None:
    known = SecretIndex()
    for secret in ("hive", "sys"):
        known.add(secret)
    assert list(known.found("/var/lib/hive/x hiveserver sys")) == [(9, 13)]


def test_very_many_secrets_that_begin_alike_are_all_found() -> None:
    known = SecretIndex()
    secrets = [f"enc:{number:06d}" for number in range(0, 40_000, 7)]
    for secret in [*secrets, *secrets]:
        known.add(secret)
    for secret in (secrets[0], secrets[99], secrets[-1]):
        assert list(known.found(f"x{secret}y enc:000001")) == [(1, 11)]


@given(st.lists(st.text("aé\U0001f600\x00\ud800", min_size=4, max_size=9), min_size=1, max_size=6))
def test_secrets_of_any_characters_are_found(words: list[str]) -> None:
    known = SecretIndex()
    for word in words:
        known.add(word)
    for word in words:
        assert next(known.found(word), None) == (0, len(word))


@pytest.mark.parametrize("window", [8, 1 << 18])
def test_a_list_or_an_object_in_a_secrets_place_is_one_fingerprint(
    window: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Reader, "window", window)
    held = {"deep": [1, None, {"x": "hunter2hunter2"}], "long": "s" * 100}
    items = [
        {"name": "a_password", "value": [held], "sensitive": True},
        {"name": "b", "value": "c", "sensitive": False},
    ]
    document = {"peers": [{"name": "dr", "password": [held, held]}, {"password": held}], "config": {"items": items}}
    shown = json.loads(copy(json.dumps(document).encode()))
    listed, single = shown["peers"]
    hidden = [listed["password"], single["password"], shown["config"]["items"][0]["value"]]
    assert len(set(hidden)) == 3
    assert all(masked(one) for one in hidden)
    assert listed["name"] == "dr"
    assert shown["config"]["items"][1] == items[1]


_KEYS = st.sampled_from(["name", "value", "sensitive", "password", "items", "x"])
_VALUES = st.recursive(
    st.sampled_from([None, True, False, 0, 1.5, "db_password", "REDACTED", "known secret", "x", ""]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_KEYS, inner, max_size=6),
    max_leaves=30,
)


@given(st.dictionaries(_KEYS, _VALUES, max_size=6), st.sampled_from([1, 2, 8, 40]))
def test_a_copy_is_the_same_whether_its_objects_are_taken_whole_or_member_by_member(
    document: dict[str, Any], window: int
) -> None:
    content = json.dumps(document).encode()
    known = SecretIndex()
    known.add("secret")
    whole = RedactedCopy(iter([content]), known, FINGERPRINT).read(1 << 20)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Reader, "window", window)
        pieces = iter([content[at : at + 16] for at in range(0, len(content), 16)])
        assert RedactedCopy(pieces, known, FINGERPRINT).read(1 << 20) == whole


@pytest.mark.parametrize("again", ['"sensitive": 0', '"sensitive": false', '"name": "x"', '"value": "y"'])
def test_a_value_is_hidden_where_a_key_of_its_object_stands_twice(again: str) -> None:
    content = f'{{"items": [{{"name": "x", "value": "plain words", "sensitive": {{}}, {again}}}]}}'.encode()
    assert b"plain words" not in b"".join(blocks(RedactedCopy(iter([content]), SecretIndex(), FINGERPRINT).read, 1000))
    content = content.replace(b"{}", b"false")
    assert b"plain words" not in b"".join(blocks(RedactedCopy(iter([content]), SecretIndex(), FINGERPRINT).read, 1000))


# Texts that hold a secret beside other things; what stands in brackets is the secret.
WITHIN_TEXTS = [
    "<name>fs.s3a.secret.key</name><value>[AKIA/abc+1=]</value></property><property><name>a</name><value>b</value>",
    "<name>ssl.password</name>\n  <value>[x]</value>\n<name>ssl.location</name><value>/a</value>",
    "jdbc:mysql://db:3306/hive?user=hive&password=[s3cr]&useSSL=true",
    "jdbc:sqlserver://db;user=x;password=[a,b];encrypt=true",
    "-Xmx1g -Djavax.net.ssl.trustStorePassword=[changeit] -Dx.y=z",
    "A=1\nexport AWS_SECRET_ACCESS_KEY=[a b c]\nB=2",
    "ssl.keystore.password = [my pass word]\nssl.keystore.path = /x",
    'OPTS="-Da.password=[abc] -Dq=1"',
    '{"user": "a", "password": "[p\\\\\\"q]", "b": "c"}',
    "{'password': '[pq]', 'secret.file': '/a'}",
    '{"text": "{\\"api_key\\": \\"[x1]\\", \\"b\\": 1}"}',
    '{"token": [12345], "b": 1}',
    "security.ssl.internal.enabled: true\nsecurity.ssl.internal.key-password: [S3cret1]\nparallelism: 1",
    "users:\n  - password: [a b]\n    name: x",
    "fs.azure.account.key.x.blob.core.windows.net=[S3cret==]",
    "-Dssl.password=[pa;ss&1] -Dx=y",
    "http://user:[p%40ss]@proxy:80/x",
    "<property><value>[x1]</value><name>a.password</name></property><property><value>b</value><name>c</name></property>",
    "<name>a.password</name><final>true</final><value>[x1]</value></property><property><name>b</name><value>c</value>",
    "<name>a.password</name><!-- old: <value>y</value> --><value>[x1]</value><name>b</name><value>c</value>",
    "<gateway><systemPassword>[x1]</systemPassword><user>b</user></gateway>",
    '<param name="keystorePassword" value="[x 1]"/><param name="keystore" value="/a"/>',
    '{"password" : "[x1]", "user" : "b"}',
    "sasl:\n  user: a\n  password: [x 1]\n  file: /a",
    "- secret: '[x 1]'\n- name: b",
    "a.password=[x1\\\n  x2]\nuser=b",
    "a.password=[${USER}x1]\nuser=b",
    "mongodb://a:[pq]@h1,h2/?authSource=x",
    "<name>db.password</name>\n<description>of the account</description>\n<final>true</final>\n<value>[pq]</value>",
    "https://user:[p@q@r]@proxy:80/x@y",
    "amqp://a:[pq]@h1:5672,b@c/x",
    'export DB_PASSWORD="[it\'s]"; A=1',
    "export DB_PASSWORD='[a\"b]'; A=1",
    '{"password": "[it\'s]", "b": 1}',
    '{"text": "{\\"password\\": \\"[it\'s]\\", \\"b\\": 1}"}',
    "sqoop import --username u --password [x1] --table t",
    "keytool -keystore /a -storepass '[x 1]' -alias b",
    "spark.ssl.enabled true\nspark.ssl.keyPassword   [x1]\nspark.ui.port 4040",
    "jdbc:oracle:thin:scott/[x1]@//host:1521/svc",
    "jdbc:impala://h:21050;AuthMech=3;UID=x;PWD=[x1]",
    "jdbc:mysql://h/db?user=a&amp;password=[x1]&amp;ssl=true",
    'PlainLoginModule required username="a" user_b="[x1]";',
    '{"Authorization": "Basic [YTpi]", "b": "c"}',
    "0 1 * * * curl -sf -u 'a:[x1]' https://h/x",
    "curl --user password=[x1] b",
    "--a.password [://b] c",
    "uri ldap://h\nbindpw [x 1]\nbase dc=a",
    "machine h login a password [x1]\nmachine b",
    "machine h\n  login a\n  password [x1]",
    "default login a password [x1]",
    "0 1 * * * ldapsearch -x -D cn=a -w [x1] -b dc=a",
    "ldapsearch -xw '[x 1]' -b dc=a",
    "ldapsearch -x \\\n  -D cn=a \\\n  -w [x1] -b dc=a",
    "beeline -u 'jdbc:hive2://h:10000/;ssl=true' -n a -p [x1] -e b",
    "sshpass -p [x1] ssh h",
    "mysqldump -u a -p[x1] metastore | gzip",
    "schematool -dbType mysql -initSchema -userName hive -passWord [x1]",
    "java a --url jdbc:mysql://h/b -password [x1]",
    "beeline -u 'jdbc:hive2://h/;trustStorePassword=[x1]' -n a -p ${P}",
    "-----BEGIN PRIVATE KEY-----[\nMIIE\n]-----END PRIVATE KEY-----",
    "db:\n  password: |\n    [x 1\n\n    x2]\n  user: b",
    "db:\n  password: '[it''s]'\n  user: b",
    "db: {password: [x1], user: b}",
    "- name: DB_PASSWORD\n  value: [x 1]\n- name: A\n  value: b",
    '{"a": {"name": "a.password", "value": "[x1]"}, "b": {"name": "a", "value": "b"}}',
    '{"a": "{\\"b\\": \\"{\\\\\\"password\\\\\\": \\\\\\"[x1]\\\\\\"}\\"}"}',
    '<Property name="password">[x1]</Property><Property name="a">b</Property>',
    '<password encrypted="no">[x1]</password><user a="b">c</user>',
    '<property value="[x1]" name="password"/><property value="a" name="b"/>',
    '<property name="password" type="c" value="[x1]"/>',
    '<param\n  name="password" value="[x1]"/>',
    "export DB_PASS=[x1]",
    "password := [x1]",
    "userPassword:: [eDE=]",
    "CREATE USER a IDENTIFIED BY '[x1]';",
]


@pytest.mark.parametrize("text", WITHIN_TEXTS)
def test_a_secret_within_a_text_is_hidden_and_nothing_else_of_it(text: str) -> None:
    clear = re.sub(r"\[([^]]*)\]", r"\1", text)
    (secret,) = re.findall(r"\[([^]]*)\]", text)
    item = {"name": "core_site_safety_valve", "value": clear, "sensitive": False}
    content = json.dumps({"managerSettings": {"items": [item]}}).encode()
    shown = copy(content)
    (found,) = json.loads(shown)["managerSettings"]["items"]
    assert found["value"] == clear.replace(secret, FINGERPRINT(secret), 1)
    assert not compare(normalize([content], FINGERPRINT), normalize([shown], FINGERPRINT)).differences
    assert veiled(found["value"], FINGERPRINT) == found["value"]


@pytest.mark.parametrize(
    "text",
    [
        "beeline -u 'jdbc:hive2://h/;ssl=true;trustStorePassword=[x1]' -n a -p [x2]",
        "ldapsearch -H ldaps://a:[x1]@h -D a -w [x2]",
        "mysql --password=[x1] -h h -p[x2]",
    ],
)
def test_all_secrets_of_one_command_are_hidden(text: str) -> None:
    clear = re.sub(r"\[([^]]*)\]", r"\1", text)
    assert veiled(clear, lambda secret: f"[{secret}]") == text


@pytest.mark.parametrize("end", ["]]></value>", ""])
def test_a_secret_of_an_advanced_snippet_is_hidden_without_the_marks_around_it(end: str) -> None:
    text = f"<name>a.password</name><value><![CDATA[x<1{end}"
    assert veiled(text, lambda secret: f"({secret})") == text.replace("x<1", "(x<1)")


@pytest.mark.parametrize(
    "text",
    [
        "password.required=true",
        "hadoop.security.credential.provider.path=jceks://hdfs@nn/a",
        "password=${PASSWORD}",
        "password=",
        "password=fp:0123456789abcdef",
        "https://host:80/a@b",
        "a=b&c=d",
        "hdfs://nameservice1:8020/user",
        "2026-11-29T04:00:00 INFO: token of x",
        '{"token": null}',
        "password=$(cat /etc/maint/p)",
        "password: ${PASSWORD}",
        "<name>a</name><value>b</value><name>c.password</name><value></value>",
        "see password: below",
        "password: |\nuser: b",
        "--password-file /a --password-alias b --password",
        "ssl.private.key=/etc/pki/a.pem",
        "curl -u hdfs: https://h; beeline -u jdbc:hive2://h:10000/a",
        "chown -u 1:2",
        "mysql -u a -p metastore; mkdir -p /data/x",
        "beeline -u jdbc:hive2://h; mkdir -p data/x",
        "ldap.server ldap://h -w",
        "-Da.url=ldaps://h:636 -Dwebhdfs.enabled=true",
        "java a --url jdbc:mysql://h/b -port 3306",
        "login of a password",
        "sign in with your login and password wherever asked",
        "password policy of hosts",
        '<property name="password"/> <property name="a">b</property>',
        "jdbc:oracle:thin:/@host",
    ],
)
def test_what_only_speaks_of_a_secret_within_a_text_stays(text: str) -> None:
    assert veiled(text, lambda secret: f"[{secret}]") == text


@pytest.mark.timeout(20)  # seconds, of which the longest takes a third of one
@pytest.mark.parametrize(
    "text",
    [
        "a=" * 50_000,
        '"' * 100_000,
        "://a:" * 20_000,
        "<name>" * 17_500,
        "<name>a</name><description>" * 5_000,
        "<name>a</name><!--" * 10_000,
        "<value>a</value>" * 5_000,
        "password=x -D" * 5_000,
        'password="' * 10_000,
        " " * 100_000 + "=",
        "-u a: " * 17_500,
        "oracle:thin:a/" * 7_500,
        'value="' * 15_000,
        'name="a"' * 12_500,
        "name: a " * 12_500,
        "password: |\n " * 7_500,
        "\\" * 100_000 + '"',
        "-----BEGIN PRIVATE KEY-----" * 3_750,
    ],
)
def test_a_long_text_takes_time_only_by_its_length(text: str) -> None:
    """Each would take a minute and more if every beginning were followed to the end."""
    assert len(veiled(text, lambda _: "")) <= len(text)


class _Counted(str):
    """A text that counts the characters taken out of it, and how often it is searched for a word."""

    taken = searched = 0

    def __getitem__(self, key: SupportsIndex | slice) -> str:
        found = super().__getitem__(key)
        self.taken += len(found)
        return found

    def __contains__(self, word: str) -> bool:
        self.searched += 1
        return super().__contains__(word)


def test_of_a_long_line_full_of_passwords_only_what_is_near_each_is_looked_at() -> None:
    text = _Counted("x password=y " * 2_000)
    veiled(text, lambda _: "")
    assert text.taken < 100 * 2_000


def test_what_a_text_must_hold_besides_is_searched_for_once_and_not_at_each_place() -> None:
    text = _Counted("-u a: " * 2_000 + "=")
    veiled(text, lambda _: "")
    assert text.searched < 20


def test_what_names_a_secret_within_a_text_alone_changes_no_count_of_older_manifests() -> None:
    text = "DB_PASS=x1;PWD=x1;bindpw=x1"
    assert "x1" not in veiled(text, lambda _: "")
    assert not any(secret_name(name) for name in ("db_pass", "pwd", "bindpw", "sig", "encryption_key"))
