"""A secret value that cannot be printed, logged or serialised by accident."""

from typing import NoReturn


class Secret:
    """Holds a text that only `reveal` gives back."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """Return the text itself; call it only where the value leaves for its destination."""
        return self._value

    def __repr__(self) -> str:
        return "Secret(…)"

    __str__ = __repr__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._value == self._value

    def __hash__(self) -> int:
        return hash(self._value)

    def __reduce__(self) -> NoReturn:
        raise TypeError("a secret is not serialised")


class SecretBytes:
    """Holds bytes that only `reveal` gives back: a keytab, a key."""

    __slots__ = ("_value",)

    def __init__(self, value: bytes) -> None:
        self._value = value

    def reveal(self) -> bytes:
        """Return the bytes themselves; call it only where they leave for their destination, or are judged."""
        return self._value

    def __repr__(self) -> str:
        return "SecretBytes(…)"

    __str__ = __repr__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SecretBytes) and other._value == self._value

    def __hash__(self) -> int:
        return hash(self._value)

    def __reduce__(self) -> NoReturn:
        raise TypeError("a secret is not serialised")
