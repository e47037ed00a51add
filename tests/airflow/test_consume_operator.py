"""The task that consumes: effects once, whatever is retried, cleared or killed; bounds, refusals, dead letters, the decorator."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from airflow.sdk import DAG, task
from airflow.sdk.exceptions import AirflowException, AirflowFailException
from sqlalchemy import text

from relaybox.airflow.author_tasks import task_instance_key
from relaybox.airflow.operators import consume
from relaybox.airflow.operators.consume import RelayboxConsumeOperator, worker_name
from relaybox.consumer.stopping import StopEvent
from relaybox.errors import CredentialsUnavailable, HandlerRefused
from relaybox.failpoints import CONSUMER_FAILPOINTS
from tests.airflow.connections import change_connection
from tests.airflow.task_time import TaskTime
from tests.support.killed_child import kill_at
from tests.support.patience import patience
from tests.support.streams import STORE, deliver
from tests.support.world import World

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from relaybox.consumer import Message

EFFECTS = "select stream_position from public.effect order by n"


@pytest.fixture
def shop(connected: World) -> World:
    """A table for effects, and twelve messages that wait for the subscription `billing`."""
    connected.query(
        STORE, "create table public.effect (n bigint generated always as identity, stream_position bigint, payload text)"
    )
    connected.query(
        STORE, "select relaybox.subscribe('billing', 'flights', crash_limit => 1000000, lease_seconds => 600, nack_limit => 2)"
    )
    deliver(connected, 12)
    return connected


def write(connection: Connection, message: Message) -> None:
    connection.execute(
        text("insert into public.effect (stream_position, payload) values (:position, :payload)"),
        {"position": message.stream_position, "payload": message.payload},
    )


def execute(run_id: str = "manual__1", handler: Any = write, **given: Any) -> Any:
    operator = RelayboxConsumeOperator(
        task_id="bill", **{"relaybox_conn_id": "relaybox_hub", "subscription": "billing", "handler": handler, **given}
    )
    return operator.execute({"ti": instance(run_id)})


def instance(run_id: str = "manual__1") -> Any:
    return SimpleNamespace(dag_id="d", task_id="bill", map_index=-1, run_id=run_id, try_number=1)


def effects(world: World) -> list[int]:
    return [row[0] for row in world.query(STORE, EFFECTS)]


def test_g10_a_cleared_task_repeats_no_effect(shop: World) -> None:
    assert execute() == {"acknowledged": 12, "refused": 0, "dead_letters": 0, "unread_lanes": 0}
    assert execute()["acknowledged"] == 0
    deliver(shop, 3)
    assert execute()["acknowledged"] == 3
    assert effects(shop) == list(range(1, 16))


@pytest.mark.parametrize("step", CONSUMER_FAILPOINTS)
@pytest.mark.parametrize("commit_every", [1, 5])
def test_g10_a_task_that_is_killed_at_any_step_leaves_each_effect_once(
    shop: World, tmp_path: Path, step: str, commit_every: int
) -> None:
    """The retry waits for the lease of the killed attempt, and handles what that had fetched."""
    shop.query(STORE, "update relaybox_internal.subscription set lease_seconds = 2")

    def refusing(connection: Connection, message: Message) -> None:
        write(connection, message)
        if message.stream_position == 2 and message.attempt == 1:
            raise ValueError("not now")

    kill_at(step, tmp_path, lambda: execute(handler=refusing, commit_every=commit_every))
    execute(commit_every=commit_every)
    assert effects(shop) == list(range(1, 13))


def test_a_retry_whose_time_ends_before_the_lease_of_a_killed_attempt_says_what_it_leaves(shop: World) -> None:
    """The lease is ten minutes, the bound a second: a success, but not one that claims to have read everything."""
    killed = worker_name(task_instance_key(instance()), 1)
    shop.query(STORE, "select relaybox.fetch('billing', 5, worker => %s)", killed)
    assert execute(max_seconds=1.0) == {"acknowledged": 0, "refused": 0, "dead_letters": 0, "unread_lanes": 1}


def test_a_task_ends_after_its_number_of_messages_and_leaves_the_others_free(shop: World) -> None:
    """Another run gets them at once: their lease was given back."""
    assert execute(max_messages=5, fetch_size=3)["acknowledged"] == 5
    assert effects(shop) == [1, 2, 3, 4, 5]
    assert execute("manual__2", max_messages=5)["acknowledged"] == 5
    assert execute("manual__3")["acknowledged"] == 2


@pytest.fixture
def task_time(monkeypatch: pytest.MonkeyPatch) -> TaskTime:
    return TaskTime(consume, monkeypatch)


def test_a_task_ends_after_its_time_also_while_it_waits(
    shop: World, task_time: TaskTime, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bound of time is no failure. Nothing else ends the wait, in which the time begins."""
    wait = StopEvent.wait_for_notification

    def wait_for_hours(event: StopEvent, listener: Any, seconds: float) -> None:
        task_time.begin()
        wait(event, listener, 3600.0)

    monkeypatch.setattr(StopEvent, "wait_for_notification", wait_for_hours)
    assert execute(max_seconds=0.2, until_empty=False)["acknowledged"] == 12
    assert task_time.is_over.is_set()


