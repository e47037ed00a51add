"""What docs/spark.md and the notebook show a Spark user does what they say: each program runs as it is written."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from pyspark.sql import SparkSession

from relaybox.local.demo.stack import DELAYS
from relaybox.spark.derivations.deriving import derive
from relaybox.spark.tasks import ContextSession
from tests.spark.command import relaybox
from tests.spark.frames import serve
from tests.support.lake import Lake
from tests.support.world import World

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture
def flown(flights: World) -> World:
    """Three flights of two airlines at the hub."""
    flights.send('{"flight": 1, "dep_delay": 10}', '{"flight": 2, "dep_delay": -4}', sender="UA")
    flights.send('{"flight": 3, "dep_delay": 40}', sender="AA")
    flights.transfer(flights.first_hop)
    return flights


def task(number: int, language: str) -> list[str]:
    """The blocks of a task in this language."""
    text = (DOCS / "spark.md").read_text(encoding="utf-8")
    section = re.split(r"^#+ ", text, flags=re.MULTILINE)
    (found,) = [part for part in section if part.startswith(f"{number}. ")]
    return re.findall(rf"```{language}\n(.*?)```", found, flags=re.DOTALL)


def run_program(number: int, directory: Path) -> None:
    (program,) = task(number, "python")
    given: dict[str, Any] = {}
    exec(program.replace("/srv", str(directory)), given)  # noqa: S102


def run_console(world: World, directory: Path, number: int) -> None:
    """Runs what the task's console shows, and expects the answers that it shows."""
    (console,) = task(number, "console")
    for command, expected in re.findall(r"^\$ relaybox (.*)\n((?:[^$].*\n)*)", console, flags=re.MULTILINE):
        done = relaybox(world, directory, *command.split())
        assert done.returncode == 0, done.stderr
        assert " ".join(expected.replace("/srv", str(directory)).split()) in " ".join(done.stdout.split())


def test_there_are_five_tasks() -> None:
    assert [bool(task(number, "python")) for number in range(1, 6)] == [True] * 5


def test_task_1_asks_a_stream(flown: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_program(1, tmp_path)
    shown = capsys.readouterr().out
    assert "|    UA|  3.0|" in shown
    assert "|    AA| 40.0|" in shown


def test_task_2_goes_on_where_it_ended(flown: World, frames: SparkSession, tmp_path: Path) -> None:
    run_program(2, tmp_path)
    flown.send("{}", sender="UA")
    flown.transfer(flown.first_hop)
    run_program(2, tmp_path)
    files = frames.read.parquet(f"{tmp_path}/files/flights")
    assert sorted(row.stream_position for row in files.collect()) == [1, 2, 3, 4]
    assert flown.value("hub", "select count(*) from relaybox.subscriptions where subscription = 'flights-files'") == 1


def test_task_3_sends_each_row_once(flown: World, tmp_path: Path) -> None:
    """Also when it runs again, and the stream has grown by a late flight and by what the program sent."""
    run_program(3, tmp_path)
    flown.send('{"flight": 4, "dep_delay": 50}', sender="UA")
    flown.transfer(flown.first_hop)
    run_program(3, tmp_path)
    sent = flown.query("airline", "select payload from relaybox.outbox where sender = 'late-flights' order by seq")
    assert sent == [(f'{{"stream_position":{at},"sender":"{sender}"}}',) for at, sender in ((1, "UA"), (3, "AA"))]


@pytest.mark.thorough
def test_tasks_4_and_5_derive_and_export(
    flown: World, frames: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One relaybox.yaml: task 5 adds to that of task 4."""
    document = {key: value for number in (4, 5) for key, value in yaml.safe_load(task(number, "yaml")[0]).items()}
    flown.path.write_text(yaml.safe_dump(document).replace("/srv", str(tmp_path)), encoding="utf-8")
    (tmp_path / "airline_delays.py").write_text(task(4, "python")[0], encoding="utf-8")
    run_console(flown, tmp_path, 4)
    derived = flown.query("hub", "select payload from relaybox.outbox order by key")
    assert [json.loads(payload) for (payload,) in derived] == [
        {"sender": "AA", "flights": 1, "minutes": 40},
        {"sender": "UA", "flights": 2, "minutes": 6},
    ]
    run_console(flown, tmp_path, 5)
    serve(frames)
    run_program(5, tmp_path)
    assert "|    UA|    2|" in capsys.readouterr().out


def test_the_notebook_runs(
    flights: World, frames: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its cells in their order, on stores like those of the demo; it has no outputs that would grow old."""
    document = yaml.safe_load(flights.path.read_text())
    document["routes"]["delays"] = {
        "topics": ["delays"], "path": ["hub", "analytics"], "derive": {"from": "flights", "sql": DELAYS, "version": 1},
    }  # fmt: skip
    flights.path.write_text(yaml.safe_dump(document))
    lake = Lake(flights, str(tmp_path / ".relaybox/demo/lake/flights"))
    lake.configure()
    flights.register()
    payload = '{{"carrier": "{}", "scheduled_at": "2013-01-0{}T10:00:00Z", "origin": "JFK", "departure_delay_minutes": {}}}'
    for sender, delays in (("UA", (10, "null", 30)), ("AA", (16, 15))):
        flights.send(*(payload.format(sender, day, delay) for day, delay in enumerate(delays, 1)), sender=sender)
    flights.transfer(flights.first_hop)
    route = flights.routes.route("delays")
    serve(frames)
    derive(route, route.require_derivation(), ContextSession(frames.sparkContext), recorded_by="test")
    flights.transfer(flights.routes.hop("delays/1"))
    lake.run()
    monkeypatch.chdir(tmp_path)
    cells = json.loads((DOCS / "examples" / "flights.ipynb").read_text(encoding="utf-8"))["cells"]
    programs = [cell for cell in cells if cell["cell_type"] == "code"]
    assert all(not cell["outputs"] and cell["execution_count"] is None for cell in programs)
    given: dict[str, Any] = {}
    for cell in programs:
        exec("".join(cell["source"]), given)  # noqa: S102
    shown = capsys.readouterr().out
    assert "|     UA|      3|   1|" in shown
    assert "version 1: 5 messages, stream positions 1 to 5" in shown
