"""The schema accepts every promised key, and says what is wrong with the others where it stands."""

import re
from pathlib import Path

import pytest
from pydantic import ValidationError

from maint.config import precedence, sites, yaml
from maint.config.fields import url
from maint.config.sample import json_schema, reference
from maint.config.schema import Bootstrap, HostSettings, Jump, Keep, Login, SiteSettings, Sudo
from maint.errors import Invalid, Position

RECIPIENT = "age1" + "q" * 58
PUBLIC_KEY = "ssh-ed25519 " + "A" * 68

FULL = f"""\
state: /srv/maint
report: {{folder: /srv/www/maint}}
sites:
  prod:
    labels: {{region: eu, tier: gold}}
    manager:
      host: cm.example.internal
      plain_port: 7180
      tls_port: 7183
      username: admin
      password: file:/etc/maint/manager-password
      bootstrap: {{username: admin, password: "env:CM_BOOTSTRAP_PASSWORD"}}
      ca: /etc/maint/manager-ca.pem
      api: {{clusters: v45, deployment: v49}}
      license: /etc/maint/license.txt
    ssh: {{user: root, key: /etc/maint/id_ed25519, known_hosts: /etc/maint/known_hosts, port: 22, at_once: 64,
          connect_timeout: 10s, command_timeout: 60s, jump: {{host: bastion, user: ops, port: 2222}},
          sudo: {{password: "env:SUDO"}}}}
    app_domain: apps.example.internal
    accepted: [{{check: os.selinux, hosts: [ecs-1], reason: agreed with security, owner: ops, until: 2027-06-30}}]
    hosts:
      - {{name: cm, address: cm.example.internal, port: 22, groups: [manager]}}
      - {{name: ecs-1, address: 10.0.0.21, groups: [ecs-master, ecs]}}
    backup:
      on_redacted: problem
      store: /var/lib/maint/backups
      copies: [s3://bucket/maint, copies]
      recipients: [{RECIPIENT}]
      identity: file:/etc/maint/identity
      keep: {{last: 3, daily: 7, weekly: 5, monthly: 12}}
      max_age: 30h
      minimum: 3
      signing_key: file:/etc/maint/signing
      fingerprint_key: file:/etc/maint/fingerprint
      trusted_keys: ["{PUBLIC_KEY}"]
    metrics: metrics/maint.prom
    proxy: http://proxy.example.internal:3128
    hooks: {{before_run: [[/bin/may-we, prod]], after_run: [[/bin/free]], on_failure: [[/bin/ticket]], timeout: 5s}}
    shared_state: sftp://maint@state.example.internal/srv/state
    shared_state_key: file:/etc/maint/shared-state-key
    notify:
      - name: night-shift
        on: [failure, recovered]
        verbs: [backup create]
        timeout: 5s
        webhook: {{url: file:/etc/maint/chat, format: slack, token: "env:TOKEN", ca: /etc/maint/ca.pem}}
        mail: {{host: mail.example.internal, port: 25, tls: starttls, username: maint, password: "env:MAIL",
               sender: maint@example.internal, to: [ops@example.internal], ca: /etc/maint/ca.pem}}
        ping: {{url: "https://ping.example/uuid", start: /start, success: "", failure: /fail, ca: /etc/maint/ca.pem}}
        exec: {{command: [/usr/local/bin/page, --now]}}
    virtual_clusters:
      - name: default-vc
        base_url: https://abcd1234.cde-efgh5678.apps.example.internal/dex/api/v1
        auth_url: https://service.cde-efgh5678.apps.example.internal
        token_service: knoxtoken
        username: etl_user
        password: credential:etl_password
        ca: /etc/maint/apps-ca.pem
        connect_to: 10.0.0.21:443
        tls: {{cert: /etc/maint/vc.pem, key: file:/etc/maint/vc.key}}
        utility: /opt/maint/cde-utils.sh
        users: [{{name: etl_user, principal: etl_user@EXAMPLE.INTERNAL, keytab: file:/etc/maint/etl_user.keytab}}]
"""

