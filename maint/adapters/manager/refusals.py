"""What an answer of the manager means when it is not the one hoped for: its own words, in our tree of failures."""

from maint.adapters.http.answers import Reply
from maint.errors import CannotReach, LoginRefused, MaintError, Transient, WorkFailed

PROXY = "is there a proxy or a login page between us and the manager?"
GATEWAY = (502, 504)  # of what stands in front, in whatever words: what became of the request it does not know
_LATER = (429, 503, *GATEWAY)  # a proxy's, or a server's that is starting (M2.4, M3)
_LOG = "see /var/log/cloudera-scm-server/cloudera-scm-server.log on the manager's host"


def refusal(what: str, reply: Reply, account: str) -> MaintError:
    """Return the failure that an answer other than 2xx stands for; `what` is the call, such as `GET /api/v45/hosts`."""
    said = reply.message
    line = f"{what}: the manager answered {reply.title}" + (f": {said}" if said else "")
    code = reply.status
    if code == 401:
        return LoginRefused(f"{what}: the account {account} is not let in any more", hint="were the users restored?")
    if code == 403:
        return WorkFailed(line, hint=_role(what, account))
    if code in _LATER:
        return Transient(line, hint="the manager may be starting; ask again in a moment")
    if reply.redirects:
        return CannotReach(line, hint="the API never redirects but from its plain port to its TLS port")
    if said is None:
        unknown = "does this manager know that API version? maint manager version"
        return WorkFailed(line, hint=unknown if code == 404 else f"{PROXY} if there is none, {_LOG}")
    if code == 404 and "/commands/" in what:
        return WorkFailed(line, hint="the manager's own page /static/apidocs lists the commands by their names")
    if code == 404:
        return WorkFailed(line, hint="`maint cluster list` and `maint site status` show what the manager knows")
    kind = Transient if what.startswith("GET ") and code in (400, 500) else WorkFailed  # a read goes well the next time
    return kind(line, hint=f"mend what it names; {_LOG}")


def _role(what: str, account: str) -> str:
    # Which role a call needs: M2.2.
    method, _, path = what.partition(" ")
    if "/license" in path or "/certs/" in path:
        role = "Full Administrator"
    elif "/cm/deployment" in path:
        role = "Full Administrator (Cluster Administrator at least)"
    elif method == "DELETE":
        role = "Cluster Administrator or Full Administrator"
    elif "/commands/" in path:
        role = "Operator, Configurator or higher on that cluster"
    else:
        role = "a higher role"
    return f"the account {account} is let in, but its role is too weak: {role} is needed"
