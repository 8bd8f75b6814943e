"""Workload users: who may log in, and who sees anything (contract on the jobs API, section 2.3)."""

import hmac
from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass(slots=True)
class Person:
    """A user of the directory.

    Attributes:
        roles: resource roles on the environment; without one, nothing is seen.
        principal: the Kerberos principal that jobs run with.
        local: a local administrator, who gets no tokens at all.
    """

    name: str
    password: str
    roles: list[str] = field(default_factory=list)
    principal: str = ""
    local: bool = False


class People:
    """All users of a service."""

    def __init__(self, people: list[Person]) -> None:
        self._people = {person.name: person for person in people}

    def __iter__(self) -> Iterator[Person]:
        return iter(self._people.values())

    def get(self, name: str) -> Person | None:
        """Return a user by name."""
        return self._people.get(name)

    def log_in(self, name: str, password: str) -> Person | None:
        """Return the user that a name and a password belong to."""
        person = self._people.get(name)
        known = person.password if person else ""
        fits = hmac.compare_digest(known.encode(), password.encode())
        return person if person and fits else None

    def of_key(self, key: str) -> Person | None:
        """Return the user of an access key: no signature is verified, so any key is the first user's."""
        return next(iter(self._people.values()), None) if key else None
