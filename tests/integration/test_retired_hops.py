"""A route that is taken out of the file keeps its messages until an operator retires it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml

from relaybox.errors import HopChanged
from relaybox.monitoring.overview import read_overview
from relaybox.monitoring.store_findings import find_orphaned
from relaybox.retention.retiring import find_orphaned_hops, retire_hop
from relaybox.retention.segments import read_retention, retain_store
from relaybox.routes import Routes, load_routes
from relaybox.stores.readers.orphaned_hops import OLDER_FILE
from tests.support.cli import diagnose, invoke
from tests.support.world import STORES, World, insert, wait_until

MOVED, WAITING = 45, 20


@pytest.fixture
def removed(world: World, monkeypatch: pytest.MonkeyPatch) -> Routes:
    """Route `flights` moved a part over its first hop, then `cargo` replaced it in the file; segments of ten rows."""
    world.cut_small_segments()
    world.send_many(MOVED)
    world.transfer()
    world.send_many(WAITING)
    path = world.path.with_name("without-flights.yaml")
    retention = {"replay_window_seconds": 0}
    routes = {"cargo": {"topics": ["cargo"], "path": ["airline", "hub"], "retention": retention}}
    path.write_text(yaml.safe_dump({"stores": {store: {} for store in STORES}, "routes": routes}))
    monkeypatch.setenv("RELAYBOX_CONFIG", str(path))
    said = invoke("init").stdout
    assert "airline: hop flights/1 is in no route any more" in said
    assert "hub: hop flights/2 is in no route any more" in said
    return load_routes(path)


def first_needed_by(routes: Routes, store: str, hop: str | None = None) -> set[str]:
    tables = {table.hop: table for table in read_retention(routes.store(store)).tables}
    return {holder.name for holder in tables[hop].holders}


def shown(routes: Routes) -> set[str | None]:
    """Hops that the page in Airflow says are in no route any more."""
    return {finding.hop for finding in read_overview(routes).findings if finding.kind == "orphaned_hop"}


def test_a_hop_of_no_route_is_shown_and_keeps_its_messages_until_it_is_retired(removed: Routes, world: World) -> None:
    """Nothing is given up in silence, and nothing by looking; then outbox and log lose what only these hops needed."""
    left = {hop["hop"]: hop for hop in invoke("retire", "--json").document["hops"]}
    assert (left["flights/1"]["unsettled_count"], left["flights/1"]["waiting_count"]) == (MOVED, WAITING)
    assert left["flights/2"]["waiting_count"] == MOVED
    assert shown(removed) == {"flights/1", "flights/2"}
    assert "flights/1" in first_needed_by(removed, "airline")
    assert "flights/2" in first_needed_by(removed, "hub", "flights/1")
    told = invoke("retire", "flights")
    assert 'relaybox retire flights --reason "..."' in told.stdout
    assert all(hop.retired_at is None for hop in find_orphaned_hops(removed)[0])

    done = invoke("retire", "flights", "--reason", "nobody reads it", "--json")
    assert [hop["retired_reason"] for hop in done.document["hops"]] == ["nobody reads it"] * 2
    assert shown(removed) == set()
    assert "flights/1" not in first_needed_by(removed, "airline")
    assert "flights/2" not in first_needed_by(removed, "hub", "flights/1")
    retain_store(removed.store("airline"), recorded_by="test")
    assert world.value("airline", "select count(*) from relaybox.outbox where topic = 'flights'") < 10
    assert world.value("airline", "select hop from relaybox_internal.hop_out where retired_at is null") == "cargo/1"
    assert "flights" not in invoke("init").stdout
    assert not [
        row
        for row in world.query("airline", "select labels ->> 'hop' from relaybox_internal.store_metrics()")
        if row[0] == "flights/1"
    ]


def test_a_retired_hop_moves_nothing_and_never_comes_back(removed: Routes, world: World) -> None:
    """Neither by a driver that has the old file, nor by the old file at init; saying it again keeps who said it first."""
    assert retire_hop(removed.store("airline"), "flights/1", reason="first", recorded_by="anna")
    assert not retire_hop(removed.store("airline"), "flights/1", reason="second", recorded_by="bert")
    with pytest.raises(HopChanged, match=r"hop flights/1 was retired by anna on .*: first"):
        world.transfer()
    assert len(world.payloads()) == MOVED
    with pytest.raises(HopChanged, match="was retired by anna"):
        world.initialise()


def test_what_is_committed_after_a_hop_was_retired_is_kept(removed: Routes, world: World) -> None:
    """A producer still sends it. It is unrouted, which has an alert of its own, and is not dropped."""
    with world.session() as late:
        insert(late, "was open")
        retire_hop(removed.store("airline"), "flights/1", reason="gone", recorded_by="test")
        late.commit()
    world.send_many(10, prefix="after")
    world.query(
        "airline", "insert into relaybox.outbox (topic, sender, payload) select 'cargo', 'UA', 'c' from generate_series(1, 30)"
    )
    world.transfer(removed.hop("cargo/1"))
    retain_store(removed.store("airline"), recorded_by="test")
    kept = {payload for (payload,) in world.query("airline", "select payload from relaybox.outbox where topic = 'flights'")}
    assert {"was open", *(f"after{n}" for n in range(1, 11))} <= kept
    assert "m1" not in kept


def test_only_what_the_file_has_not_is_retired(removed: Routes, world: World) -> None:
    """A hop of the file, a name that nobody knows, and a reason for nothing are refused with what to do."""
    for arguments, said in (
        (["cargo", "--reason", "r"], "Take its route out of the file first"),
        (["cargo/1"], "its messages are to be moved"),
        (["flight"], "Left behind by the file: flights/1, flights/2"),
        (["--reason", "r"], "Name a hop or a route"),
    ):
        run = invoke("retire", *arguments)
        assert run.exit_code != 0
        assert said in " ".join(run.stderr.split())
    assert all(hop.retired_at is None for hop in find_orphaned_hops(removed)[0])


@pytest.fixture
def older(world: World, monkeypatch: pytest.MonkeyPatch) -> World:
    """A checkout that is older than route `flights`, which an init registered and a transfer moved; the next commands use it."""
    world.send_many(MOVED)
    world.transfer()
    monkeypatch.setenv("RELAYBOX_CONFIG", str(file_without_flights(world)))
    return world


def file_without_flights(world: World) -> Path:
    path = world.path.with_name("without-flights.yaml")
    routes = {"cargo": {"topics": ["cargo"], "path": ["airline", "hub"]}}
    path.write_text(yaml.safe_dump({"stores": {store: {} for store in STORES}, "routes": routes}))
    return path


def refused(*arguments: str) -> str:
    run = invoke("retire", *arguments, "--reason", "nobody reads it")
    assert run.exit_code == 5, run.stdout + run.stderr
    return " ".join(run.stderr.split())


def retired_hops(world: World) -> set[str]:
    found = "select hop from relaybox_internal.hop_out where retired_at is not null"
    return {hop for store in ("airline", "hub") for (hop,) in world.query(store, found)}


def test_a_hop_that_an_init_had_in_a_newer_file_is_not_retired(older: World) -> None:
    """The checkout is old: retire, its list, status and the page say since which init the hop is in use, and by whom."""
    told = refused("flights")
    assert re.search(
        r"store airline: hop flights/1 is in use: the relaybox.yaml of the init of 20\d\d-\S+ \S+ UTC by \S+.* has it\.", told
    )
    assert "store hub: hop flights/2 is in use" in told
    assert (
        "Nothing was retired. If this relaybox.yaml is older, update it. If the hop is to go, run: relaybox init airline" in told
    )
    assert "hop flights/2 is in use" in refused("flights/2")
    assert retired_hops(older) == set()
    listed = invoke("retire").stdout
    assert "flights/1 is in use: the relaybox.yaml of the init of 20" in " ".join(listed.split())
    assert "To discard it" not in listed
    assert "It is in use: the relaybox.yaml of the init of 20" in " ".join(invoke("status").stderr.split())
    steps = [one.next_step for one in find_orphaned(find_orphaned_hops(load_routes(file_without_flights(older)))[0])]
    assert len(steps) == 2
    assert all(step is not None and step.startswith("It is in use") for step in steps)


def test_an_init_without_a_hop_says_who_had_it_and_then_it_can_be_retired(older: World) -> None:
    """Once: a second init has nothing to say of it. The store says the same of an old driver of Relaybox, which asks nothing before."""
    said = f"airline: hop flights/1: the relaybox.yaml of the init of 20.. UTC by .+ has it. {OLDER_FILE}"
    for option in ("--dry-run", None):
        run = invoke("init", *filter(None, [option]))
        assert re.search(said.replace("..", ".+", 1), " ".join(run.stdout.split())), run.stdout
        assert "flights/1 out removed" in run.stdout
    with pytest.raises(HopChanged, match="hop cargo/1 is in use"):
        retire_hop(older.routes.store("airline"), "cargo/1", reason="nobody reads it", recorded_by="test")
    again = invoke("init")
    assert "airline: hop flights/1 is in no route any more" in again.stdout
    assert "the relaybox.yaml of the init" not in again.stdout
    assert again.stdout.count("up to date") == 3
    assert invoke("retire", "flights", "--reason", "nobody reads it").exit_code == 0
    assert retired_hops(older) == {"flights/1", "flights/2"}


def test_a_hop_that_a_driver_moved_after_an_init_removed_it_is_not_retired(older: World) -> None:
    """The init was that of the old checkout. The driver with the newer file is named, by retire and by the next init."""
    invoke("init")
    older.send_many(WAITING)
    older.transfer()
    moved = r"removed it, and a driver has moved it since \(attempt 2, 20\S+ \S+ UTC by test\)"
    assert re.search(f"hop flights/1 is in use: the init of .+ {moved}", told := refused("flights")), told
    assert "flights/2" not in told
    assert retired_hops(older) == set()
    assert re.search(moved, " ".join(invoke("init").stdout.split()))
    assert invoke("retire", "flights", "--reason", "nobody reads it").exit_code == 0


def test_a_hop_whose_driver_began_before_an_init_removed_it_is_not_retired(older: World) -> None:
    """It may copy one batch for minutes: no attempt is newer than the init, and the route is live."""
    with older.session() as driver, driver.cursor() as cursor:
        cursor.execute("set application_name = 'relaybox flights/1 driver'")
        invoke("init")
        told = refused("flights")
        assert re.search(
            r"hop flights/1 is in use: the init of .+ removed it, and a driver that began before is connected and moves it", told
        )
        assert "Else let the driver end, or end it, and then relaybox retire again" in told
    wait_until(lambda: not older.value("airline", "select relaybox_internal.hop_is_driven('flights/1')"), "the driver has ended")
    assert retired_hops(older) == set()
    assert invoke("retire", "flights", "--reason", "nobody reads it").exit_code == 0


def test_a_retired_hop_that_the_file_has_is_an_error_of_status_and_doctor(older: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else it seems to wait for a transfer, which is refused, and messages that are sent later for an init, which is refused too."""
    older.send_many(WAITING)
    invoke("init")
    assert invoke("retire", "flights", "--reason", "nobody reads it").exit_code == 0
    older.send_many(WAITING)
    monkeypatch.setenv("RELAYBOX_CONFIG", str(older.path))
    retired = r"hop flights/1( of relaybox.yaml)? was retired by .+ at 20\S+ \S+ UTC: nobody reads it. It moves nothing"
    step = "Take route flights out of relaybox.yaml, or give it another name. Then run: relaybox init"
    status = invoke("status")
    said = " ".join(f"{status.stdout} {status.stderr}".split())
    assert status.exit_code == 5
    assert re.search(f"store airline: {retired}", said)
    assert step in said
    assert "Run: relaybox transfer" not in said
    assert "Route flights of relaybox.yaml has the topic and was retired. Give it another name and run: relaybox init" in said
    ((severity, what, next_step),) = diagnose("airline", "hops")
    assert (severity, next_step) == ("error", step)
    assert re.match(retired, what, re.IGNORECASE)
    found = {one.hop: one.next_step for one in read_overview(older.routes).findings if one.kind == "hop_retired"}
    assert found == {"flights/1": step, "flights/2": step}