SMALL = """\
sites:
  prod:
    manager:
      host: cm
      password: env:PASSWORD
"""


def load(tmp_path: Path, text: str) -> SiteSettings:
    file = tmp_path / "config.yaml"
    file.write_text(text)
    return precedence.load_settings(precedence.ConfigFlags(config=str(file)), {}).site()


def test_every_key_of_the_promised_sample_reaches_the_settings(tmp_path: Path) -> None:
    site = load(tmp_path, FULL)
    assert site.state == Path("/srv/maint/prod")
    assert site.labels == {"region": "eu", "tier": "gold"}
    assert site.manager.login == Login(username="admin", password="file:/etc/maint/manager-password")
    assert site.manager.bootstrap == Bootstrap(username="admin", password="env:CM_BOOTSTRAP_PASSWORD")
    assert (site.manager.api.clusters, site.manager.api.deployment) == (45, 49)
    assert site.manager.license == Path("/etc/maint/license.txt")
    assert site.ssh is not None
    assert site.ssh.jump == Jump(host="bastion", user="ops", port=2222)
    assert (site.ssh.sudo, site.ssh.command_timeout) == (Sudo(password="env:SUDO"), 60.0)
    assert site.ssh.sudo_password == "env:SUDO"
    assert site.accepted[0].until.isoformat() == "2027-06-30"
    assert site.metrics == tmp_path / "metrics/maint.prom"
    assert site.proxy == "http://proxy.example.internal:3128"
    assert site.hooks
    assert (site.hooks.before_run, site.hooks.timeout) == ((("/bin/may-we", "prod"),), 5.0)
    assert site.shared_state == "sftp://maint@state.example.internal/srv/state"
    assert site.shared_state_key == "file:/etc/maint/shared-state-key"
    (notice,) = site.notify
    assert notice.webhook and notice.mail and notice.ping and notice.exec
    assert (notice.on, notice.verbs, notice.timeout) == (("failure", "recovered"), ("backup create",), 5.0)
    assert (notice.webhook.format, notice.mail.at) == ("slack", ("mail.example.internal", 25))
    assert (notice.ping.failure, notice.exec.command) == ("/fail", ("/usr/local/bin/page", "--now"))
    assert set(notice.references().values()) == {"file:/etc/maint/chat", "env:TOKEN", "env:MAIL"}
    assert site.hosts_in("ecs") == (HostSettings(name="ecs-1", address="10.0.0.21", groups=("ecs-master", "ecs")),)
    assert site.backup is not None
    assert site.backup.max_age == 30 * 3600
    assert site.backup.keep == Keep(last=3, daily=7, weekly=5, monthly=12)
    assert site.backup.copies == ("s3://bucket/maint", str(tmp_path / "copies"))
    assert site.backup.fingerprint_key == "file:/etc/maint/fingerprint"
    cluster = site.virtual_clusters[0]
    assert cluster.tls is not None
    assert (cluster.connect_to, cluster.tls.key) == ("10.0.0.21:443", "file:/etc/maint/vc.key")
    assert cluster.users[0].principal == "etl_user@EXAMPLE.INTERNAL"


def test_what_is_left_out_has_its_default(tmp_path: Path) -> None:
    site = load(tmp_path, SMALL)
    assert (site.manager.plain_port, site.manager.tls_port, site.manager.login.username) == (7180, 7183, "admin")
    assert site.manager.bootstrap == Bootstrap(username="admin", password="factory:")
    assert (site.ssh, site.backup, site.hosts) == (None, None, ())


def test_local_stores_and_paths_start_from_the_folder_of_the_file(tmp_path: Path) -> None:
    text = SMALL + f"      ca: ca.pem\n    backup: {{store: snapshots, recipients: [{RECIPIENT}]}}\n"
    site = load(tmp_path, text)
    assert site.manager.ca == tmp_path / "ca.pem"
    assert site.backup is not None
    assert site.backup.store == str(tmp_path / "snapshots")


