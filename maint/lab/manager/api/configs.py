"""Config items as reads show them: redacted while the property is on (contract section 7.1)."""

from maint.lab.manager.document import Doc
from maint.lab.manager.redact import hide_items
from maint.lab.manager.world import World


def items_shown(world: World, listed: list[Doc]) -> list[Doc]:
    """Return config items as the API shows them now."""
    return hide_items(listed) if world.redaction else listed