def test_an_init_with_the_newer_file_takes_a_hop_into_use_again(older: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before it doctor names both files; after it the older one retires nothing."""
    invoke("init")
    monkeypatch.setenv("RELAYBOX_CONFIG", str(older.path))
    (airline, *_) = json.loads(invoke("doctor", "--json").stdout)["stores"]
    (found,) = [one for one in airline["results"] if one["check"] == "hops"]
    assert found["severity"] == "error"
    assert re.search(
        r"relaybox.yaml has hops that an init removed: flights/1 \(20\S+ \S+ UTC by .+\)\. Two files are in use", found["what"]
    )
    done = json.loads(invoke("init", "--json").stdout)["stores"]
    assert {name: what for one in done for name, what in one["hops"].items() if what != "unchanged"} == {
        "flights/1 out": "changed",
        "flights/2 out": "changed",
        "cargo/1 out": "removed",
    }
    monkeypatch.setenv("RELAYBOX_CONFIG", str(older.path.with_name("without-flights.yaml")))
    assert "hop flights/1 is in use" in refused("flights")


def test_a_hop_of_which_no_init_has_said_anything_is_not_retired(older: World) -> None:
    """So an init of an older version leaves it. The next init of this version decides."""
    older.query("airline", "update relaybox_internal.hop_out set in_file_at = null, in_file_by = null")
    told = refused("flights/1")
    assert "no init has recorded yet whether relaybox.yaml has it" in told
    assert "With the newest relaybox.yaml, run: relaybox init airline" in told
    invoke("init")
    assert invoke("retire", "flights/1", "--reason", "nobody reads it").exit_code == 0


def test_a_route_is_retired_whole_or_not_at_all(older: World) -> None:
    """The init of the older file reached one of its two stores."""
    invoke("init", "airline")
    assert "store hub: hop flights/2 is in use" in (told := refused("flights"))
    assert "flights/1" not in told
    assert retired_hops(older) == set()
