"""Who may do what with a file."""

from maint.lab.hosts.shell.tree import Entry

_BITS = {"r": 4, "w": 2, "x": 1}


def may(user: str, entry: Entry, want: str) -> bool:
    """Return whether a user may read (`r`), write (`w`) or execute (`x`) a file; each user's group has its name."""
    if user == "root":
        return want != "x" or entry.is_folder or bool(entry.mode & 0o111)
    shift = 6 if entry.user == user else 3 if entry.group == user else 0
    return bool(entry.mode >> shift & _BITS[want])