def test_sudo_may_be_a_plain_true(tmp_path: Path) -> None:
    site = load(tmp_path, SMALL + "    ssh: {sudo: true}\n")
    assert site.ssh is not None
    assert (site.ssh.sudo, site.ssh.sudo_password) == (True, None)


# A caret in the new text marks where the mistake is to be found.
@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("host: cm.example", "^hots: cm.example", "unknown key 'hots'"),
        ("plain_port: 7180", "plain_port: ^71800", "65535 or less"),
        ("plain_port: 7180", "plain_port: ^'7180'", "must be a whole number, not text"),
        (
            "sftp://maint@state.example.internal/srv/state",
            "^s3://bucket/maint/",
            "must differ from the stores of the backups",
        ),
        (
            "shared_state_key: file:/etc/maint/shared-state-key",
            "shared_state_key: ^file:/etc/maint/identity",
            "must differ from backup.identity",
        ),
        (
            "shared_state: sftp://maint@state.example.internal/srv/state\n    shared_state_key: file",
            "shared_state_key: ^file",
            "seals nothing without a shared_state",
        ),
        (
            "proxy: http://proxy",
            "proxy: ^http://me:hunter2@proxy",
            "must be http://HOST:PORT, without user or password",
        ),
        ("proxy: http://", "proxy: ^https://", "must be http://HOST:PORT"),
        (
            "proxy: http://proxy.example.internal:3128",
            "proxy: ^http://proxy.example.internal",
            "must be http://HOST:PORT",
        ),
        ("tls_port: 7183", "tls_port: ^7180", "must differ from plain_port"),
        ("host: cm.example.internal\n", "host: ^https://cm.example.internal\n", "must be a host name"),
        ("host: cm.example.internal\n", "host: ^fe80::1%lo\n", "must not name a zone"),
        (
            "proxy: http://proxy.example.internal:3128",
            "proxy: ^http://[fe80::1%25lo]:3128",
            "must not name a zone",
        ),
        ("base_url: https://abcd1234", "base_url: ^https://[fe80::1%lo]/#", "must not name a zone"),
        ("base_url: https://abcd1234", "base_url: ^https://u/dex/api/v2 #", "must end with /dex/api/v1"),
        ("base_url: https://abcd1234", "base_url: ^https://u?x=1#", "nothing behind the path"),
        ("auth_url: https://service", "auth_url: ^https://u?x=1#", "nothing behind the path"),
        ("connect_timeout: 10s", "connect_timeout: ^0s", "must be more than 0"),
        ("command_timeout: 60s", "command_timeout: ^0s", "must be more than 0"),
        ("connect_to: 10.0.0.21:443", "connect_to: ^'[fe80::1%lo]:443'", "must not name a zone"),
        ("store: /var/lib/maint/backups", "store: ^sftp://u@[fe80::1%lo]/srv", "must not name a zone"),
        ("base_url: https://abcd1234", "base_url: ^https://.abcd1234", "must name a host or an address"),
        ("auth_url: https://service", "auth_url: ^https://a%zz/#", "must name a host or an address"),
        ("auth_url: https://service", f"auth_url: ^https://{'a' * 64}", "must name a host or an address"),
        ("proxy: http://proxy", "proxy: ^http://a..proxy", "must name a host or an address"),
        ("store: /var/lib/maint/backups", "store: ^sftp://u@a..b/srv", "must name a host or an address"),
        ("clusters: v45", "clusters: ^45", "must be an API version"),
        ("connect_timeout: 10s", "connect_timeout: ^soon", "is not a duration"),
        ("connect_timeout: 10s", "connect_timeout: ^99999999999d", "at most 36500d"),
        ("connect_timeout: 10s", "connect_timeout: ^1.0e+300", "at most 36500d"),
        ("connect_timeout: 10s", f"connect_timeout: ^1{'0' * 400}", "at most 36500d"),
        ("at_once: 64", "at_once: ^0", "must be 1 or more"),
        ("hosts: [ecs-1], reason", "hosts: [^ecs-2], reason", "there is no host 'ecs-2'"),
        ("until: 2027-06-30", "until: ^soon", "must be a date"),
        (
            "{check: os.selinux, hosts: [ecs-1], reason: agreed with security, owner: ops,",
            "^{check: os.selinux, hosts: [ecs-1], reason: agreed with security,",
            "'owner'",
        ),
        (
            "{check: os.selinux, hosts: [ecs-1], reason: agreed with security, owner: ops, until: 2027-06-30}",
            "^{check: os.selinux, hosts: [ecs-1], reason: agreed with security, owner: ops}",
            "'until'",
        ),
        ("owner: ops", "owner: ^' '", "must say something"),
        ("tls: starttls", "tls: ^none", "only to this machine itself"),
        ("url: file:/etc/maint/chat", "url: ^http://chat.example/s3cret", "must begin with https://"),
        ("url: file:/etc/maint/chat", "url: ^s3cret", "must be a reference"),
        ('username: maint, password: "env:MAIL",', "username: ^maint,", "has no password beside it"),
        ("on: [failure, recovered]", "on: [failure, ^always]", "must be"),
        ("reason: agreed with security", "reason: ^''", "must say something"),
        ("utility: /opt/maint/cde-utils.sh", "utility: ^cde-utils.sh", "must be the absolute path"),
        ("utility: /opt/maint/cde-utils.sh", "utility: ^/opt/", "must be the absolute path"),
        ("name: ecs-1", "name: ^cm", "'cm' is given twice"),
        ("name: ecs-1", "name: ^CM", "'CM' is given twice"),
        ("groups: [manager]", "groups: [^man ager]", "must be a name"),
        ("on_redacted: problem", "on_redacted: ^problems", "must be 'problem', 'accept' or 'window'"),
        ("store: /var/lib/maint/backups", "store: ^ftp://x/y", "must be a path, sftp://"),
        ("store: /var/lib/maint/backups", "store: ^sftp:///srv/maint", "must be a path, sftp://HOST/PATH"),
        ("store: /var/lib/maint/backups", "store: ^sftp://backup/", "must be a path, sftp://HOST/PATH"),
        ("store: /var/lib/maint/backups", "store: ^sftp://backup:99999/srv", "must be a path, sftp://HOST/PATH"),
        ("store: /var/lib/maint/backups", "store: ^s3:///prefix", "s3://BUCKET/PREFIX"),
        ("store: /var/lib/maint/backups", "store: ^sftp://u:hunter2@h/y", "must not hold a password"),
        ("store: /var/lib/maint/backups", "store: ^'sftp://u@h/y#2'", "must spell # as %23"),
        ("store: /var/lib/maint/backups", "store: ^'s3://bucket/y?2'", "must spell ? as %3F"),
        (RECIPIENT, "^age1abc", "must be an age public key"),
        (RECIPIENT, "^AGE-SECRET-KEY-1QQ", "is a private key"),
        ("daily: 7", "daily: ^-1", "must be 0 or more"),
        (f'"{PUBLIC_KEY}"', "^AAAA", "must be an OpenSSH public key"),
        ("https://service", "^http://service", "must begin with https://"),
        ("https://service", "^https://u:hunter2@service", "without user or password"),
        ("10.0.0.21:443", "^10.0.0.21", "must be HOST:PORT"),
        ("etl_user@EXAMPLE.INTERNAL", '^"a\\nb"', "one clean line"),
        ("  prod:", '  ^"../prod":', "must be a name"),
        ("state: /srv/maint", "state: ^''", "must be a path"),
        ("state: /srv/maint", f"state: ^/srv/{'m' * 256}", "at most 255 bytes each"),
        ("store: /var/lib/maint/backups", f"store: ^/var/{'ü' * 128}", "at most 255 bytes each"),
    ],
)
def test_a_mistake_is_named_where_it_stands(tmp_path: Path, old: str, new: str, words: str) -> None:
    assert old in FULL
    marked = FULL.replace(old, new, 1)
    before = marked[: marked.index("^")].split("\n")
    with pytest.raises(Invalid) as caught:
        load(tmp_path, marked.replace("^", "", 1))
    assert words in caught.value.message
    assert caught.value.at == Position(str(tmp_path / "config.yaml"), len(before), len(before[-1]) + 1)
    assert "hunter2" not in caught.value.message + "".join(caught.value.detail)


