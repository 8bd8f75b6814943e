"""What a switch is: one behaviour that can be chosen."""

from dataclasses import dataclass

SECONDS, COUNT, TEXT = ("seconds",), ("number",), ("text",)


@dataclass(frozen=True, slots=True)
class Switch:
    """One behaviour that can be chosen.

    Attributes:
        default: the value unless told otherwise.
        allowed: the values it takes, or one of SECONDS, COUNT, TEXT.
        meaning: what it decides, for people.
        section: where the contract speaks of it.
    """

    default: str
    allowed: tuple[str, ...]
    meaning: str
    section: str
