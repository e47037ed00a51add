"""Servers end with the process that started them, and a guard leaves nothing behind."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from relaybox.local.processes import is_alive, wait_until_gone
from tests.support.patience import patience
from tests.support.world import wait_until

SPAWN = """
import pathlib, sys, threading, time
from relaybox.local.processes import spawn

def start():
    process = spawn(["sleep", "1000"], env={{"PATH": "/usr/bin:/bin"}}, log=pathlib.Path({log!r}))
    print(process.pid, flush=True)

thread = threading.Thread(target=start)
thread.start()
thread.join()
sys.stdin.read()
"""
GUARD = """
import sys
from relaybox.local.guard import guard
sys.exit(guard(["sh", "-c", {script!r}], grace_seconds=0.5))
"""


@contextmanager
def python(script: str) -> Iterator[subprocess.Popen[str]]:
    """A Python that runs a script, with pipes."""
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def read_pid(process: subprocess.Popen[str]) -> int:
    assert process.stdout
    return int(process.stdout.readline())


def test_a_server_dies_with_the_process_that_started_it(tmp_path: Path) -> None:
    """SIGKILL of the parent ends the child; the end of the thread that asked for the child does not."""
    with python(SPAWN.format(log=str(tmp_path / "log"))) as parent:
        server = read_pid(parent)
        assert is_alive(server)
        parent.kill()
        assert wait_until_gone([server], deadline_seconds=patience(10)) == []


def test_a_guard_ends_orphans_and_sessions_of_their_own() -> None:
    """SIGTERM for the guard ends a process whose parent is gone and that left the group."""
    with python(GUARD.format(script="(setsid sleep 1000 & echo $!); exec sleep 1000")) as guard:
        orphan = read_pid(guard)
        wait_until(lambda: is_alive(orphan), "the orphan runs")
        guard.terminate()
        assert guard.wait(timeout=patience(10)) == 0
        assert not is_alive(orphan)


def test_a_guard_kills_what_does_not_listen() -> None:
    """A process that ignores SIGTERM gets SIGKILL after the grace."""
    with python(GUARD.format(script='trap "" TERM; echo $$; while true; do sleep 1000; done')) as guard:
        deaf = read_pid(guard)
        guard.terminate()
        assert guard.wait(timeout=patience(10)) == 0
        assert not is_alive(deaf)


def test_a_guard_that_is_asked_while_it_starts_its_command_ends() -> None:
    """Within Python's callbacks after a fork an exception of a signal handler would be lost."""
    asked = "import os, signal\nos.register_at_fork(after_in_parent=lambda: os.kill(os.getpid(), signal.SIGTERM))\n"
    with python(asked + GUARD.format(script="exec sleep 1000")) as guard:
        assert guard.wait(timeout=patience(10)) == 0


def test_a_guard_ends_with_its_command() -> None:
    """The guard's exit code is the command's, and what the command left behind is ended."""
    with python(GUARD.format(script="setsid sleep 1000 & echo $!; exit 3")) as guard:
        left = read_pid(guard)
        assert guard.wait(timeout=patience(10)) == 3
        assert not is_alive(left)


def test_a_zombie_is_not_alive() -> None:
    """A process that has ended and was not waited for does not count as running."""
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    try:
        wait_until(lambda: not is_alive(pid), "the child has ended")
        os.kill(pid, 0)  # it is still there
    finally:
        os.waitpid(pid, 0)
