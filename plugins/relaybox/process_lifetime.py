"""Processes that do not outlive the one that started them, however it ends: the kernel sends the signal (Linux)."""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Callable

_PR_SET_PDEATHSIG = 1


def die_with_parent() -> None:
    """This process is killed when the thread that started it ends. Useless if the parent has died already."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def child_dies_with_parent(death_signal: signal.Signals = signal.SIGKILL) -> Callable[[], None]:
    """A `preexec_fn` for a child of this process: it gets the signal when the thread that started it ends.

    The child may change its user; a set-user-id program clears the setting.
    """
    parent = os.getpid()
    prctl = ctypes.CDLL(None).prctl  # loaded here: the child must not take the loader's lock between fork and exec

    def before_exec() -> None:
        prctl(_PR_SET_PDEATHSIG, int(death_signal))
        if os.getppid() != parent:  # it died before the call
            os._exit(1)

    return before_exec
