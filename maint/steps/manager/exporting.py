"""What keeps a whole export from following although nothing is redacted (M2.2, M3)."""

from collections.abc import Mapping
from urllib.parse import quote

from maint.errors import CannotReach, Refused, Transient, WorkFailed
from maint.ports import Sight

_LESSER = ("ROLE_CLUSTER_ADMIN", "Cluster Administrator")


def refuse_partial(sight: Sight) -> None:
    """Refuse where the manager hides Navigator's settings from this account; WorkFailed where its API is too old."""
    sight.manager.require_api(sight.settings.manager.api.deployment)
    account = sight.manager.log_in().name
    try:
        if not any(role.type.startswith("NAVIGATOR") for role in sight.manager.management_roles()):
            return
        found = sight.manager.get(f"/users/{quote(account, safe='')}")
    except (CannotReach, Transient, WorkFailed):  # the export itself will tell
        return
    roles = found.get("authRoles") if isinstance(found, Mapping) else None
    listed = roles if isinstance(roles, list) else []
    named = [one.get("name") or one.get("displayName") for one in listed if isinstance(one, Mapping)]
    if named and all(name in _LESSER for name in named):
        raise Refused(
            f"no export that {account} takes can be restored: it is Cluster Administrator only, and the manager hides"
            " Navigator's settings from that role",
            hint="give the account the role Full Administrator, or name another one under `manager.username`",
        )
