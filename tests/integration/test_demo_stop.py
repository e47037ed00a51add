"""A demo that is told to stop leaves no process behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from relaybox.local.demo.stack import _own_directory
from relaybox.local.processes import descendants, is_alive, wait_until_gone
from tests.support.patience import patience
from tests.support.world import wait_until

pytestmark = pytest.mark.thorough

DEMO = (
    "import sys, pathlib; from relaybox.local.demo.run import run_demo; sys.exit(run_demo(directory=pathlib.Path(sys.argv[1])))"
)
INTERRUPTED = 130


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_demo_that_is_told_to_stop_leaves_no_process(tmp_path: Path, number: signal.Signals) -> None:
    """A polite and a rude kill while Airflow starts: servers, Airflow, producers, all have ended; the next demo removes their files.

    Ctrl-C and the end of the terminal are handled as SIGTERM is (test_scratch.py).
    """
    output = tmp_path / "output"
    with output.open("w") as file:
        demo = subprocess.Popen(
            [sys.executable, "-c", DEMO, tmp_path / "demo"], stdout=file, stderr=subprocess.STDOUT, start_new_session=True
        )
    wait_until(lambda: "are initialised" in output.read_text(), "the stores are initialised", deadline_seconds=120)
    wait_until(lambda: len(producers(demo.pid)) == 4, "the producers run", deadline_seconds=60)
    started = descendants(demo.pid)
    assert len(started) > 20  # four servers with their backends, Airflow with its parts, four producers
    os.kill(demo.pid, number)
    code = demo.wait(timeout=patience(120))
    assert wait_until_gone(started, deadline_seconds=patience(60)) == []
    if number == signal.SIGKILL:
        assert_next_demo_removes(tmp_path / "demo")
    else:
        assert code == INTERRUPTED
        assert not list((tmp_path / "demo").glob("*.conf"))
        assert not list((tmp_path / "demo").glob("*.data"))
        assert "all processes have ended" in output.read_text()


def assert_next_demo_removes(demo: Path) -> None:
    """And says so. The clusters of root's demo are links to elsewhere, which any other start may have removed before."""
    clusters = list(demo.glob("*.data"))
    left = [cluster.resolve() for cluster in clusters]
    here = [str(cluster) for cluster in clusters if not cluster.is_symlink()]
    assert len(left) == 4
    told: list[str] = []
    with _own_directory(demo, told.append):
        assert not any(data.exists() for data in left)
    assert set(here) <= {line.split()[1].rstrip(",") for line in told}


def producers(demo: int) -> list[int]:
    return [pid for pid in descendants(demo) if is_alive(pid) and b"multiprocessing.spawn" in command_line(pid)]


def command_line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""
