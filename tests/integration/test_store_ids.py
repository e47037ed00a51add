"""G11: a hop stops as soon as one of its stores is another database than before: two deployments, an edited connection, a store made anew."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

import psycopg2
import pytest

from relaybox import errors
from relaybox.hops.batches import Slice
from relaybox.hops.confirmations import confirm_received, settle_hop
from relaybox.hops.copying import SliceCopied, SliceJob, copy_slice
from relaybox.hops.publishing import publish_batch
from relaybox.hops.runners import ThreadRunner
from relaybox.hops.transfer import Progress, transfer_hop
from relaybox.local.clusters import Cluster
from relaybox.recovery.attesting import attest_store
from relaybox.recovery.reanchoring import reanchor_hop
from relaybox.stores.init.one_store import initialise_store
from relaybox.verification.route_verification import verify_route
from tests.integration.driver_steps import planned_batch
from tests.support import disposal
from tests.support.breaking import Stopped
from tests.support.cli import invoke
from tests.support.services import break_service, read_service
from tests.support.world import World, wait_until

pytestmark = pytest.mark.thorough

OtherDatabase = Callable[[str], str]


@pytest.fixture
def other_database(clusters: Mapping[str, Cluster], world: World) -> Iterator[OtherDatabase]:
    """Makes another database for a store, initialised and empty, and gives its name; the service still leads to the first one."""
    made: list[tuple[Cluster, str]] = []

    def make(store: str) -> str:
        first, other = read_service(store)["dbname"], f"{read_service(store)['dbname']}_other"
        connection = psycopg2.connect(**clusters[store].parameters("postgres"))
        connection.autocommit = True
        with connection.cursor() as cursor:
            cursor.execute(f"create database {other}")
        connection.close()
        made.append((clusters[store], other))
        break_service(store, dbname=other)
        initialise_store(world.routes.store(store), world.routes)
        break_service(store, dbname=first)
        return other

    yield make
    disposal.discard(made)


@pytest.fixture
def copied_database(clusters: Mapping[str, Cluster], world: World) -> Iterator[OtherDatabase]:
    """Copies a store's database with all that it has now, and gives the name of the copy."""
    made: list[tuple[Cluster, str]] = []

    def make(store: str) -> str:
        first, other = read_service(store)["dbname"], f"{read_service(store)['dbname']}_copy"
        connection = psycopg2.connect(**clusters[store].parameters("postgres"))
        connection.autocommit = True
        with connection.cursor() as cursor:
            cursor.execute("select pg_terminate_backend(pid) from pg_stat_activity where datname = %s", (first,))
            cursor.execute(f"create database {other} template {first}")
        connection.close()
        made.append((clusters[store], other))
        return other

    yield make
    disposal.discard(made)


class SlicesElsewhere:
    """Copies as workers do whose service file was edited after the driver connected."""

    application = None

    def __init__(self, store: str, database: str) -> None:
        self._store, self._database = store, database

    def copy_slices(self, order: SliceJob, slices: Sequence[Slice]) -> Iterator[SliceCopied]:
        break_service(self._store, dbname=self._database)
        for slice_ in slices:
            yield copy_slice(order, slice_)


def counts(world: World, store: str) -> tuple[int, int]:
    """Rows of the log of flights/1 and confirmations, of whichever of them the store has."""
    return (
        world.value(store, "select count(*) from relaybox_internal.log"),
        world.value(store, "select count(*) from relaybox_internal.confirmation"),
    )


def test_g7_a_second_deployment_with_another_hub_confirms_nothing_that_the_first_one_planned(
    world: World, other_database: OtherDatabase
) -> None:
    """The first driver died after its plan; the second would move the batch to its own hub and have it dropped at the airline."""
    first, other = read_service("hub")["dbname"], other_database("hub")
    world.send("a", "b")
    plan_and_die(world)
    break_service("hub", dbname=other)
    with pytest.raises(errors.HistoryLost, match=r"until now the hop went to store .* Nothing was moved\."):
        world.transfer()
    assert counts(world, "hub")[0] == counts(world, "airline")[1] == 0
    break_service("hub", dbname=first)
    world.transfer_all()
    assert verify_route(world.route).outcome == "delivered"


