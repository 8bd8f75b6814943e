"""A site behind an HTTP proxy: commands go through it, and say so."""

from contextlib import closing

import pytest

from tests.servers import ConnectProxy

NONE = {"NO_PROXY": "", "no_proxy": ""}


@pytest.fixture
def proxied(loaded):
    """An operator whose site has a proxy, and the proxy."""
    path = loaded.lab.folder / "config.yaml"
    with closing(ConnectProxy()) as proxy:
        path.write_text(path.read_text().replace("    backup:\n", f"    proxy: {proxy.url}\n    backup:\n", 1))
        yield loaded, proxy


def test_a_proxy_leads_to_the_manager_and_to_virtual_clusters_but_to_what_no_proxy_names(proxied):
    operator, proxy = proxied
    for words in (("site", "status"), ("backup", "create", "--open-window", "--yes"), ("vc", "job", "list")):
        proxy.led.clear()
        said = operator(*words, NO_PROXY="127.0.0.1,.internal,.invalid,.example,localhost", no_proxy="")
        assert (said.code, proxy.led) == (0, []), said.err
        said = operator(*words, **NONE)
        assert (said.code, len(proxy.led) > 0) == (0, True), said.err


def test_plans_and_doctor_say_what_goes_through_a_proxy(proxied):
    operator, proxy = proxied
    through = f"goes through {proxy.url.removeprefix('http://')} (proxy)"
    plans = operator("restore", "plan", **NONE), operator("backup", "create", "--dry-run", **NONE)
    for said in (*plans, operator("doctor", **NONE)):
        assert f"manager 127.0.0.1 {through}" in said.out, said.err
        assert f"gateway of Default-VC-abc12345 {through}" in said.out
    past = operator("backup", "create", "--dry-run", "-o", "json", NO_PROXY="127.0.0.1", no_proxy="")
    assert past.json["proxies"][0] == "manager 127.0.0.1 is reached directly: NO_PROXY names its host"
    assert proxy.url in operator("config", "show").out


def test_a_restore_plan_names_the_proxy_of_a_store(loaded):
    env = {"https_proxy": "http://user:secret@proxy.example:3128", **NONE}
    path = loaded.lab.folder / "config.yaml"
    path.write_text(path.read_text().replace("    backup:\n", '    backup:\n      copies: ["s3://a"]\n', 1))
    said = loaded("restore", "plan", **env, AWS_ACCESS_KEY_ID="x", AWS_SECRET_ACCESS_KEY="y")
    assert "s3://a goes through proxy.example (HTTPS_PROXY)" in said.out, said.err
    assert "secret@" not in said.out + said.err


def test_a_proxy_that_is_down_is_told_and_ends_with_4(loaded):
    path = loaded.lab.folder / "config.yaml"
    path.write_text(path.read_text().replace("    backup:\n", "    proxy: http://127.0.0.1:1\n    backup:\n", 1))
    for words in (("cluster", "list"), ("vc", "job", "list")):
        said = loaded(*words, **NONE)
        assert (said.code, "the proxy 127.0.0.1:1 refused the connection" in said.err) == (4, True), said.err


def test_the_address_of_a_notice_is_reached_through_the_proxy_unless_no_proxy_names_it(proxied, httpserver):
    operator, proxy = proxied
    httpserver.expect_request("/hook").respond_with_data("")
    path = operator.lab.folder / "config.yaml"
    notice = f"{{name: chat, webhook: {{url: '{httpserver.url_for('/hook')}'}}}}"
    path.write_text(path.read_text().replace("    backup:\n", f"    notify: [{notice}]\n    backup:\n", 1))
    assert operator("notify", "test", "chat", **NONE).code == 0
    assert proxy.led == [f"{httpserver.host}:{httpserver.port}"]
    assert operator("notify", "test", "chat", NO_PROXY=httpserver.host, no_proxy="").code == 0
    assert (len(proxy.led), len(httpserver.log)) == (1, 2)
    through = f"notice chat goes through {proxy.url.removeprefix('http://')} (proxy)"
    assert through in operator("doctor", **NONE).out
