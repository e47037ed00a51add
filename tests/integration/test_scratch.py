"""Files of a killed bench, demo or test run are found by the next start and removed; those of a running one are kept."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from rich.console import Console

from relaybox.local.bench.stores import bench_directory
from relaybox.local.interrupts import ASKING, signals_interrupt
from relaybox.local.processes import descendants, wait_until_gone
from relaybox.local.scratch import PREFIX, make_scratch, remove_abandoned, remove_scratch, tell_of_older
from tests.support.cli import start
from tests.support.patience import patience
from tests.support.world import wait_until

OWNER = """
import pathlib, sys, time
from relaybox.local.scratch import make_scratch
directory = make_scratch("test", pathlib.Path(sys.argv[1]))
(directory / "data").write_bytes(b"x" * 3_000_000)
print(directory, flush=True)
time.sleep(600)
"""


@contextmanager
def owner(parent: Path) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """Another process with a directory of its own."""
    process = subprocess.Popen([sys.executable, "-c", OWNER, parent], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout
        yield process, Path(process.stdout.readline().strip())
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_what_a_killed_process_left_is_removed_and_told(tmp_path: Path, number: signal.Signals) -> None:
    """The directory of a benchmark that still runs is kept."""
    told: list[str] = []
    with owner(tmp_path) as (killed, left), owner(tmp_path) as (_, kept):
        assert remove_abandoned(told.append, tmp_path) == []
        killed.send_signal(number)
        killed.wait()
        assert [one.directory for one in remove_abandoned(told.append, tmp_path)] == [left]
        assert (left.exists(), kept.exists()) == (False, True)
    assert told == [f"removed {left}, 3 MB that a killed process of Relaybox left"]


def test_a_server_that_outlives_its_owner_keeps_its_files(tmp_path: Path) -> None:
    """It works in the directory; which process that is does not matter."""
    with owner(tmp_path) as (killed, left):
        server = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], cwd=left)
        killed.kill()
        killed.wait()
        assert remove_abandoned(print, tmp_path) == []
        server.kill()
        server.wait()
        assert [one.directory for one in remove_abandoned(print, tmp_path)] == [left]


def test_a_directory_is_never_taken_from_the_one_who_makes_it(tmp_path: Path) -> None:
    """Two make directories while two others remove what nobody owns; a link to elsewhere is no directory of ours."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (tmp_path / f"{PREFIX}link").symlink_to(elsewhere)

    def make(number: int) -> None:
        directory = make_scratch("race", tmp_path)
        (directory / "data").write_text(str(number))
        assert (directory / "data").read_text() == str(number)
        remove_scratch(directory)

    with ThreadPoolExecutor(4) as pool:
        tasks = [pool.submit(make, number) for number in range(300)]
        removing = [pool.submit(remove_abandoned, print, tmp_path) for _ in range(300)]
        for task in (*tasks, *removing):
            task.result()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["elsewhere", f"{PREFIX}link"]