@pytest.mark.parametrize(
    ("store", "copies", "words"),
    [
        ("here", "[^here]", "copies[0]: is the store itself"),
        ("here", "[^here/]", "is the store itself"),
        ("here", "[^away/../here]", "is the store itself"),
        ("here", "[^link]", "is the store itself"),
        ("here", "[away, ^away/.]", "copies[1]: is the same place as a copy before it"),
        ("sftp://u@host/srv", "[^sftp://u@HOST:22/srv/]", "is the store itself"),
        ("s3://bucket/maint", "[^s3://bucket/maint/]", "is the store itself"),
    ],
)
def test_a_copy_is_another_place_than_the_store(tmp_path: Path, store: str, copies: str, words: str) -> None:
    (tmp_path / "link").symlink_to("here")
    manager = "{host: cm, password: env:A}"
    text = (
        f"sites: {{a: {{manager: {manager}, backup: {{store: {store}, copies: {copies}, recipients: [{RECIPIENT}]}}}}}}"
    )
    with pytest.raises(Invalid, match=re.escape(words)) as caught:
        load(tmp_path, text.replace("^", ""))
    assert caught.value.at == Position(str(tmp_path / "config.yaml"), 1, text.index("^") + 1)


SECRET_KEYS = [
    "password: file:/etc/maint/manager-password",
    'password: "env:CM_BOOTSTRAP_PASSWORD"',
    'password: "env:SUDO"',
    "identity: file:/etc/maint/identity",
    "signing_key: file:/etc/maint/signing",
    "fingerprint_key: file:/etc/maint/fingerprint",
    "password: credential:etl_password",
    "key: file:/etc/maint/vc.key",
    "keytab: file:/etc/maint/etl_user.keytab",
]


