"""Forks of a process in which a lab's threads run."""

import os
import threading
import time

_QUIET = 0.03  # seconds without a thread that begins or ends
_LONGEST = 5.0  # seconds that are waited for that


def fork() -> int:
    """Fork, and return what `os.fork` does, once the threads that served the last command have ended.

    A lock of OpenSSL that one of them holds at that moment would stay taken in the child, which would wait for ever.
    """
    seen, since = 0, 0.0
    end = time.monotonic() + _LONGEST
    while (now := time.monotonic()) < end and not (seen == threading.active_count() and now - since >= _QUIET):
        if seen != threading.active_count():
            seen, since = threading.active_count(), now
        time.sleep(_QUIET / 10)
    return os.fork()