def test_a_directory_that_is_removed_before_it_is_locked_is_made_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The moment between mkdtemp and the lock, when nobody owns it yet; once before the directory is open, once after."""
    real_mkdtemp, real_flock, made = tempfile.mkdtemp, fcntl.flock, []

    def mkdtemp(*arguments: object, **named: object) -> str:
        made.append(real_mkdtemp(*arguments, **named))
        if len(made) == 1:
            assert len(remove_abandoned(print, tmp_path)) == 1
        return made[-1]

    def flock(descriptor: int, operation: int) -> None:
        if len(made) == 2 and operation == fcntl.LOCK_EX:
            assert len(remove_abandoned(print, tmp_path)) == 1
        real_flock(descriptor, operation)

    monkeypatch.setattr(tempfile, "mkdtemp", mkdtemp)
    monkeypatch.setattr(fcntl, "flock", flock)
    directory = make_scratch("race", tmp_path)
    assert (len(made), str(directory)) == (3, made[2])
    assert list(tmp_path.iterdir()) == [directory]
    remove_scratch(directory)


def test_what_an_older_version_left_is_named_and_kept(tmp_path: Path) -> None:
    """Nothing says whose it is. What a process works in, a link, and a name that is only similar are not told."""
    names = (
        "relaybox-bench-abc_1234",
        "relaybox-source-0abcdefg",
        "relaybox-hub-in_use_1",
        "relaybox-bench-results",
        "relaybox-mine-abcdefgh",
    )
    left, cluster, used, *_ = directories = [tmp_path / name for name in names]
    for directory in directories:
        directory.mkdir()
        (directory / "data").write_bytes(b"x" * 2_000_000)
    (tmp_path / "relaybox-bench-a_link_0").symlink_to(left)
    told: list[str] = []
    server = subprocess.Popen([sys.executable, "-c", "input()"], cwd=used, stdin=subprocess.PIPE)  # until the test ends
    try:
        assert tell_of_older(told.append, tmp_path) == [left, cluster]
    finally:
        server.kill()
        server.wait()
    assert told[0].startswith(f"{left}, 2 MB, looks like what a bench or demo of an older Relaybox left; no process works in it.")
    assert told[0].endswith(f"remove it: rm -r {left}")
    assert all(directory.exists() for directory in directories)


def test_a_killed_bench_page_leaves_only_what_the_next_start_removes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its configuration and Airflow's home too, not only its clusters."""
    parent = Path(tempfile.mkdtemp(prefix="temporary-of-a-test-"))
    parent.chmod(0o755)  # a cluster's account must enter it
    monkeypatch.setenv("TMPDIR", str(parent))
    try:
        bench = start("bench", "page", "--looks", "1", "--samples", "1")
        wait_until(lambda: len(descendants(bench.pid)) >= 1, "it makes its clusters", deadline_seconds=60)
        started = descendants(bench.pid)
        bench.kill()
        bench.communicate(timeout=patience(60))
        assert wait_until_gone(started, deadline_seconds=patience(60)) == []
        assert len(remove_abandoned(print, parent)) >= 1
        assert [path.name for path in parent.iterdir() if path.is_dir()] == []
    finally:
        shutil.rmtree(parent)


@pytest.mark.parametrize("number", ASKING)
def test_each_signal_that_asks_to_end_interrupts(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with pytest.raises(KeyboardInterrupt), signals_interrupt():
        os.kill(os.getpid(), number)
        signal.pause()
    assert signal.getsignal(number) == before


@pytest.mark.parametrize(("number", "processes"), [(signal.SIGTERM, 1), (signal.SIGTERM, 8), (signal.SIGKILL, 8)])
def test_a_bench_that_is_ended_leaves_nothing(number: signal.Signals, processes: int) -> None:
    """Asked to end, it removes its clusters itself, also one that is being made; killed, the next bench does."""
    bench = start("bench", "hop", "--messages", "200000", "--rounds", "1", "--runner", "threads")
    wait_until(
        lambda: bool(scratch_of(bench.pid)) and len(descendants(bench.pid)) >= processes,
        "it makes its clusters",
        deadline_seconds=60,
    )
    started, directories = descendants(bench.pid), scratch_of(bench.pid)
    bench.send_signal(number)
    bench.communicate(timeout=patience(60))
    assert bench.returncode == (130 if number == signal.SIGTERM else -signal.SIGKILL)
    assert wait_until_gone(started, deadline_seconds=patience(60)) == []
    if number == signal.SIGTERM:
        assert not any(directory.exists() for directory in directories)
    with bench_directory(Console()):
        assert not any(directory.exists() for directory in directories)


def scratch_of(pid: int) -> set[Path]:
    """Directories that a process owns: it holds them open."""
    found = set()
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # closed since the directory was read
            target = descriptor.readlink()
            if target.name.startswith(PREFIX):
                found.add(target)
    return found