@pytest.mark.parametrize("line", SECRET_KEYS)
@pytest.mark.parametrize("value", ["hunter2", "hunter2:x", '"env:hunter 2"', "[hunter2]", '"keyring:hunter2"'])
def test_a_bare_secret_is_refused_and_never_repeated(tmp_path: Path, line: str, value: str) -> None:
    key = line.split(":")[0]
    assert line in FULL
    with pytest.raises(Invalid) as caught:
        load(tmp_path, FULL.replace(line, f"{key}: {value}", 1))
    error = caught.value
    assert key in error.message
    assert "hunter" not in error.message + "".join(error.detail) + str(error.hint)


def test_a_backup_needs_somebody_who_can_decrypt_it(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="needs recipients, or an identity"):
        load(tmp_path, SMALL + "    backup: {store: /x}\n")


def test_every_broken_rule_is_told_at_once(tmp_path: Path) -> None:
    text = FULL.replace("tls_port: 7183", "tls_port: 7180").replace("name: ecs-1", "name: cm")
    with pytest.raises(Invalid) as caught:
        load(tmp_path, text)
    assert [re.search(r":(\d+):", line) is not None for line in caught.value.detail] == [True, True]


def test_the_reference_lists_every_key_with_its_meaning() -> None:
    keys = {key.name: key for key in reference()}
    assert keys["sites.NAME.manager.host"].required
    assert keys["sites.NAME.ssh.connect_timeout"].default == 10.0
    assert "sites.NAME.virtual_clusters[].users[].keytab" in keys
    assert all(key.description for key in keys.values())