def test_a_task_whose_time_ends_finishes_the_message_that_it_handles(shop: World, task_time: TaskTime) -> None:
    def slow(connection: Connection, message: Message) -> None:
        write(connection, message)
        task_time.begin()
        assert task_time.is_over.wait(patience(30))

    assert execute(handler=slow, max_seconds=0.2)["acknowledged"] == 1
    execute()
    assert effects(shop) == list(range(1, 13))


def test_what_the_handler_refuses_comes_again_and_becomes_a_dead_letter_that_fails_the_task(shop: World) -> None:
    """The others are handled; a cleared task finds nothing any more."""

    def refuse_two(connection: Connection, message: Message) -> None:
        write(connection, message)
        if message.stream_position == 2:
            raise ValueError("a bad one")

    with pytest.raises(AirflowFailException, match="1 message became a dead letter, 11 were acknowledged"):
        execute(handler=refuse_two)
    assert effects(shop) == [1, *range(3, 13)]
    assert shop.query(STORE, "select stream_position, attempts, detail from relaybox.dead_letters") == [
        (2, 2, "ValueError: a bad one")
    ]
    assert execute()["acknowledged"] == 0
    shop.query(STORE, "select relaybox.redrive('billing', 'corrected')")
    again = execute(handler=refuse_two, fail_on_dead_letter=False)
    assert (again["acknowledged"], again["dead_letters"]) == (0, 1)
    shop.query(STORE, "select relaybox.redrive('billing', 'corrected')")
    assert execute()["acknowledged"] == 1
    assert sorted(effects(shop)) == list(range(1, 13))


def test_a_task_that_is_told_to_end_finishes_its_message_and_is_no_success(shop: World) -> None:
    """Airflow sends SIGTERM when a task is cleared or marked, and when its worker shuts down."""

    def told(connection: Connection, message: Message) -> None:
        write(connection, message)
        if message.stream_position == 3:
            os.kill(os.getpid(), signal.SIGTERM)

    with pytest.raises(AirflowException, match="told to end after 3 messages"):
        execute(handler=told)
    assert effects(shop) == [1, 2, 3]
    execute("manual__2")
    assert effects(shop) == list(range(1, 13))


def test_the_lease_is_renewed_by_each_acknowledgement(shop: World) -> None:
    """Handling all of a fetch takes longer than the lease; a neighbour looks for work all the while and gets none.

    Each message takes two thirds of the lease: so much time passes in the store.
    """
    shop.query(STORE, "select relaybox.subscribe('slow', 'flights', lease_seconds => 600)")
    pass_time = "update relaybox_internal.cursor set leased_until = leased_until - interval '400 seconds'"
    is_leased = "select leased_until > clock_timestamp() from relaybox_internal.lane_cursors where worker <> 'thief'"
    leased: list[tuple[bool]] = []
    stolen: list[int] = []

    def slow(connection: Connection, message: Message) -> None:
        write(connection, message)
        shop.query(STORE, pass_time)
        leased.extend(shop.query(STORE, is_leased))
        stolen.extend(
            row[0] for row in shop.query(STORE, "select stream_position from relaybox.fetch('slow', 5, worker => 'thief')")
        )

    assert execute(subscription="slow", handler=slow)["acknowledged"] == 12
    assert leased == [(True,)] * 12
    assert stolen == []
    assert effects(shop) == list(range(1, 13))


def test_two_runs_at_once_handle_each_message_once(shop: World) -> None:
    """They share the lanes, each with a worker's name of its own."""
    shop.query(STORE, "select relaybox.subscribe('shared', 'flights', lanes => 2, lease_seconds => 600)")
    children = []
    for run_id in ("manual__1", "manual__2"):
        child = os.fork()
        if child == 0:
            try:
                execute(run_id, subscription="shared", fetch_size=2)
            finally:
                os._exit(0)
        children.append(child)
    for child in children:
        os.waitpid(child, 0)
    execute("manual__3", subscription="shared")
    assert sorted(effects(shop)) == list(range(1, 13))


