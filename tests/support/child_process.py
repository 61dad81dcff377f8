"""Processes that end with the process that started them, also if that one is killed."""

import ctypes
import signal
from collections.abc import Callable

_PR_SET_PDEATHSIG = 1


def end_with_parent(number: signal.Signals = signal.SIGKILL) -> Callable[[], None]:
    """Return the `preexec_fn` of a process that gets a signal when its parent ends."""

    def prepare() -> None:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, number)

    return prepare
