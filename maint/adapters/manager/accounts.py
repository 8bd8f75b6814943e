"""Find the account that is let in: the configured one, else the bootstrap one of a fresh server."""

from collections.abc import Callable, Iterator

import requests

from maint.adapters.manager.transport import Basic
from maint.config.schema import Login, ManagerSettings
from maint.errors import Invalid, LoginRefused
from maint.model.manager import Account
from maint.ports import Secrets

_HINT = "check manager.password and manager.bootstrap.password; a restore brings back the accounts of its snapshot"


def let_in(
    settings: ManagerSettings,
    secrets: Secrets,
    ask: Callable[[Basic], requests.Response],
) -> tuple[Account, Basic, requests.Response]:
    """Return the first account that is not answered with 401, and what it was answered (contract sections 2.2, 8.6).

    Raises:
        LoginRefused: none is let in.
        Invalid: a password's reference, or a name that Basic cannot carry.
    """
    for login, bootstrap in _candidates(settings):
        auth = _basic(login, secrets)
        answer = ask(auth)
        if answer.status_code != 401:
            return Account(login.username, bootstrap), auth, answer
        answer.close()
    kinds = [("bootstrap account" if late else "account", login.username) for login, late in _candidates(settings)]
    raise LoginRefused(
        f"{settings.host} lets in none of the configured accounts: {', '.join(name for _, name in kinds)}",
        detail=[f"{kind} {name}: 401" for kind, name in kinds],
        hint=_HINT,
    )


def _candidates(settings: ManagerSettings) -> Iterator[tuple[Login, bool]]:
    yield settings.login, False
    yield settings.bootstrap, True


def _basic(login: Login, secrets: Secrets) -> Basic:
    if ":" in login.username:
        raise Invalid(f"the account name {login.username!r} holds a colon, which HTTP Basic cannot carry")
    return Basic(login.username, secrets.resolve(login.password))
