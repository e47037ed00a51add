"""Runs a command and ends everything that it ever started: `python -m relaybox.local.guard COMMAND ...`.

`airflow standalone` leaves its four servers behind when it is terminated, and tasks start sessions of their own. The
guard adopts every orphan below it, so that none escapes. It ends them when it is asked to (SIGTERM, SIGINT), when the
command ends, and when its own parent dies, however that dies.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence

from relaybox.local.processes import descendants, send_signal
from relaybox.process_lifetime import child_dies_with_parent

GRACE_SECONDS = 20.0
_POLL_SECONDS = 0.05
_PR_SET_CHILD_SUBREAPER = 36
_ASKING = (signal.SIGTERM, signal.SIGINT)


def guard(command: Sequence[str], *, grace_seconds: float = GRACE_SECONDS) -> int:
    """Returns the command's exit code, or 0 when this process was asked to end it; nothing below is left running.

    Signals are blocked and waited for, never handled: an exception of a handler is lost where Python runs it within a callback.
    """
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {*_ASKING, signal.SIGCHLD})
    dies_with_parent = child_dies_with_parent()

    def begin() -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        dies_with_parent()

    process = subprocess.Popen(command, process_group=0, preexec_fn=begin)  # noqa: PLW1509  this process has one thread
    code = _wait_for(process.pid)
    _end_descendants(grace_seconds)
    return code


def _wait_for(pid: int) -> int:
    """Waits for the command, or until this process is asked to end it; buries adopted orphans on the way."""
    while signal.sigwait({*_ASKING, signal.SIGCHLD}) == signal.SIGCHLD:
        while (dead := _next_dead()) is not None:
            if dead[0] == pid:
                return os.waitstatus_to_exitcode(dead[1])
    return 0


def _next_dead() -> tuple[int, int] | None:
    """A process that has ended, and its status."""
    try:
        pid, status = os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return None
    return (pid, status) if pid else None


def _end_descendants(grace_seconds: float) -> None:
    """SIGTERM for all, so that servers end in order; SIGKILL for those that live on after the grace, and for their children."""
    _signal_all(signal.SIGTERM)
    deadline = time.monotonic() + grace_seconds
    while _bury_dead() and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)
    while _bury_dead():
        _signal_all(signal.SIGKILL)
        time.sleep(_POLL_SECONDS)


def _signal_all(number: signal.Signals) -> None:
    for pid in descendants(os.getpid()):
        send_signal(pid, number)


def _bury_dead() -> bool:
    """Reaps what has ended; returns whether anything is left."""
    try:
        while os.waitpid(-1, os.WNOHANG) != (0, 0):
            pass
    except ChildProcessError:
        return False
    return True


if __name__ == "__main__":
    sys.exit(guard(sys.argv[1:]))