def test_the_models_accept_a_document_without_layers() -> None:
    config = sites.checked(yaml.load(FULL, "config.yaml"))
    assert list(config.sites) == ["prod"]


def test_editors_get_a_json_schema_in_which_references_and_durations_are_text() -> None:
    schema = json_schema()
    assert schema["additionalProperties"] is False
    assert schema["$defs"]["SshSettings"]["properties"]["connect_timeout"]["type"] == ["string", "number"]
    assert schema["$defs"]["Api"]["properties"]["clusters"]["type"] == "string"


def test_each_default_of_the_json_schema_is_one_that_a_config_may_say() -> None:
    validator = pytest.importorskip("jsonschema").Draft202012Validator
    schema = json_schema()
    validator.check_schema(schema)
    for model in schema["$defs"].values():
        for key in model.get("properties", {}).values():
            if key.get("default") is not None:  # left out
                validator({**key, "$defs": schema["$defs"]}).validate(key["default"])


def test_each_default_of_the_reference_can_be_written_into_a_config(tmp_path: Path) -> None:
    site = load(tmp_path, SMALL)
    assert (site.manager.api.clusters, site.manager.api.deployment) == (45, 49)
    keys = {key.name: key.default for key in reference()}
    assert (keys["sites.NAME.manager.api.clusters"], keys["sites.NAME.manager.api.deployment"]) == ("v45", "v49")


def test_each_bucket_may_be_reached_in_its_own_way(tmp_path: Path) -> None:
    buckets = "[{name: away, endpoint: 'https://s3.away.example', secret_key: file:away}]"
    s3 = f"{{region: eu, buckets: {buckets}}}"
    backup = f"{{store: s3://home/x, copies: [s3://away/x], recipients: [{RECIPIENT}], s3: {s3}}}"
    site = load(tmp_path, f"{SMALL}    backup: {backup}\n")
    assert site.backup is not None
    home, away = site.backup.s3.of("home"), site.backup.s3.of("away")
    assert (home.endpoint, home.region, home.secret_key) == (None, "eu", "env:AWS_SECRET_ACCESS_KEY")
    assert (away.endpoint, away.region, away.secret_key) == ("https://s3.away.example", "eu", "file:away")
    assert away.access_key == home.access_key
    with pytest.raises(Invalid, match="given twice"):
        load(tmp_path, f"{SMALL}    backup: {backup.replace('buckets: [', 'buckets: [{name: away}, ')}\n")


def test_a_part_of_the_configuration_never_changes() -> None:
    config = sites.checked(yaml.load(SMALL, "config.yaml"))
    with pytest.raises(ValidationError, match="frozen"):
        config.state = Path("/tmp")  # type: ignore[misc]  # that is the point


def test_verification_is_given_up_in_a_copy_and_by_no_key(tmp_path: Path) -> None:
    manager = load(tmp_path, SMALL).manager
    assert not manager.insecure
    assert manager.unverified().insecure
    assert not manager.insecure
    for key in ("insecure", "_insecure"):
        with pytest.raises(Invalid, match=f"unknown key '{key}'"):
            load(tmp_path, SMALL + f"      {key}: true\n")


def test_a_host_without_an_address_is_reached_by_its_name(tmp_path: Path) -> None:
    hosts = "    hosts: [{name: ecs-1}, {name: ecs-2, address:}]\n"
    assert [host.address for host in load(tmp_path, SMALL + hosts).hosts] == ["ecs-1", "ecs-2"]
    with pytest.raises(Invalid) as failure:
        load(tmp_path, SMALL + "    hosts: [{name: 'a b'}]\n")
    assert failure.value.detail == ()


@pytest.mark.parametrize("host", ["bücher.example", "service.cde-efgh5678.apps.example.", "a_b.example", "[fd00::1]"])
def test_a_url_may_name_a_host_by_its_own_letters_or_from_the_root_or_by_its_address(host: str) -> None:
    assert url(f"https://{host}:8443/x") == f"https://{host}:8443/x"
