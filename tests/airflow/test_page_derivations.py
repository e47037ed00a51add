"""The page of derivations and exports: how far they are, why one failed, and what of it a user may see."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from relaybox.airflow.page import last_runs
from relaybox.airflow.page.store_overview import StoreOverview
from relaybox.spark.derivations.ledger import Ledger, open_ledger
from relaybox.spark.derivations.publishing import send
from relaybox.spark.derivations.source import load_source
from tests.airflow.page_client import PageServer, register_dags
from tests.support.derivations import HERE, ROUTE, STORE, DerivedWorld
from tests.support.lake import EXPORT, Lake
from tests.support.streams import deliver
from tests.support.trials import TWO, batches, derive_all, late, promote, sending, trial, try_all
from tests.support.world import World

DERIVE_DAG, EXPORT_DAG = "relaybox_derive__delays", "relaybox_export__flights_lake"
PROMOTE_DAG = "relaybox_promote__delays"


@pytest.fixture
def lake(page: PageServer, connected: World, tmp_path: Path) -> Lake:
    """Six messages of the stream flights at the hub, a derivation and an export; neither has begun."""
    DerivedWorld(connected).configure(**{"with": f"{HERE}:copies"})
    connected.register()
    made = Lake(connected, str(tmp_path / "lake"))
    made.configure()
    deliver(connected, 6)
    return made


def rows(page: PageServer, user: str = "viewer") -> dict[str, str]:
    """The text of each row by its id, in one line."""
    page.page.state.gathering = StoreOverview()
    shown = page.client(user).get("/relaybox/derivations").text
    found = {}
    for part in shown.split('<tr id="')[1:]:
        row = part.partition("</tbody>")[0]
        found[part.partition('"')[0]] = " ".join(re.sub(r"<[^>]+>", " ", row.partition(">")[2]).split())
    return found


@contextmanager
def ledger(world: World) -> Iterator[Ledger]:
    """Of the derivation, which the store knows now."""
    derived = DerivedWorld(world)
    with open_ledger(derived.route, derived.derivation) as opened:
        opened.begin(load_source(derived.derivation, route=ROUTE))
        yield opened


def test_what_has_not_begun_is_shown_so(page: PageServer, lake: Lake) -> None:
    found = rows(page)
    assert "delays flights at hub 1 not begun" in found["derivation-delays"]
    assert f"{EXPORT} flights at hub delta {lake.path} not begun" in found[f"export-{EXPORT}"]


def test_an_export_shows_how_far_its_table_is(page: PageServer, lake: Lake) -> None:
    lake.run()
    assert "up to date 6 0" in rows(page)[f"export-{EXPORT}"]
    deliver(lake.world, 3)
    assert "behind 6 3" in rows(page)[f"export-{EXPORT}"]


def test_a_derivation_shows_its_newest_attempt(page: PageServer, lake: Lake) -> None:
    """Open, then failed: the reason may quote a message, so it is for those who may start the DAG."""
    with ledger(lake.world) as opened:
        attempt = opened.begin_attempt(4, "test")
        assert attempt is not None
        assert "deriving 0 6 1, open" in rows(page)["derivation-delays"]
        opened.fail(attempt, "payload secret is no number", dead_letter=False)
    viewed, operated = rows(page)["derivation-delays"], rows(page, "operator")["derivation-delays"]
    assert "failed 0 6 1, failed" in viewed
    assert "stream positions 1 to 4 4" in viewed
    assert "Attempt 1 failed: hidden: needs permission to start runs of its DAG" in viewed
    assert "Attempt 1 failed: payload secret is no number" in operated


def test_dead_letters_of_a_derivation_are_counted(page: PageServer, lake: Lake) -> None:
    with ledger(lake.world) as opened:
        attempt = opened.begin_attempt(1, "test")
        assert attempt is not None
        opened.fail(attempt, "no number", dead_letter=True)
    assert '<a href="/relaybox/streams">1</a>' in page.client("viewer").get("/relaybox/derivations").text


def test_a_higher_version_that_has_not_begun_is_told(page: PageServer, lake: Lake) -> None:
    with ledger(lake.world):
        pass
    lake.world.path.write_text(lake.world.path.read_text().replace("version: 1", "version: 2"), encoding="utf-8")
    assert "2 the store has 1 not begun" in rows(page)["derivation-delays"]


def test_an_open_trial_is_shown_with_what_ends_it(page: PageServer, lake: Lake) -> None:
    """How far it is, what the store keeps of it, and its DAG; marked as stuck once its approval would have ended. Then it is gone."""
    delays = DerivedWorld(lake.world)
    derive_all(delays)
    assert "trial" not in rows(page)["derivation-delays"]
    text = lake.world.path.read_text(encoding="utf-8")
    lake.world.path.write_text(text.replace("version: 1", f"version: 1\n      next: {TWO}"), encoding="utf-8")
    with trial(delays, start="2") as opened:
        attempt = opened.begin_attempt(3, "test")
        assert attempt is not None
        send(sending(attempt, version=2, is_trial=True), batches(attempt, late))
    row = rows(page)["derivation-delays"]
    assert "Trial 1 of version 2 has derived through 4 of stream positions 2 to 6; the store keeps 3 messages of it." in row
    assert (
        "Begun by test. Its DAG asks whether to promote it, or: relaybox trials compare delays , then promote or drop . Runbook"
        in row
    )
    shown = page.client("viewer").get("/relaybox/derivations").text
    assert '<span class="tag note">trial open for ' in shown
    assert f'href="/dags/{PROMOTE_DAG}"' in shown
    lake.world.query(STORE, "update relaybox_internal.derivation_trial set begun_at = begun_at - interval '25 hours'")
    page.page.state.gathering = StoreOverview()
    assert '<span class="tag stuck">trial open for 25 h</span>' in page.client("viewer").get("/relaybox/derivations").text
    try_all(delays)
    promote(delays)
    row = rows(page)["derivation-delays"]
    assert "Trial" not in row
    assert row.startswith("delays flights at hub 2 up to date 6 0")


def test_a_run_that_failed_and_a_pause_are_told(page: PageServer, lake: Lake) -> None:
    """Of Airflow's own database."""
    register_dags(lake.world.path)
    lake.run()
    client = page.client("operator")
    client.patch(f"/api/v2/dags/{EXPORT_DAG}", json={"is_paused": False})
    run = client.post(f"/api/v2/dags/{EXPORT_DAG}/dagRuns", json={"logical_date": None}).json()
    assert "up to date 6 0" in rows(page)[f"export-{EXPORT}"]
    assert " queued " in f"{rows(page)[f'export-{EXPORT}']} "
    address = f"/api/v2/dags/{EXPORT_DAG}/dagRuns/{run['dag_run_id']}"
    assert client.patch(address, json={"state": "failed"}).status_code == 200
    client.patch(f"/api/v2/dags/{DERIVE_DAG}", json={"is_paused": True})
    found = rows(page)
    assert "failed 6 0" in found[f"export-{EXPORT}"]
    assert "not begun paused" in found["derivation-delays"]
    assert last_runs.read_last_runs([EXPORT_DAG, DERIVE_DAG]).keys() == {EXPORT_DAG}


def test_the_tab_of_a_dag_leads_to_its_row(page: PageServer, lake: Lake) -> None:
    client = page.client("viewer")
    for dag, row in ((DERIVE_DAG, "derivation-delays"), (PROMOTE_DAG, "derivation-delays"), (EXPORT_DAG, "export-flights_lake")):
        answer = client.get(f"/relaybox/of-dag?dag={dag}")
        assert (answer.status_code, answer.headers["location"]) == (303, f"/relaybox/derivations#{row}")


def test_a_store_that_does_not_answer_is_named(page: PageServer, lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    lake.run()
    document = yaml.safe_load(lake.world.path.read_text())
    document["stores"]["hub"] = {"connection": "relaybox_nowhere"}
    monkeypatch.setenv("AIRFLOW_CONN_RELAYBOX_NOWHERE", "postgres://nobody:x@127.0.0.1:1/none")
    lake.world.path.write_text(yaml.safe_dump(document))
    shown = page.client("viewer").get("/relaybox/derivations").text
    assert "Store hub does not answer: how far its derivations and exports are is not shown." in shown
    assert shown.count(">unread</span>") == 2
