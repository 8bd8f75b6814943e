"""What the manager says of its Kerberos credentials, which no export holds (M21)."""

from collections.abc import Sequence

from maint.errors import CannotReach, WorkFailed
from maint.model.formatting import show_count
from maint.ports import ManagerSight

MEND = "mend what it names, then `maint playbook resume`"


def missing_principals(manager: ManagerSight) -> Sequence[str]:
    """Return the principals that services need and that have no credentials; none where nothing uses Kerberos.

    Raises:
        WorkFailed: the manager does not say.
    """
    found = manager.get("/cm/kerberosPrincipals?missingOnly=true")
    listed = found.get("items") if isinstance(found, dict) else found
    if not isinstance(listed, list):  # which is not that none is missing
        raise WorkFailed(
            "the manager's answer does not list the Kerberos principals that lack credentials",
            hint="look in the manager (Administration, Security, Kerberos Credentials)",
        )
    return [str(one.get("principal", "")) if isinstance(one, dict) else str(one) for one in listed]


def uses_kerberos(manager: ManagerSight) -> bool:
    """Tell whether the manager says that its clusters use Kerberos."""
    try:
        found = manager.get("/cm/kerberosInfo")
    except WorkFailed:  # not every server, nor every account, tells
        return False
    return isinstance(found, dict) and found.get("kerberized") is True


def mend_start(manager: ManagerSight) -> str:
    """Return what to do where something did not start: credentials that are missing come first."""
    try:
        lacking = len(missing_principals(manager))
    except (WorkFailed, CannotReach):  # why it did not start is known
        lacking = 0
    if not lacking:
        return MEND
    words = f"{show_count(lacking, 'principal')} without Kerberos credentials: with `manager.kdc` in the config"
    return f"mend what it names; {words} `maint manager start` has them made; then `maint playbook resume`"
