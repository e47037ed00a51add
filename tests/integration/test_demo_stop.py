"""A demo that is told to stop leaves no process behind."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from relaybox.local.processes import descendants, is_alive, wait_until_gone
from tests.patience import patience
from tests.world import wait_until

DEMO = (
    "import sys, pathlib; from relaybox.local.demo.run import run_demo; sys.exit(run_demo(directory=pathlib.Path(sys.argv[1])))"
)
INTERRUPTED = 130


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_a_demo_that_is_told_to_stop_leaves_no_process(tmp_path: Path, number: signal.Signals) -> None:
    """Ctrl-C, a polite and a rude kill while Airflow starts: servers, Airflow, producers, all have ended."""
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
        remove_data(tmp_path / "demo")
    else:
        assert code == INTERRUPTED
        assert not list((tmp_path / "demo").glob("*.conf"))
        assert not list((tmp_path / "demo").glob("*.data"))
        assert "all processes have ended" in output.read_text()


def remove_data(demo: Path) -> None:
    """What the next demo in the same directory would do first; the clusters of root's demo are links to elsewhere."""
    for cluster in demo.glob("*.data"):
        shutil.rmtree(cluster.resolve())


def producers(demo: int) -> list[int]:
    return [pid for pid in descendants(demo) if is_alive(pid) and b"multiprocessing.spawn" in command_line(pid)]


def command_line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""
