"""Every Airflow action in every state of an author's task: messages are sent once, and effects exist once. Run: make test-airflow-actions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from relaybox.local.clusters import Cluster
from tests.airflow.action_cells import AUTHOR_EFFECTS
from tests.airflow.action_target import Target, TaskOfDag
from tests.airflow.system import ARRIVE_SECONDS, System, running_system
from tests.support.patience import patience
from tests.support.world import World, wait_until

DAGS = Path(__file__).with_name("author_dags")
STORE, SUBSCRIPTION = "hub", "author"
HOLDS = {
    "put_open": "put.committing",
    "put_committed": "put.committed",
    "consume_handling": "consume.handled",
    "consume_committed": "consume.committed",
}
"""Where a state's task is held."""
ROWS, MESSAGES = 3, 60
"""Messages of a put, and those that wait for a task that consumes: half a minute's work while it is slow."""
LEASE_SECONDS = 3

PUT_CELLS = [(action, state) for action, effects in AUTHOR_EFFECTS.items() for state in effects if state.startswith("put")]
CONSUME_CELLS = [
    (action, state) for action, effects in AUTHOR_EFFECTS.items() for state in effects if state.startswith("consume")
]
ENDED_CELLS = [action for action, effects in AUTHOR_EFFECTS.items() if "ended" in effects]
MARKS = ("mark_failed", "mark_success")
SENT = "select payload from relaybox.outbox where starts_with(payload, %s) order by seq"
EFFECTS = "select stream_position from public.effect order by n"


