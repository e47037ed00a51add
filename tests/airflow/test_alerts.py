"""A team's callbacks on the generated DAGs, without a line of theirs in our code; and hops that are later than their target."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from airflow.sdk import DAG, BaseNotifier
from airflow.sdk.definitions.callback import AsyncCallback, SyncCallback
from airflow.sdk.execution_time.context import OutletEventAccessors
from airflow.serialization.serialized_objects import DagSerialization

from relaybox.airflow.dags import build_dags
from relaybox.airflow.late_hops import LateHop, choose_reports
from tests.support.world import World, routes_file, wait_until

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
SENT: list[str] = []


class Notifier(BaseNotifier):
    """As those of providers: its text is a template."""

    template_fields = ("text",)

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text

    def notify(self, context: Any) -> None:
        SENT.append(self.text)


async def page_on_call(context: Mapping[str, Any]) -> None:
    """Its path is in the serialized DAG; Airflow calls it."""


@pytest.fixture(autouse=True)
def _nothing_sent() -> Iterator[None]:
    SENT.clear()
    yield
    SENT.clear()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return routes_file(tmp_path, route={"limits": {"target_lag_seconds": 120, "run_timeout_seconds": 3600}})


def test_a_callback_for_failures_is_on_every_dag(path: Path) -> None:
    notifier = Notifier("{{ run_id }}")
    dags = build_dags(path, on_failure_callback=notifier)
    assert {dag_id: dag.on_failure_callback for dag_id, dag in dags.items()} == {dag_id: [notifier] for dag_id in dags}
    assert all(DagSerialization.serialize_dag(dag)["has_on_failure_callback"] for dag in dags.values())
    assert not any("has_on_failure_callback" in DagSerialization.serialize_dag(dag) for dag in build_dags(path).values())


def test_what_cannot_be_called_is_refused(path: Path) -> None:
    """An import error of the DAG file, not an alert that never comes."""
    with pytest.raises(TypeError, match="'#ops' cannot be called: give a notifier"):
        build_dags(path, on_late_callback=["#ops"])  # type: ignore[list-item]


@pytest.mark.parametrize("callback", [AsyncCallback(page_on_call), SyncCallback(Notifier, {"text": "late"})])
def test_transfers_and_confirmations_have_deadlines(path: Path, callback: Any) -> None:
    """A confirmation has the target of its route. A transfer goes on while messages come: it may take as long as its attempt."""
    dags = build_dags(path, deadline_callback=callback)
    deadlines = {dag_id: one.interval for dag_id, dag in dags.items() for one in dag.deadline or []}  # type: ignore[union-attr]
    confirms = {f"relaybox_confirm__flights_{number}": timedelta(seconds=120) for number in (1, 2)}
    transfers = {f"relaybox_transfer__flights_{number}": timedelta(seconds=3720) for number in (1, 2)}
    assert deadlines == confirms | transfers
    for dag_id in deadlines:
        again: Any = DagSerialization.deserialize_dag(DagSerialization.serialize_dag(dags[dag_id]))
        assert len(again.deadline) == 1


def late(name: str) -> LateHop:
    return LateHop(name, 11.0, 10, 1, "/p")


def test_a_late_hop_is_reported_when_it_becomes_late_and_each_hour() -> None:
    reported = {
        "a/1": (NOW - timedelta(minutes=59)).isoformat(),
        "b/1": (NOW - timedelta(minutes=60)).isoformat(),
        "gone/1": NOW.isoformat(),
    }
    assert [hop.name for hop in choose_reports([late("a/1"), late("b/1"), late("new/1")], reported, NOW)] == ["b/1", "new/1"]


def look(
    world: World, *, last: Mapping[str, str] | None = None, store: str = "airline", **callbacks: Any
) -> tuple[dict[str, Any], Any]:
    """The look of a scheduled run; `last`: what the one before returned of late hops. Returns the result and events by asset."""
    task: Any = build_dags(world.path, **callbacks)["relaybox_watch"].get_task(f"look_at_{store}")
    events = OutletEventAccessors()
    before = None if last is None else SimpleNamespace(logical_date=NOW - timedelta(minutes=5), run_id="before")
    pulled = {(task.task_id, "before"): {"waiting": [], "unsettled": [], "late": last}}
    ti = SimpleNamespace(
        dag_id="relaybox_watch",
        run_id="now",
        get_previous_ti=lambda **_: before,
        xcom_pull=lambda *, task_ids, run_id: pulled[task_ids, run_id],
    )
    run = SimpleNamespace(run_type="scheduled", logical_date=NOW)
    result = task.execute({"ti": ti, "outlet_events": events, "params": {}, "dag_run": run, "dag": DAG("d", schedule=None)})
    return result, {event.dest_asset_key.name: event.extra for event in events[task.alias].asset_alias_events}


def make_late(world: World, count: int = 3) -> None:
    """Messages of the first hop that wait longer than its target."""
    world.change_route(limits={"target_lag_seconds": 1})
    send_late(world, count)


def send_late(world: World, count: int = 3) -> None:
    world.send_many(count)
    age = "select extract(epoch from clock_timestamp() - min(sent_at)) from relaybox.outbox"
    wait_until(lambda: world.value("airline", age) > 1.1, "the messages are older than the target")


def test_a_hop_that_is_later_than_its_target_is_an_event_and_a_call(connected: World) -> None:
    """Once for the time in which it is late: the next look knows it. Its transfer is started all the same."""
    connected.send("one")
    notifier = Notifier("{{ late_hop.name }}: {{ late_hop.waiting_count }} wait, target {{ late_hop.target_lag_seconds }} s")
    result, events = look(connected, on_late_callback=notifier)
    assert (result["late"], SENT) == ({}, [])
    assert set(events) == {"relaybox/flights/1/work"}

    make_late(connected)
    result, events = look(connected, on_late_callback=notifier)
    assert set(events) == {"relaybox/flights/1/work", "relaybox/flights/1/late"}
    event = events["relaybox/flights/1/late"]
    assert event.items() >= {"name": "flights/1", "target_lag_seconds": 1, "waiting_count": 4}.items()
    assert event["lag_seconds"] > 1
    assert event["page"].endswith("/hops/flights/1")
    assert SENT == ["flights/1: 4 wait, target 1 s"]

    again, events = look(connected, last=result["late"], on_late_callback=notifier)
    assert again["late"] == result["late"]
    assert (set(events), len(SENT)) == ({"relaybox/flights/1/work"}, 1)
    connected.transfer_all()
    assert look(connected, last=again["late"], on_late_callback=notifier)[0]["late"] == {}


def test_two_late_hops_of_a_store_each_have_their_own_text(connected: World) -> None:
    """A notifier renders its fields once and keeps the result: each call gets a notifier of its own."""
    document = yaml.safe_load(connected.path.read_text())
    document["routes"]["second"] = {"topics": ["flights"], "path": ["airline", "analytics"]}
    for route in document["routes"].values():
        route["limits"] = {"target_lag_seconds": 1}
    connected.path.write_text(yaml.safe_dump(document))
    connected.register()
    send_late(connected)
    look(connected, on_late_callback=[Notifier("{{ late_hop.name }}")])
    assert sorted(SENT) == ["flights/1", "second/1"]


def break_lags(world: World) -> None:
    """The function that counts what waits raises, as if its plan or its rows were bad. The one that finds idle hops does not use it."""
    world.query("airline", "alter function relaybox_internal.sending_states(text[]) rename to sending_states_before")


def test_an_error_of_the_lags_stops_no_hop_and_reports_no_hop_twice(connected: World, caplog: pytest.LogCaptureFixture) -> None:
    make_late(connected)
    result, _ = look(connected)
    assert set(result["late"]) == {"flights/1"}
    break_lags(connected)
    again, events = look(connected, last=result["late"])
    assert (again["waiting"], again["late"], set(events)) == (["flights/1"], result["late"], {"relaybox/flights/1/work"})
    (warning,) = [record for record in caplog.records if record.getMessage().startswith("look_incomplete ")]
    assert warning.levelname == "WARNING"
    assert 'store=airline activity="reading the lag of its hops"' in warning.getMessage()
    assert "sending_states" in warning.getMessage()


def test_lags_that_take_too_long_delay_no_hop(
    connected: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A store that counts many waiting messages: the look ends after its time, with the event of its hop."""
    monkeypatch.setattr("relaybox.airflow.hop_state.LAGS_SECONDS", 1.0)
    connected.send("one")
    read = connected.value("airline", "select pg_get_functiondef('relaybox_internal.sending_states(text[])'::regprocedure)")
    connected.query(
        "airline",
        read.replace(
            "left join oldest o", "join (select pg_sleep(20) is not null as slept) p on p.slept\n    left join oldest o"
        ),
    )
    result, _ = look(connected)
    assert result["waiting"] == ["flights/1"]
    assert (
        "StoreBusy: store airline: while reading the lag of its hops: canceling statement due to statement timeout" in caplog.text
    )


def test_an_error_of_the_lags_fails_a_look_that_has_no_hop_to_trigger(connected: World) -> None:
    break_lags(connected)
    with pytest.raises(Exception, match="sending_states"):
        look(connected)


def test_a_notifier_that_fails_stops_no_hop_and_is_called_again(connected: World, caplog: pytest.LogCaptureFixture) -> None:
    def fail(_: Any) -> None:
        raise OSError("no route to the chat")

    make_late(connected)
    result, events = look(connected, on_late_callback=fail)
    assert (result["late"], result["waiting"], set(events)) == ({}, ["flights/1"], {"relaybox/flights/1/work"})
    assert "OSError: no route to the chat" in caplog.text
    assert set(look(connected, last=result["late"], on_late_callback=Notifier("again"))[0]["late"]) == {"flights/1"}
    assert SENT == ["again"]