def test_a_subscription_that_does_not_exist_fails_at_once(shop: World) -> None:
    with pytest.raises(AirflowFailException, match="subscription nobody"):
        execute(subscription="nobody")


def test_a_missing_connection_is_retried(shop: World) -> None:
    with pytest.raises(CredentialsUnavailable, match="Add the connection in Airflow"):
        execute(relaybox_conn_id="nowhere")


@pytest.mark.parametrize("given", [{"max_messages": 0}, {"max_seconds": 0}])
def test_a_bound_that_makes_no_sense_is_refused_when_the_file_is_read(given: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="give"):
        RelayboxConsumeOperator(task_id="t", relaybox_conn_id="c", subscription="s", handler=write, **given)


def test_a_consumer_needs_no_other_right(shop: World, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.query(STORE, "create role tests_author login password 'p' in role relaybox_consumer")
    shop.query(STORE, "grant insert on public.effect to tests_author")
    change_connection(monkeypatch, "RELAYBOX_HUB", login="tests_author", password="p")
    try:
        assert execute()["acknowledged"] == 12
    finally:
        shop.query(STORE, "drop owned by tests_author; drop role tests_author")


def test_a_function_is_a_task_by_the_decorator_that_airflow_finds(shop: World) -> None:
    """Airflow knows it by the provider; arguments of the DAG come beside connection and message."""
    with DAG("d", schedule=None):

        @task.relaybox_consume(relaybox_conn_id="relaybox_hub", subscription="billing", max_messages=7)
        def bill(connection: Connection, message: Message, prefix: str) -> None:
            connection.execute(
                text("insert into public.effect (stream_position, payload) values (:position, :payload)"),
                {"position": message.stream_position, "payload": f"{prefix}{message.payload}"},
            )

        made = bill(prefix="billed ")
    assert made.operator.task_id == "bill"
    assert made.operator.execute({"ti": instance()})["acknowledged"] == 7
    assert shop.query(STORE, "select payload from public.effect order by n limit 1") == [("billed m1",)]


def test_a_function_without_a_message_is_refused_when_the_file_is_read() -> None:
    with DAG("d", schedule=None), pytest.raises(TypeError, match=r"bill\(\) has no parameter message"):

        @task.relaybox_consume(relaybox_conn_id="relaybox_hub", subscription="billing")
        def bill(connection: Connection) -> None: ...

        bill()


def test_an_async_function_is_refused_when_the_file_is_read() -> None:
    async def bill(connection: Connection, message: Message) -> None: ...

    with pytest.raises(HandlerRefused, match=r"bill is async: a call of it does nothing"):
        RelayboxConsumeOperator(task_id="t", relaybox_conn_id="c", subscription="s", handler=bill)  # type: ignore[arg-type]
    with DAG("d", schedule=None), pytest.raises(HandlerRefused, match="is async"):
        task.relaybox_consume(relaybox_conn_id="relaybox_hub", subscription="billing")(bill)()


@pytest.mark.parametrize("decorated", [True, False])
def test_a_task_whose_handler_returns_work_that_nothing_runs_fails_at_once(shop: World, *, decorated: bool) -> None:
    async def later() -> None: ...

    def bill(connection: Connection, message: Message) -> Any:
        return later()

    with pytest.raises(AirflowFailException, match=r"stream position 1: the handler .* returned a coroutine"):
        if decorated:
            with DAG("d", schedule=None):
                made = task.relaybox_consume(relaybox_conn_id="relaybox_hub", subscription="billing")(bill)()
            made.operator.execute({"ti": instance()})
        else:
            execute(handler=bill)
    assert execute("manual__2")["acknowledged"] == 12
    assert effects(shop) == list(range(1, 13))


def test_an_attempt_beside_another_leaves_it_its_messages_and_makes_no_dead_letter(shop: World) -> None:
    """A zombie beside its retry, or two Airflows with the same DAG: one name for both made each fetch a crash of the other."""
    shop.query(STORE, "select relaybox.subscribe('both', 'flights', crash_limit => 2, lease_seconds => 600)")
    beside: list[Any] = []

    def handle(connection: Connection, message: Message) -> None:
        write(connection, message)
        if message.stream_position in (2, 4, 6, 8):
            beside.append(execute(subscription="both", max_seconds=0.5)["acknowledged"])

    assert execute(subscription="both", handler=handle)["acknowledged"] == 12
    assert beside == [0, 0, 0, 0]
    assert shop.query(STORE, "select * from relaybox.dead_letters") == []
    assert effects(shop) == list(range(1, 13))
