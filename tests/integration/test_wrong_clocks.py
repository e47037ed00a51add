"""The clock of a server, or of the machine that collects payloads, is wrong: no file goes too early, and no open transaction is missed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import psycopg2
import pytest
import yaml

from relaybox import errors
from relaybox.local.clusters import Cluster, write_service_file
from relaybox.monitoring.blockers import read_blockers
from relaybox.outbox import put
from relaybox.payloads import PayloadStore
from relaybox.payloads.preparing import prepare_place
from relaybox.routes import load_routes
from relaybox.stores.opening import store_session
from relaybox.stores.sessions.lock_holders import OPEN_TRANSACTIONS, lock_error
from tests.support.cli import invoke, run
from tests.support.clocks import MovableClock, movable_clock
from tests.support.kept_sessions import close_kept_sessions
from tests.support.memory import fast_temporary_directory
from tests.support.payloads import PLACE, Directory, add_place, collect, place_of, refs, stores_of
from tests.support.stores import make_cluster, start_cluster
from tests.support.world import World, routes_file

HOUR = 3600


@pytest.fixture
def clock() -> Iterator[MovableClock]:
    with movable_clock() as clock:
        yield clock


@pytest.fixture
def airline(clock: MovableClock) -> Iterator[Cluster]:
    """A server whose clock the test moves."""
    with fast_temporary_directory("clocks") as directory:
        cluster = make_cluster("airline", directory)
        try:
            start_cluster(cluster)
            yield cluster
        finally:
            close_kept_sessions()
            cluster.remove()


@pytest.fixture
def moved(databases: Mapping[str, Mapping[str, str]], airline: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """The route over three stores of which the first is on that server, and a place."""
    write_service_file(tmp_path / "services.conf", {**databases, "airline": airline.parameters()})
    world = World(routes_file(tmp_path))
    monkeypatch.setenv("RELAYBOX_CONFIG", str(world.path))
    world.initialise()
    add_place(world, tmp_path / "payloads")
    prepare_place(place_of(world), stores_of(world), recorded_by="test")
    return world


def test_a_transaction_that_began_in_the_future_is_waited_for(moved: World, airline: Cluster, clock: MovableClock) -> None:
    """The clock was ten hours ahead when it began, and was set back: five hours later nobody can tell how old it is."""
    place = Directory(PayloadStore(place_of(moved).location))
    large, orphan = place.write(days=5 / 24), place.write(days=5 / 24)
    clock.set(10 * HOUR)
    with psycopg2.connect(**airline.parameters(), application_name="slow sender") as connection, connection.cursor() as cursor:
        put(cursor, "flights", "UA", large.payload, headers=large.headers)
        clock.set(0)
        with pytest.raises(
            errors.StoreBusy, match=r"slow sender \(pid \d+, login \w+, began at \d{4}-\S+ \S+ UTC\).*Nothing was removed"
        ) as told:
            collect(moved, grace_seconds=HOUR)
        assert "They began in the future of the server's clock" in str(told.value)
        assert place.refs == refs(large, orphan)
        connection.commit()
    done = collect(moved, grace_seconds=HOUR)
    assert (done.referenced.count, done.missing_count, place.refs, place.trash) == (1, 0, refs(large), refs(orphan))


@pytest.mark.parametrize("days_ahead", [0, 30], ids=["the stores are right", "one store is ahead"])
def test_the_trash_of_a_machine_whose_clock_is_behind_keeps_files_for_long_enough(
    moved: World, clock: MovableClock, days_ahead: int
) -> None:
    """Ten days behind, and the trash is for seven: the next collection, with the right clock, removes nothing."""
    place = Directory(PayloadStore(place_of(moved).location))
    orphan = place.write(days=30)
    clock.set(days_ahead * 24 * HOUR)
    behind = run("payloads", "collect", environment=clock.of_a_program(-10 * 24 * HOUR))
    assert (behind.exit_code, place.refs, place.trash) == (0, set(), refs(orphan)), behind.stderr
    clock.set(0)
    done = collect(moved)
    assert (done.removed.count, done.in_trash.count, place.trash) == (0, 1, refs(orphan))
    assert collect(moved, trash_seconds=-(days_ahead * 24 + 1) * HOUR).removed.count == 1, "it is in no later folder than that"


def test_a_store_that_is_connected_after_prepare_is_missed_by_no_clock(moved: World, clock: MovableClock, tmp_path: Path) -> None:
    """The machine that prepared the place was a day ahead, and so was another store: the hop looks older than the place."""
    content = yaml.safe_load(moved.path.read_text())
    content["payloads"][PLACE]["location"] = str(tmp_path / "new")
    newer = {**content["routes"], "later": {"topics": ["later"], "path": ["analytics", "hub"]}}
    del content["stores"]["analytics"]
    content["routes"] = {"flights": {**content["routes"]["flights"], "path": ["airline", "hub"]}}
    older = tmp_path / "older.yaml"
    older.write_text(yaml.safe_dump(content))
    clock.set(24 * HOUR)
    ahead = clock.of_a_program(24 * HOUR)
    prepared = run("--config", str(older), "payloads", "prepare", PLACE, environment=ahead)
    assert prepared.exit_code == 0, prepared.stderr
    clock.set(0)
    place = Directory(PayloadStore(tmp_path / "new"))
    moved.path.write_text(yaml.safe_dump({**content, "stores": {**content["stores"], "analytics": {}}, "routes": newer}))
    moved.initialise()
    orphan = place.write()
    with pytest.raises(errors.CollectionRefused, match=r"not have store analytics, .* hop later/1 connects it with store hub"):
        collect(moved, load_routes(older))
    assert place.refs == refs(orphan)


def test_whoever_lists_open_transactions_names_it(moved: World, airline: Cluster, clock: MovableClock) -> None:
    """The doctor, the page, and an init that waits for it."""
    clock.set(10 * HOUR)
    with psycopg2.connect(**airline.parameters(), application_name="slow sender") as connection, connection.cursor() as cursor:
        cursor.execute("insert into relaybox.outbox (topic, sender, payload) values ('flights', 'UA', 'x')")
        clock.set(0)
        doctor = invoke("doctor", "airline")
        assert "A transaction is open for an unknown time: by the server's clock, which was set back, it begins in 10 h" in (
            " ".join(doctor.stdout.split())
        )
        with store_session(moved.routes.stores["airline"], "asking", application_name="relaybox test") as session:
            (blocker,) = read_blockers(session, open_for_seconds=30).senders
            assert (blocker.who, blocker.age_seconds) == ("relaybox slow sender", 0)
            held = lock_error(session, "init waited", OPEN_TRANSACTIONS, {"seconds": 30})
        assert "slow sender (pid" in str(held)
        connection.rollback()
