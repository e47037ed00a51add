"""A route that is taken out of the file keeps its messages until an operator retires it."""

from __future__ import annotations

import pytest
import yaml

from relaybox.errors import HopChanged
from relaybox.monitoring.overview import read_overview
from relaybox.retention.retiring import find_orphaned_hops, retire_hop
from relaybox.retention.segments import read_retention, retain_store
from relaybox.routes import Routes, load_routes
from tests.support.cli import invoke
from tests.support.world import STORES, World, insert

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
