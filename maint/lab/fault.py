"""What a fault is: one way of going wrong on purpose."""

from dataclasses import dataclass

ONCE, UNTIL_CLEARED = "once", "until cleared"


@dataclass(frozen=True, slots=True)
class Fault:
    """One way of going wrong.

    Attributes:
        target: where it strikes when nobody says otherwise.
        meaning: what happens, for people.
        count: ONCE, or UNTIL_CLEARED.
        targets: the other targets it can be aimed at.
    """

    target: str
    meaning: str
    count: str = ONCE
    targets: tuple[str, ...] = ()
