"""Read a secret from the terminal, which shows what is typed again whenever this process is stopped or quit."""

import getpass
import os
import signal
import termios
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType


def ask_secret(words: str) -> str:
    """Return what is typed after these words, unseen; EOFError at the end of input."""
    with _guarding(words):
        return getpass.getpass(words)


@contextmanager
def _guarding(words: str) -> Iterator[None]:
    # Not every shell puts the terminal right: mute after SIGQUIT, it showed the secret after Ctrl-Z and `fg`.
    try:
        terminal = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY)
    except OSError:  # getpass reads standard input then
        yield
        return
    try:
        if threading.current_thread() is not threading.main_thread():  # which alone may handle signals
            yield
            return
        before = termios.tcgetattr(terminal)

        def leave(number: int, _frame: FrameType | None) -> None:
            hidden = termios.tcgetattr(terminal)
            termios.tcsetattr(terminal, termios.TCSADRAIN, before)
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)  # ends here, or goes on here once it is continued
            signal.signal(number, leave)
            with suppress(termios.error):
                termios.tcsetattr(terminal, termios.TCSAFLUSH, hidden)
            os.write(terminal, words.encode())

        guarded = [one for one in (signal.SIGQUIT, signal.SIGTSTP) if signal.getsignal(one) == signal.SIG_DFL]
        for number in guarded:
            signal.signal(number, leave)
        try:
            yield
        finally:
            for number in guarded:
                signal.signal(number, signal.SIG_DFL)
    finally:
        os.close(terminal)