def plan_and_die(world: World) -> None:
    """A driver of the first hop dies after its plan."""
    with pytest.raises(Stopped):
        transfer_hop(world.first_hop, ThreadRunner(1), recorded_by="test", progress=_stop)


def _stop(progress: Progress) -> None:
    raise Stopped


def test_g11_another_destination_stops_each_command_that_moves_or_confirms(world: World, other_database: OtherDatabase) -> None:
    """The error names both ids, what is confirmed, and what to do; status says the same; the hop goes on where it was."""
    first, other = read_service("hub")["dbname"], other_database("hub")
    world.send("a")
    world.transfer_all()
    was = world.value("hub", "select store_id::text from relaybox_internal.store")
    break_service("hub", dbname=other)
    is_now = world.value("hub", "select store_id::text from relaybox_internal.store")
    world.send("b")
    said = rf"hub is store {is_now}; until now the hop went to store {was}, which has confirmed batch 1"
    for stopped in (
        world.transfer,
        lambda: settle_hop(world.route, world.first_hop, recorded_by="test"),
        lambda: attest_store(world.routes.store("airline"), world.routes, recorded_by="test", reason="a wrong one"),
    ):
        with pytest.raises(errors.HistoryLost, match=said) as raised:
            stopped()
        assert "relaybox rebuild hub" in raised.value.next_step
        assert "relaybox reanchor flights/1" in raised.value.next_step
    assert said in " ".join(invoke("status").stderr.split())
    assert counts(world, "hub") == (0, 0)
    break_service("hub", dbname=first)
    world.transfer_all()
    assert world.payloads("flights/2") == ["a", "b"]
    assert verify_route(world.route).outcome == "delivered"


def test_g11_another_source_stops_the_hop(world: World, other_database: OtherDatabase) -> None:
    """Two airlines can't write into one log of the hub."""
    other = other_database("airline")
    world.send("a")
    world.transfer()
    break_service("airline", dbname=other)
    world.send("b")
    with pytest.raises(
        errors.HistoryLost, match=r"airline is store .*; until now the hop came from store .*, of which hub has published"
    ):
        world.transfer()
    assert world.payloads() == ["a"]


def test_a_hop_that_has_moved_nothing_may_still_change_its_stores(world: World, other_database: OtherDatabase) -> None:
    """The owner corrects relaybox.yaml before the first message: nothing to repair."""
    world.transfer()
    assert world.value("airline", "select destination_id is not null from relaybox_internal.hop_out")
    other = {store: other_database(store) for store in ("airline", "hub")}
    for store, database in other.items():
        break_service(store, dbname=database)
        world.transfer()
    world.send("a")
    world.transfer()
    assert world.payloads() == ["a"]


@pytest.mark.parametrize("store", ["airline", "hub"])
def test_g3_a_worker_whose_service_file_was_edited_copies_nothing(
    world: World, other_database: OtherDatabase, store: str
) -> None:
    """The driver's sessions lead to the old database, the worker's to the new one."""
    first, other = read_service(store)["dbname"], other_database(store)
    world.send("a")
    with pytest.raises(errors.HistoryLost, match=rf"{store} is store .* the connection leads to another database \(RB018\)"):
        transfer_hop(world.first_hop, SlicesElsewhere(store, other), recorded_by="test")
    assert world.value("hub", "select count(*) from relaybox_internal.log") == 0
    break_service(store, dbname=first)
    world.transfer_all()
    assert verify_route(world.route).outcome == "delivered"


def test_g11_a_worker_that_reaches_another_copy_of_the_source_copies_nothing(
    world: World, copied_database: OtherDatabase
) -> None:
    """A promoted standby, a branch: same store, same number of new rows, and not the driver's. They were taken, and the source confirmed."""
    first = read_service("airline")["dbname"]
    world.send("before")
    world.transfer()
    other = copied_database("airline")
    for database in (other, first):
        break_service("airline", dbname=database)
        world.send(*(f"{database} {number}" for number in range(3)))
    with pytest.raises(errors.HistoryLost, match=r"airline has no plan .* of batch 2 of hop flights/1 here.* \(RB018\)"):
        transfer_hop(world.first_hop, SlicesElsewhere("airline", other), recorded_by="test")
    assert world.payloads("flights/1") == ["before"]
    assert counts(world, "airline")[1] == 1
    break_service("airline", dbname=first)
    world.transfer_all()
    assert world.payloads("flights/1") == ["before", *(f"{first} {number}" for number in range(3))]
    assert verify_route(world.route).outcome == "delivered"


