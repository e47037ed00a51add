"""A process dies with the one that started it: SIGKILL leaves no time to clean up, the kernel does it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from relaybox.local.processes import is_alive
from tests.support.world import wait_until

PARENT = """
import signal, subprocess, sys, time
from relaybox.process_lifetime import child_dies_with_parent
child = subprocess.Popen([sys.executable, "-c", {child!r}], preexec_fn={preexec_fn}, stdout=subprocess.PIPE)
child.stdout.readline()
print(child.pid, flush=True)
time.sleep(600)
"""
SLEEP = "import time; print('ready', flush=True); time.sleep(600)"
ASK_AND_SLEEP = f"from relaybox.process_lifetime import die_with_parent; die_with_parent(); {SLEEP}"
NOTE_SIGTERM = "import pathlib, signal, sys; signal.signal(signal.SIGTERM, lambda *_: sys.exit(pathlib.Path({note!r}).touch()))"


@contextmanager
def parent_and_child(child: str, preexec_fn: str) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A Python that has started another one, and the pid of that."""
    program = PARENT.format(child=child, preexec_fn=preexec_fn)
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        try:
            yield parent, int(parent.stdout.readline())
        finally:
            parent.kill()


@pytest.mark.parametrize(
    ("child", "preexec_fn"),
    [(SLEEP, "child_dies_with_parent()"), (ASK_AND_SLEEP, "None")],
    ids=["asked by the parent", "asked by the child"],
)
def test_a_killed_process_takes_its_child_along(child: str, preexec_fn: str) -> None:
    """As a killed Airflow task takes spark-submit along, and a killed JVM its Python."""
    with parent_and_child(child, preexec_fn) as (parent, pid):
        assert is_alive(pid)
        parent.kill()
        wait_until(lambda: not is_alive(pid), "the child is gone")


def test_a_child_gets_the_signal_that_was_asked_for(tmp_path: Path) -> None:
    """A server that ends in order on SIGTERM gets the chance to."""
    note = tmp_path / "asked"
    child = f"{NOTE_SIGTERM.format(note=str(note))}; {SLEEP}"
    with parent_and_child(child, "child_dies_with_parent(signal.SIGTERM)") as (parent, pid):
        parent.kill()
        wait_until(lambda: not is_alive(pid), "the child is gone")
        assert note.exists()