@pytest.fixture(scope="module")
def system(clusters: Mapping[str, Cluster], tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    """One Airflow for all cells, with the author's DAGs alone. The test itself moves messages to the store of the subscription."""

    def prepare(world: World) -> None:
        world.query(STORE, "create table public.effect (n bigint generated always as identity, stream_position bigint)")
        world.query(STORE, "create table public.slow (is_slow boolean)")
        subscribe = "select relaybox.subscribe(%s, 'flights', lanes => 2, lease_seconds => %s, crash_limit => 1000000)"
        world.query(STORE, subscribe, SUBSCRIPTION, LEASE_SECONDS)

    directory = tmp_path_factory.mktemp("authors")
    with running_system(clusters, directory, pauses=tuple(HOLDS.values()), prepare=prepare, dags=DAGS) as system:
        wait_until(
            lambda: system.client.get("dags", limit=1)["total_entries"] == 2,
            "Airflow has both DAGs",
            deadline_seconds=ARRIVE_SECONDS,
            poll_seconds=0.5,
        )
        yield system


@pytest.mark.parametrize(("action", "state"), PUT_CELLS)
def test_g3_a_put_sends_each_message_once(system: System, action: str, state: str) -> None:
    put = TaskOfDag(system, "author_put", "put")
    with system.held(HOLDS[state]):
        target = _begin(put, state)
        getattr(target, action)()
        _await_effect(target, action)
    system.wait_until_quiet()
    sends_nothing = action in MARKS and state == "put_open"
    assert _sent(system, target.run_id) == ([] if sends_nothing else _rows(target.run_id))
    if action == "two_runs":
        runs = [run["dag_run_id"] for run in system.runs("author_put")][-3:]
        assert [_sent(system, run) for run in runs] == [_rows(run) for run in runs]
    if action in MARKS:
        target.clear()
        _wait_for_success(put, target.run_id)
        assert _sent(system, target.run_id) == _rows(target.run_id), "clear it to send"


@pytest.mark.parametrize(("action", "state"), CONSUME_CELLS)
def test_g10_each_effect_exists_once(system: System, action: str, state: str) -> None:
    consume, expected = TaskOfDag(system, "author_consume", "consume"), _deliver(system)
    with ExitStack() as holding:
        holding.enter_context(_slow(system))
        with system.held(HOLDS[state]):
            target = _begin(consume, state)
            getattr(target, action)()
            if action not in MARKS:
                _await_effect(target, action)
        if action in MARKS:
            _wait_until_gone(target)
            assert target.state != _state(target)
            assert len(expected) - MESSAGES < len(_effects(system)) < len(expected), "its message is finished, others wait"
    system.wait_until_quiet()
    if action in MARKS:
        _run(consume)
    assert sorted(_effects(system)) == expected


@pytest.mark.parametrize("action", MARKS)
def test_g10_a_handler_that_takes_too_long_to_end_is_killed_and_undone(system: System, action: str) -> None:
    consume, before, expected = TaskOfDag(system, "author_consume", "consume"), _effects(system), _deliver(system)
    with system.held("consume.handled"):
        target = _begin(consume, "consume_handling")
        getattr(target, action)()
        _wait_until_gone(target)
        assert _effects(system) == before
    system.wait_until_quiet()
    wait_until(lambda: not _leased(system), "the lease of the killed task ends", deadline_seconds=ARRIVE_SECONDS)
    _run(consume)
    assert sorted(_effects(system)) == expected


@pytest.mark.parametrize("action", ENDED_CELLS)
def test_g3_g10_nothing_is_sent_or_done_twice_after_the_end(system: System, action: str) -> None:
    put, consume = TaskOfDag(system, "author_put", "put"), TaskOfDag(system, "author_consume", "consume")
    _deliver(system)
    ended = [_run(task) for task in (put, consume)]
    done, expected = _effects(system), _deliver(system)
    for target in ended:
        getattr(target, action)()
    if action == "clear":
        for target in ended:
            _wait_for_success(target.of, target.run_id)
    system.wait_until_quiet()
    assert _sent(system, ended[0].run_id) == _rows(ended[0].run_id)
    if action in MARKS:
        assert _effects(system) == done, "only the state in Airflow changes"
        _run(consume)
    assert sorted(_effects(system)) == expected


def _begin(task: TaskOfDag, state: str) -> Target:
    """A new run of the DAG, whose task is held in this state."""
    task.system.client.trigger_dag(task.dag_id)
    task.wait_until_held(HOLDS[state])
    return task.wait_for("running")


def _run(task: TaskOfDag) -> Target:
    """A new run of the DAG, to its end."""
    before = frozenset(one["dag_run_id"] for one in task.attempts())
    run = task.system.client.trigger_dag(task.dag_id)
    _wait_for_success(task, run)
    return task.wait_for("success", but_runs=before)


def _wait_for_success(task: TaskOfDag, run: str) -> None:
    state = task.system.client.wait_for_run(task.dag_id, run, deadline_seconds=patience(ARRIVE_SECONDS))
    assert state == "success", task.system.account_of(task.dag_id, run)


def _await_effect(target: Target, action: str) -> None:
    """Until another process runs the task, or the process has ended that must not."""
    if action in ("clear", "retry"):
        target.wait_for_next_attempt()
    elif action in MARKS:
        _wait_until_gone(target)


def _wait_until_gone(target: Target) -> None:
    wait_until(
        lambda: not Path(f"/proc/{target.pid}").exists(),
        "the process has ended",
        deadline_seconds=ARRIVE_SECONDS,
        poll_seconds=0.2,
    )


def _state(target: Target) -> str:
    return str(target.system.client.get(f"{target.path}/taskInstances/{target.of.task_id}")["state"])


def _sent(system: System, run: str) -> list[str]:
    return [payload for (payload,) in system.world.query("airline", SENT, f"{run}/")]


def _rows(run: str) -> list[str]:
    return [f"{run}/{number}" for number in range(1, ROWS + 1)]


def _deliver(system: System) -> list[int]:
    """More messages for the subscription; the stream positions of all that were ever delivered."""
    system.world.send_many(MESSAGES)
    system.world.transfer(system.world.first_hop)
    last = system.world.value(STORE, "select last_stream_position from relaybox_internal.stream where stream = 'flights'")
    return list(range(1, last + 1))


def _effects(system: System) -> list[int]:
    return [stream_position for (stream_position,) in system.world.query(STORE, EFFECTS)]


def _leased(system: System) -> bool:
    query = "select exists (select from relaybox_internal.lane_cursors where leased_until > clock_timestamp())"
    return bool(system.world.value(STORE, query))


@contextmanager
def _slow(system: System) -> Iterator[None]:
    system.world.query(STORE, "insert into public.slow values (true)")
    try:
        yield
    finally:
        system.world.query(STORE, "delete from public.slow")