def test_g11_a_copy_that_was_taken_after_the_plan_has_its_rows(world: World, copied_database: OtherDatabase) -> None:
    """What a promoted standby wrote since then lies beyond the plan."""
    first = read_service("airline")["dbname"]
    world.send("a", "b")
    plan_and_die(world)
    other = copied_database("airline")
    break_service("airline", dbname=other)
    world.send("after the copy")
    break_service("airline", dbname=first)
    transfer_hop(world.first_hop, SlicesElsewhere("airline", other), recorded_by="test")
    assert world.payloads("flights/1") == ["a", "b"]


def test_reanchor_sends_everything_to_another_destination_and_refuses_the_first(
    world: World, other_database: OtherDatabase
) -> None:
    """The hub was replaced: all that the airline keeps goes to the new one, and the old deployment stops."""
    first, other = read_service("hub")["dbname"], other_database("hub")
    world.send("a", "b")
    world.transfer()
    break_service("hub", dbname=other)
    shown = invoke("reanchor", "flights/1")
    assert shown.exit_code == 1
    assert "Would be recorded: hub is another database from now on" in " ".join(shown.stdout.split())
    done = invoke("reanchor", "flights/1", "--reason", "hub replaced")
    assert done.exit_code == 0, done.stderr
    world.send("c")
    world.transfer()
    assert world.payloads() == ["a", "b", "c"]
    assert invoke("reanchor", "flights/1").exit_code == 0
    break_service("hub", dbname=first)
    with pytest.raises(errors.HistoryLost, match="until now the hop went to store"):
        world.transfer()
    assert world.payloads() == ["a", "b"]


def test_a_driver_that_published_before_another_destination_was_recorded_confirms_nothing(
    world: World, other_database: OtherDatabase
) -> None:
    """It slept between publish and confirm; its batch is sent to the new destination too."""
    first, other = read_service("hub")["dbname"], other_database("hub")
    world.send("a")
    planned, order = planned_batch(world)
    copy_slice(order, planned.batch.slices[0])
    world.query("airline", "update relaybox_internal.hop_out set destination_id = %s", order.destination_id)
    break_service("hub", dbname=other)
    reanchor_hop(world.first_hop, world.routes, recorded_by="test", reason="a test", dry_run=False)
    break_service("hub", dbname=first)
    with world.store_session("hub") as destination, world.store_session("airline") as source:
        arrival = publish_batch(destination, world.first_hop, planned.batch, log_id=order.log_id)
        with pytest.raises(errors.HistoryLost, match=r"batch 1 arrived in store .*; the hop goes to store .* \(RB018\)"):
            confirm_received(source, world.first_hop, arrival, destination_id=order.destination_id, recorded_by="test")
    break_service("hub", dbname=other)
    world.transfer()
    assert world.payloads() == ["a"]


def test_of_two_first_meetings_at_once_one_is_refused(world: World, other_database: OtherDatabase) -> None:
    """Stores of an older version, whose hops had moved messages before ids were recorded."""
    other = other_database("hub")
    world.send("a")
    world.transfer()
    world.query("airline", "update relaybox_internal.hop_out set destination_id = null")
    with world.session("airline") as session, session.cursor() as cursor, ThreadPoolExecutor(1) as pool:
        cursor.execute("select relaybox_internal.meet_destination('flights/1', %s)", (world.store_ids().destination,))
        break_service("hub", dbname=other)
        second = pool.submit(world.transfer)
        waits = "select exists (select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock')"
        wait_until(lambda: world.value("airline", waits), "the second driver waits for the first one's record")
        session.commit()
        with pytest.raises(errors.HistoryLost, match="another driver has just recorded store"):
            second.result()
    assert counts(world, "hub")[0] == 0
