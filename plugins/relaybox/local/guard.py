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
from types import FrameType

from relaybox.local.processes import descendants, send_signal
from relaybox.parents import child_dies_with_parent

GRACE_SECONDS = 20.0
_POLL_SECONDS = 0.05
_PR_SET_CHILD_SUBREAPER = 36


class _AskedToEndError(Exception):
    pass


def guard(command: Sequence[str], *, grace_seconds: float = GRACE_SECONDS) -> int:
    """Returns the command's exit code, or 0 when this process was asked to end it; nothing below is left running."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _ask_to_end)
    try:
        process = subprocess.Popen(
            command,
            process_group=0,
            preexec_fn=child_dies_with_parent(),  # noqa: PLW1509  this process has one thread
        )
        code = _wait_for(process.pid)
    except _AskedToEndError:
        code = 0
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    _end_descendants(grace_seconds)
    return code


def _ask_to_end(_number: int, _frame: FrameType | None) -> None:
    raise _AskedToEndError


def _wait_for(pid: int) -> int:
    """Waits for the command; buries adopted orphans on the way."""
    while True:
        ended, status = os.wait()
        if ended == pid:
            return os.waitstatus_to_exitcode(status)


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
