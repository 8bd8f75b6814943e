"""Post to an address: a webhook with the event, a dead man's switch with its start or its end."""

from pathlib import Path

from maint.adapters.http.request import Bearer, Call, Timeouts
from maint.adapters.http.transport import Peer, Transport
from maint.adapters.notify.way import Say
from maint.config.fields import is_address, url
from maint.config.notices import NoticeSettings
from maint.errors import Invalid, WorkFailed
from maint.model.notice import Kind, Notice
from maint.ports import Secrets


def post(one: NoticeSettings, notice: Notice, say: Say) -> None:
    """Post the event in the webhook's format; raises WorkFailed, CannotReach or Invalid."""
    hook = one.webhook
    assert hook is not None
    auth = Bearer(say.secrets.resolve(hook.token)) if hook.token else None
    address = _address(hook.url, say.secrets, f"notify.{one.name}.webhook.url")
    call = Call("POST", address, one.timeout, one.timeout, body=say.body(hook.format, notice))
    _sent(call, hook.ca, say.proxy, auth)


def ping(one: NoticeSettings, notice: Notice, say: Say) -> None:
    """Tell the dead man's switch; raises as `post` does."""
    switch = one.ping
    assert switch is not None
    ends = {Kind.START: switch.start, Kind.SUCCESS: switch.success}
    more = ends.get(notice.kind, switch.failure).replace("{exit}", str(notice.exit))
    address = _address(switch.url, say.secrets, f"notify.{one.name}.ping.url") + more
    words = say.text(notice).encode()
    call = Call("POST", address, one.timeout, one.timeout, body=words, type="text/plain; charset=utf-8")
    _sent(call, switch.ca, say.proxy)


def _address(said: str, secrets: Secrets, key: str) -> str:
    if is_address(said):
        return said
    try:
        return url(secrets.resolve(said).reveal())
    except ValueError as error:
        raise Invalid(
            f"what {key} refers to {error}", hint="it is one line, an address that begins with https://"
        ) from None


def _sent(call: Call, ca: Path | None, proxy: str | None, auth: Bearer | None = None) -> None:
    peer = Peer(
        ca=ca,
        ca_hint="`ca` of the notice must name a PEM file",
        authority_hint="give the notice the authority's certificate as `ca`",
        name_setting="the notice's `url`",
        unreachable=lambda _: "",
        proxy=proxy,
    )
    transport = Transport(peer, Timeouts(connect=call.read), lambda _: None)
    try:
        reply = transport.fetch(call, auth)
    finally:
        transport.close()
    if not reply.good:
        where = ", which is not followed" if reply.redirects else ""
        raise WorkFailed(
            f"{call.origin} answered {reply.title}{where}",
            hint="look at what that address takes; `maint notify test` tries it again",
        )
