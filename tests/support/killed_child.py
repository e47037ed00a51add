"""Work in a process of its own, which is killed in the middle of it."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path


def kill_at(failpoint: str, directory: Path, work: Callable[[], object]) -> None:
    """Does the work in a child that gets SIGKILL where it first reaches the failpoint; fails if it comes to its end.

    Args:
        failpoint: one of relaybox.failpoints.KNOWN_FAILPOINTS.
        directory: where the child notes the hit; one for each call.
        work: it must open its own sessions.
    """
    assert run_until_killed(directory, f"{failpoint}=kill", work), f"not killed at {failpoint}: the work came to its end"
    (hit,) = map(json.loads, (directory / "hits.jsonl").read_text(encoding="utf-8").splitlines())
    assert hit["failpoint"] == failpoint


def run_until_killed(directory: Path, failpoints: str, work: Callable[[], object], *, after_seconds: float | None = None) -> bool:
    """Does the work in a child with these failpoints, and kills it after a time; whether it was killed, rather than coming to its end."""
    child = os.fork()
    if child == 0:
        os.environ |= {
            "RELAYBOX_FAILPOINTS": failpoints,
            "RELAYBOX_FAILPOINTS_DIRECTORY": str(directory),
            "RELAYBOX_ENVIRONMENT": "test",
        }
        try:
            work()
        finally:
            os._exit(0)
    if after_seconds is not None:
        time.sleep(after_seconds)
        os.kill(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
