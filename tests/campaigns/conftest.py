"""Labs for campaigns: those of the step tests; real servers for stores: those of the adapters' tests."""

from tests.adapters.conftest import object_store, sshd
from tests.campaigns.grounds import template
from tests.steps.conftest import loaded, lost, make

__all__ = ["loaded", "lost", "make", "object_store", "sshd", "template"]
