"""Labs for campaigns: those of the step tests; real servers for stores: those of the adapters' tests."""

from tests.adapters.conftest import object_store, sshd
from tests.campaigns.grounds import template
from tests.cli.conftest import backed_up_twice, twice, without_others
from tests.steps.conftest import loaded, lost, make

__all__ = ["backed_up_twice", "loaded", "lost", "make", "object_store", "sshd", "template", "twice", "without_others"]
