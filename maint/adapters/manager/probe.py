"""Ask both ports without credentials, and tell which one serves (M2.1)."""

from maint.adapters.http.answers import NoAnswer
from maint.adapters.http.proxy import NothingBehind, ProxyFailed, connect, way
from maint.adapters.http.request import Call
from maint.adapters.http.transport import NotSent, Peer, Transport
from maint.config.schema import ManagerSettings
from maint.errors import Invalid, NotTrusted, WorkFailed
from maint.model.manager import Door, Presence

_PATH = "/api/version"  # an anonymous 401 there proves that the server is up (M2.2)


def peer_of(settings: ManagerSettings, proxy: str | None) -> Peer:
    """Return how a manager is reached."""
    host, plain, tls = settings.host, settings.plain_port, settings.tls_port
    return Peer(
        ca=settings.ca,
        ca_hint="manager.ca must be a PEM file, such as cm-auto-global_cacerts.pem from a managed host",
        authority_hint="manager.ca must name a PEM file that the chain leads to; nothing is sent in clear instead",
        name_setting="manager.host",
        unreachable=lambda _: f"is the manager up, and are {host}, {plain} and {tls} right?",
        insecure=settings.insecure,
        proxy=proxy,
        unverified="the certificate of {origin} is not verified (insecure is set)",
    )


def address(settings: ManagerSettings, door: Door) -> str:
    """Return scheme, host and port as an operator would type them."""
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    return f"https://{host}:{settings.tls_port}" if door is Door.TLS else f"http://{host}:{settings.plain_port}"


def probe(transport: Transport, settings: ManagerSettings) -> Presence:
    """Probe both ports; one that listens with TLS, or a plain one that redirects, rules the plain port out for good."""
    try:
        plain = _answer(transport, address(settings, Door.PLAIN))
    except (NotSent, NoAnswer) as failure:
        plain = failure.words
    otherwise = Door.PLAIN if plain.startswith("answers") else Door.CLOSED
    try:
        return Presence(door=Door.TLS, plain=plain, tls=_answer(transport, address(settings, Door.TLS)))
    except (NotSent, NoAnswer) as failure:
        words, remedy = failure.words, failure.hint
        chain = failure.in_a_line if isinstance(failure, NotTrusted) else None
        why = failure.why if isinstance(failure, NotSent) else None
        if why is ProxyFailed:  # which says nothing of the port
            return Presence(door=Door.CLOSED, plain=plain, tls=words, remedy=remedy)
    except Invalid as failure:
        why, words, chain, remedy = None, failure.message, failure.message, failure.hint
    if words == "refused" or why is NothingBehind or not _listens(transport, settings):
        return Presence(door=otherwise, plain=plain, tls=words)
    return Presence(door=Door.TLS, plain=plain, tls=words, chain=chain, silent=chain is None, remedy=remedy)


def _answer(transport: Transport, place: str) -> str:
    call = Call("GET", place + _PATH, read=transport.timeouts.probe, total=transport.timeouts.probe)
    try:
        reply = transport.fetch(call)
    except WorkFailed:  # longer than any answer to this call
        return "answers endlessly"
    return f"redirects ({reply.status})" if reply.redirects else f"answers {reply.status}"


def _listens(transport: Transport, settings: ManagerSettings) -> bool:
    try:
        proxy = way(transport.peer.proxy, address(settings, Door.TLS))
        connect((settings.host, settings.tls_port), proxy, transport.timeouts.connect).close()
    except OSError:
        return False
    return True
