"""`relaybox derive`, as a person runs it: what docs/deriving.md shows, on a Spark of its own."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml

from tests.spark.command import relaybox
from tests.support.derivations import ROUTE, STORE
from tests.support.world import STORES, World

PAGE = Path(__file__).parents[2] / "docs" / "deriving.md"


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)


@pytest.fixture
def page(world: World, tmp_path: Path) -> World:
    """The stores of the page, its routes and its function; four flights have arrived in the hub."""
    shown = yaml.safe_load(blocks("yaml")[0])
    world.path.write_text(yaml.safe_dump({"stores": {store: {} for store in STORES}, **shown}))
    (tmp_path / "delays.py").write_text(blocks("python")[0], encoding="utf-8")
    world.register()
    world.send(*(json.dumps({"flight": number, "dep_delay": delay}) for number, delay in enumerate((3, 60, 16, 15), 1)))
    world.transfer(world.first_hop)
    return world


def test_the_page_shows_what_happens(page: World, tmp_path: Path) -> None:
    lines = [line for line in blocks("console")[0].splitlines() if line.startswith("$ relaybox ")]
    init, dry, done = (relaybox(page, tmp_path, *line.removeprefix("$ relaybox ").split()) for line in lines)
    assert init.returncode == 0, init.stderr
    assert "delays:late makes 2 messages of 4 messages, stream positions 1 to 4. Nothing was sent." in " ".join(
        dry.stdout.split()
    )
    assert (done.returncode, done.stdout) == (0, "delays, version 1: 2 messages derived from 4 messages in 1 attempt\n"), (
        done.stderr
    )
    found = [
        json.loads(payload.removeprefix("late: ")) for (payload,) in page.query(STORE, "select payload from relaybox.outbox")
    ]
    assert [flight["flight"] for flight in found] == [2, 3]
    (attempt,) = page.query(STORE, blocks("sql")[0])
    assert attempt[1:5] == ("published", "{[1,5)}", 4, 2)


def test_the_query_of_the_page_derives_the_same(page: World, tmp_path: Path) -> None:
    document = yaml.safe_load(page.path.read_text())
    document["routes"][ROUTE] |= yaml.safe_load(blocks("yaml")[1])
    page.path.write_text(yaml.safe_dump(document))
    shown = relaybox(page, tmp_path, "derive", ROUTE, "--dry-run", "--json", "--samples", "1")
    answer = json.loads(shown.stdout)
    assert (answer["source"], answer["messages"], answer["derived"], len(answer["samples"])) == ("sql", 4, 2, 1)
    done = relaybox(page, tmp_path, "derive", ROUTE, "--json")
    assert json.loads(done.stdout) | {"schema": None} == {
        "route": ROUTE, "version": 1, "attempts": 1, "messages": 4, "derived": 2, "dead_letters": 0, "schema": None,
    }  # fmt: skip
    assert answer["refused"] is None
    document["routes"][ROUTE]["derive"]["sql"] = "select payload from flights"
    page.path.write_text(yaml.safe_dump(document))
    shown = relaybox(page, tmp_path, "derive", ROUTE, "--dry-run", "--json")
    assert "version 1 of the derivation of route delays is sql with digest" in json.loads(shown.stdout)["refused"]


def test_errors_are_json_too_and_name_the_next_step(page: World, tmp_path: Path) -> None:
    of_no_derivation = relaybox(page, tmp_path, "derive", "flights", "--json")
    assert of_no_derivation.returncode == 2
    assert "has no section derive" in json.loads(of_no_derivation.stdout)["error"]["message"]
    (tmp_path / "delays.py").write_text("def late(flights):\n    return 1 / 0\n", encoding="utf-8")
    failed = relaybox(page, tmp_path, "derive", ROUTE, "--json")
    error = json.loads(failed.stdout)["error"]
    assert (failed.returncode, error["kind"]) == (5, "DerivationFailed")
    assert (
        "stream positions 1 to 4: delays:late failed: ZeroDivisionError: division by zero. Nothing was sent." in error["message"]
    )
