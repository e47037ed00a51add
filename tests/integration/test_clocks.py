"""What Relaybox says does not depend on the time zone or the language of who asks. `make test-clocks` runs all tests elsewhere."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from relaybox.local import clusters
from tests.support.clocks import PLACES, SHIFTED, Place, chosen_runs, parse, shift_servers, surroundings
from tests.support.patience import patience
from tests.support.world import World

pytestmark = pytest.mark.thorough

ROOT = Path(__file__).parents[2]
ASK = """
import sys
from tests.support.cli import invoke
for command in (["init"], ["where", sys.argv[1]], ["where", sys.argv[1], "--json"], ["confirm", "nothing/1"]):
    run = invoke(*command)
    print(run.exit_code, run.stdout, run.stderr)
"""
HOME = Place("at home", None)
ABROAD = Place("abroad", None, "Asia/Kolkata", "de_DE.UTF-8")
LOCAL_TIME = re.compile(r"date\.today\(|datetime\.now\(\)|utcnow\(\)|time\.(localtime|strftime)\(|current_date|localtimestamp")


def answers(place: Place, message: str) -> str:
    """What commands without a moment of their own print at this clock."""
    asked = subprocess.run(
        [sys.executable, "-c", ASK, message],
        env={**os.environ, **surroundings(place, Path()), "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'plugins'}"},
        capture_output=True,
        text=True,
        timeout=patience(60),
        check=True,
    )
    return asked.stdout + asked.stderr


def test_commands_say_the_same_in_every_zone_and_language(world: World) -> None:
    """The journey of a message, with its times, and an error."""
    world.send("a")
    world.transfer_all()
    world.settle_all()
    message = str(world.value("airline", "select message_id from relaybox.outbox"))
    at_home = answers(HOME, message)
    assert at_home == answers(ABROAD, message)
    assert at_home.count(message) >= 2


def test_moments_that_were_red_once_are_among_the_places() -> None:
    """04:00 to 06:24 UTC; and what the clocks of most software trip over."""
    moments = [place.moment for place in PLACES if place.moment]
    assert any((moment.hour, moment.minute) == (4, 10) for moment in moments)
    assert any((moment + timedelta(seconds=10)).day == 1 for moment in moments)
    for before, after in ((timedelta(hours=1), timedelta(hours=2)), (timedelta(hours=2), timedelta(hours=1))):
        changes = [zone_offset(moment, 0) == before and zone_offset(moment, 10) == after for moment in moments]
        assert any(changes)


def zone_offset(moment: datetime, seconds_later: int) -> timedelta | None:
    return (moment + timedelta(seconds=seconds_later)).astimezone(ZoneInfo("Europe/Berlin")).utcoffset()


def test_all_processes_of_a_run_elsewhere_have_one_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """The servers too, which get nothing else of a test's environment."""
    monkeypatch.setattr(clusters, "_server_environment", clusters._server_environment)  # noqa: SLF001  put back afterwards
    elsewhere = surroundings(PLACES[0], Path("/shifted_clock.so"))
    shift_servers(elsewhere)
    assert set(clusters._server_environment()) - {"PATH", "LC_ALL"} == set(SHIFTED) & set(elsewhere) == set(SHIFTED)  # noqa: SLF001


PROBE = """
import ctypes, os, threading, time
from datetime import UTC, datetime


def test_one_date_everywhere(tmp_path):
    began = time.monotonic()
    file = tmp_path / "new"
    file.touch()
    assert abs(time.time() - file.stat().st_mtime) < 5
    os.utime(file, (5, 5))
    assert file.stat().st_mtime == 5
    semaphore = ctypes.create_string_buffer(64)
    until = (ctypes.c_long * 2)(int(time.time()) + 1, 0)
    assert ctypes.CDLL(None).sem_timedwait(semaphore, until) == -1
    assert not threading.Event().wait(0.01)
    assert time.monotonic() - began < 60
    now = datetime.now(UTC)
    assert (now.year, now.month, now.day, now.hour) == (2027, 10, 31, 1)
    assert datetime.now().astimezone().tzname() == "CET"
    assert os.environ["LC_ALL"] == "de_DE.UTF-8"
    assert len([pid for pid in os.listdir("/proc") if is_busy_loop(pid)]) == 2


def is_busy_loop(pid):
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return b"while True: pass" in file.read() and f"PPid:\\t{os.getppid()}" in open(f"/proc/{pid}/status").read()
    except (FileNotFoundError, NotADirectoryError, ProcessLookupError):
        return False


def test_that_is_red_if_asked():
    assert "RED" not in os.environ
"""


@pytest.mark.parametrize(("environment", "code", "said"), [({}, 0, "green"), ({"RED": "1"}, 1, "red: tests (exit code 1)")])
def test_a_run_elsewhere_is_as_red_as_its_tests(tmp_path: Path, environment: dict[str, str], code: int, said: str) -> None:
    """With clock, zone, language and busy loops at once; waits for a date end in time, and files are as old as they are.

    It writes no bytecode beside the sources: that would be stale for every run of here.
    """
    probe = tmp_path / "test_probe.py"
    probe.write_text(PROBE, encoding="utf-8")
    options = ["--at", "2027-10-31 01:00:00", "--zone", "Europe/Berlin", "--german", "--busy", "2"]
    exit_code, output = followed([sys.executable, "-m", "tests.support.clocks", *options, str(probe)], environment)
    assert exit_code == code, output
    assert f"== the clock setting asked for: {said}, after " in output
    assert "tests | " in output
    assert not list(tmp_path.glob("**/*.pyc"))


def followed(command: Sequence[str], environment: Mapping[str, str]) -> tuple[int, str]:
    """Exit code and output. One that does not end says where each of its processes is, and how much CPU it got."""
    everywhere = {**os.environ, **environment, "PYTHONFAULTHANDLER": "1"}
    with subprocess.Popen(
        command, cwd=ROOT, env=everywhere, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    ) as run:
        try:
            output, _ = run.communicate(timeout=patience(120))
        except subprocess.TimeoutExpired:
            processes = subprocess.check_output(["ps", "-o", "pid,stat,time,wchan:20,args", "-s", str(run.pid)], text=True)
            os.killpg(run.pid, signal.SIGABRT)
            raise AssertionError(processes + run.communicate()[0]) from None
    return run.returncode, output


def test_one_place_without_pytest_arguments_gets_the_whole_suite() -> None:
    """In the thirds of `make test`: the paths of two, and all others."""
    thirds = ["--third", "tests/airflow tests/spark", "--third", "tests/faults"]
    options, selection = parse([*thirds, "--at", "04:10", "--german", "--busy", "2"])
    ignored = ["--ignore=tests/airflow", "--ignore=tests/spark", "--ignore=tests/faults"]
    assert chosen_runs(options, selection) == {
        "airflow": ["tests/airflow", "tests/spark"],
        "faults": ["tests/faults"],
        "others": ignored,
    }
    assert list(chosen_runs(*parse([*thirds, "--at", "04:10", "-k", "page"]))) == ["tests"]


def test_no_test_asks_for_the_local_day() -> None:
    """It is another one in other zones, and while the test runs."""
    found = [
        f"{path.relative_to(ROOT)}: {match.group()}"
        for path in sorted((ROOT / "tests").rglob("*.py"))
        if path.name != Path(__file__).name
        for match in LOCAL_TIME.finditer(path.read_text(encoding="utf-8"))
    ]
    assert found == []
