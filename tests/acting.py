"""What commands that act import, for `tests.forked`: the process that they are forked from imports it."""

import gc
import importlib
import pkgutil

import maint.adapters
import maint.steps

_ROOMS = (maint.adapters, maint.steps)
_FURTHER = (
    *("maint.cli.backup.commands", "maint.cli.backup.heal", "maint.cli.manager", "maint.cli.restore"),
    *("maint.cli.playbooks.commands", "maint.cli.vc.commands", "maint.lab.manager.simulator"),
)

for _room in _ROOMS:
    for _module in pkgutil.walk_packages(_room.__path__, f"{_room.__name__}."):
        importlib.import_module(_module.name)
for _name in _FURTHER:
    importlib.import_module(_name)
gc.freeze()  # a command then looks through none of it
