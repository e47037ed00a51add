"""The DAGs that relaybox.yaml gives, without network or database."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk import DAG, Asset, AssetAny, BaseOperator
from airflow.sdk.definitions.context import _AIRFLOW_PARSING_CONTEXT_DAG_ID
from airflow.sdk.exceptions import ParamValidationError
from airflow.serialization.serialized_objects import DagSerialization
from airflow.timetables.base import TimeRestriction
from pendulum import UTC, DateTime

from relaybox.airflow.dags.every_dag import KINDS, WATCH
from relaybox.airflow.kept_routes import VARIABLE
from relaybox.monitoring.runbooks import read_runbooks
from tests.airflow.conftest import REPOSITORY
from tests.support.derivations import ROUTE, derived_route
from tests.support.patience import patience
from tests.support.world import routes_file

RETRIES = {"attempts": 3, "delay_seconds": 7, "backoff": 3.0, "max_delay_seconds": 60}
HOP_DAG_IDS = {f"relaybox_{kind}__flights_{hop}" for kind in ("transfer", "confirm") for hop in (1, 2)}
ROUTE_DAG_IDS = {f"relaybox_{kind}__flights" for kind in ("replay", "redrive", "skip")}
DAG_IDS = HOP_DAG_IDS | ROUTE_DAG_IDS | {"relaybox_watch", "relaybox_verify", "relaybox_retention", "relaybox_init"}


@pytest.fixture
def route(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """airline -> hub -> analytics, with retries of its own."""
    path = routes_file(tmp_path, route={"retries": RETRIES})
    monkeypatch.setenv("RELAYBOX_CONFIG", str(path))
    return path


@pytest.fixture
def dags(route: Path) -> Mapping[str, DAG]:
    return parse().dags


@pytest.fixture(autouse=True)
def _no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("a DAG file opened a connection")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr("psycopg2.connect", refuse)


def parse() -> DagBag:
    return DagBag(str(REPOSITORY / "dags"))


def schedule(dag: DAG) -> dict[str, Any]:
    """The serialized timetable."""
    return DagSerialization.serialize_dag(dag)["timetable"]


def assets(value: object) -> Iterator[Mapping[str, Any]]:
    """All assets in a serialized value."""
    if isinstance(value, Mapping):
        if value.get("__type") == "asset":
            yield value.get("__var", value)
        yield from (asset for each in value.values() for asset in assets(each))
    elif isinstance(value, list):
        yield from (asset for each in value for asset in assets(each))


def asset_names(value: object) -> list[str]:
    return [asset["name"] for asset in assets(value)]


def test_each_hop_has_a_transfer_dag_and_a_confirm_dag(route: Path) -> None:
    """Two hops have four DAGs, their route three for operator actions. One watches, one verifies, one retains. No import error."""
    bag = parse()
    assert bag.import_errors == {}
    assert set(bag.dags) == DAG_IDS


def test_dags_are_named_after_their_hops(dags: Mapping[str, DAG]) -> None:
    """The list of DAGs reads as the route."""
    titles = {dag_id: dag.dag_display_name for dag_id, dag in dags.items()}
    assert titles["relaybox_transfer__flights_1"] == "flights/1 airline → hub"
    assert titles["relaybox_confirm__flights_2"] == "flights/2 hub ← analytics confirm"
    tags = {dag_id: dag.tags for dag_id, dag in dags.items()}
    assert tags["relaybox_transfer__flights_1"] == {"relaybox", "flights", "transfer"}
    assert tags["relaybox_confirm__flights_2"] == {"relaybox", "flights", "confirm"}
    assert (tags["relaybox_watch"], tags["relaybox_verify"]) == ({"relaybox", "watch"}, {"relaybox", "verify"})


def test_assets_tie_the_hops_and_the_confirmations_to_one_chain(dags: Mapping[str, DAG]) -> None:
    """outbox, log 1, log 2, settled 2, settled 1: each DAG reads what the one before it writes."""
    reads = {dag_id: asset_names(schedule(dag)) for dag_id, dag in dags.items()}
    writes = {dag_id: [asset.name for task in dag.tasks for asset in task.outlets] for dag_id, dag in dags.items()}
    chain = [
        "relaybox_transfer__flights_1",
        "relaybox_transfer__flights_2",
        "relaybox_confirm__flights_2",
        "relaybox_confirm__flights_1",
    ]
    works = {"relaybox/flights/1/work", "relaybox/flights/2/work"}
    assert reads[chain[0]] == ["relaybox/flights/1/work", "relaybox/flights/1/outbox"]
    assert [writes[dag_id] for dag_id in chain[:-1]] == [
        [one for one in reads[dag_id] if one not in works] for dag_id in chain[1:]
    ]
    assert writes[chain[-1]] == ["relaybox/flights/1/settled"]


def test_every_transfer_is_watched(dags: Mapping[str, DAG]) -> None:
    """New messages start a hop. No credential is in the trigger."""
    for number, store in ((1, "airline"), (2, "hub")):
        work, _ = schedule(dags[f"relaybox_transfer__flights_{number}"])["__var"]["asset_condition"]["objects"]
        (watcher,) = work["watchers"]
        assert watcher["trigger"]["classpath"] == "relaybox.airflow.triggers.HopWorkTrigger"
        assert watcher["trigger"]["kwargs"].items() >= {"hop": f"flights/{number}", "connection": f"relaybox_{store}"}.items()


def test_the_clock_starts_no_dag_of_a_hop(dags: Mapping[str, DAG]) -> None:
    """One DAG watches all hops, with a task per source store, another verifies delivery: a hundred idle hops start nothing."""
    clocks = {dag_id: schedule(dag)["__type"].rpartition(".")[2] for dag_id, dag in dags.items()}
    by_clock = dict.fromkeys(("relaybox_watch", "relaybox_verify", "relaybox_retention"), "CronTriggerTimetable")
    by_hand = {**dict.fromkeys((*ROUTE_DAG_IDS, "relaybox_init"), "NullTimetable"), "relaybox_replay__flights": "ReplayTimetable"}
    assert clocks == {**dict.fromkeys(HOP_DAG_IDS, "AssetTriggeredTimetable"), **by_clock, **by_hand}
    assert dags["relaybox_watch"].task_ids == ["keep_routes", "look_at_airline", "look_at_hub"]


def test_an_asset_has_the_same_watchers_wherever_it_is_named(dags: Mapping[str, DAG]) -> None:
    """Airflow keeps the watchers that it parsed last: one mention without them would switch the watch off.

    So would a plain asset of the same name in a DAG of others: of all that they have a reason to name none is watched.
    """
    names = [f"flights/{number}/{kind}" for number in (1, 2) for kind in ("outbox", "log", "settled")]
    plain = [Asset(name=f"relaybox/{name}", uri=f"x-relaybox://{name}", group="relaybox") for name in names]
    with DAG("of_others", schedule=AssetAny(*plain)) as of_others:
        BaseOperator(task_id="writes", outlets=plain)
    watchers: dict[str, set[str]] = {}
    for dag in [*dags.values(), of_others]:
        for asset in assets(DagSerialization.serialize_dag(dag)):
            watchers.setdefault(asset["name"], set()).add(str(asset.get("watchers")))
    assert {name: len(mentions) for name, mentions in watchers.items()} == dict.fromkeys(watchers, 1)


def test_policy_received_confirms_by_the_hops_own_log_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hop that settles with its own arrival does not wait for the hops after it."""
    monkeypatch.setenv("RELAYBOX_CONFIG", str(routes_file(tmp_path, route={"policy": "received"})))
    reads = asset_names(schedule(parse().dags["relaybox_confirm__flights_1"]))
    assert reads == ["relaybox/flights/2/settled", "relaybox/flights/1/log", "relaybox/flights/2/work"]


def test_a_local_hop_is_a_hop_like_any_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ids come from the route and the number, so a store that stands twice in the path makes no two DAGs of one id."""
    monkeypatch.setenv("RELAYBOX_CONFIG", str(routes_file(tmp_path, route={"path": ["airline", "airline", "hub"]})))
    bag = parse()
    assert (bag.import_errors, set(bag.dags)) == ({}, DAG_IDS)
    assert bag.dags["relaybox_transfer__flights_1"].dag_display_name == "flights/1 airline → airline"
    work, log = assets(schedule(bag.dags["relaybox_transfer__flights_2"]))
    assert (work["name"], log["name"]) == ("relaybox/flights/2/work", "relaybox/flights/1/log")
    assert [watcher["trigger"]["kwargs"]["hop"] for watcher in work["watchers"]] == ["flights/2"]


def test_a_derived_route_has_a_dag_that_its_stream_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Events of the stream's logs in that store, of its subscription, or the clock; the other routes have none."""
    routes_file(tmp_path, more_routes={ROUTE: derived_route(**{"with": "delays:late", "version": 3})})
    monkeypatch.setenv("RELAYBOX_CONFIG", str(tmp_path / "relaybox.yaml"))
    dags = parse().dags
    assert [dag_id for dag_id in dags if "derive" in dag_id] == ["relaybox_derive__delays"]
    starts = schedule(dags["relaybox_derive__delays"])
    assert sorted(asset_names(starts)) == ["relaybox/flights/1/log", "relaybox/relaybox_hub/derive.delays.v3/waiting"]
    assert "*/10 * * * *" in str(starts)


def test_a_next_version_has_a_dag_that_a_person_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And that asks before it promotes; a rejection drops. Without a next version there is none."""
    path = routes_file(tmp_path, more_routes={ROUTE: derived_route(**{"with": "delays:late"})})
    monkeypatch.setenv("RELAYBOX_CONFIG", str(path))
    assert "relaybox_promote__delays" not in parse().dags
    tried = derived_route(**{"with": "delays:late", "next": {"with": "delays:later", "version": 2}})
    document = yaml.safe_load(routes_file(tmp_path, more_routes={ROUTE: tried}).read_text())
    document["stores"]["hub"] = {"pool": "small"}
    path.write_text(yaml.safe_dump(document))
    bag = parse()
    assert bag.import_errors == {}
    dag = bag.dags["relaybox_promote__delays"]
    assert "NullTimetable" in str(schedule(dag))
    assert dag.max_active_runs == 1
    assert [(task.task_id, sorted(task.downstream_task_ids)) for task in dag.tasks] == [
        ("try", ["show"]), ("show", ["approve"]), ("approve", ["promote"]), ("promote", ["drop_rejected"]), ("drop_rejected", []),
    ]  # fmt: skip
    rules = {task.task_id: task.trigger_rule.value for task in dag.tasks}
    assert rules == {**dict.fromkeys(rules, "all_success"), "drop_rejected": "none_failed"}
    assert {task.pool for task in dag.tasks} == {"small"}
    assert dag.get_task("try").arguments == [
        "--route",
        ROUTE,
        "--trial",
        "--once",
        "--recorded-by",
        "{{ dag.dag_id }} {{ run_id }}",
    ]
    assert dag.get_task("promote").route.require_next().version == 2
    for part in ("delays:later", "version 2", "`drop_rejected` drops the trial", "relaybox trials drop delays --reason WHY"):
        assert part in dag.doc_md
    starts = asset_names(schedule(bag.dags["relaybox_derive__delays"]))
    assert "relaybox/relaybox_hub/derive.delays.v2/waiting" in starts


def test_a_store_that_may_sleep_is_not_woken_by_the_clock_of_a_derivation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And its watcher looks as seldom as that of its hops."""
    path = routes_file(tmp_path, more_routes={ROUTE: derived_route(**{"with": "delays:late"})})
    document = yaml.safe_load(path.read_text())
    document["stores"]["hub"] = {"watch": {"listen": False, "interval_seconds": 2, "max_interval_seconds": 60}}
    path.write_text(yaml.safe_dump(document))
    monkeypatch.setenv("RELAYBOX_CONFIG", str(path))
    starts = str(schedule(parse().dags["relaybox_derive__delays"]))
    assert "*/10" not in starts
    assert "'max_poll_seconds': 60" in starts


def test_an_export_has_a_dag_that_its_stream_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the retries and the owner of the export."""
    path = routes_file(tmp_path)
    export = {
        "stream": "flights",
        "store": "hub",
        "to": "delta",
        "path": "/srv/lake/flights",
        "owner": "lake",
        "retries": RETRIES,
    }
    document = yaml.safe_load(path.read_text()) | {"exports": {"flights_lake": export}}
    path.write_text(yaml.safe_dump(document))
    monkeypatch.setenv("RELAYBOX_CONFIG", str(path))
    dags = parse().dags
    assert [dag_id for dag_id in dags if "export" in dag_id] == ["relaybox_export__flights_lake"]
    dag = dags["relaybox_export__flights_lake"]
    starts = schedule(dag)
    assert sorted(asset_names(starts)) == ["relaybox/flights/1/log", "relaybox/relaybox_hub/export.flights_lake/waiting"]
    (task,) = dag.tasks
    assert (task.retries, task.owner, dag.max_active_runs) == (2, "lake", 1)


def test_a_webhook_and_a_sink_of_kafka_have_dags_that_their_stream_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the retries and the owner of each. Building them reads no secret."""
    path = routes_file(tmp_path)
    common = {"store": "hub", "stream": "flights", "owner": "crew", "retries": RETRIES}
    sinks = {
        "webhooks": {"billing": {"url": "https://example.com/hooks", "secrets": ["connection:billing_secret"], **common}},
        "kafka": {"warehouse": {"bootstrap_servers": "kafka:9092", **common}},
    }
    path.write_text(yaml.safe_dump(yaml.safe_load(path.read_text()) | sinks))
    monkeypatch.setenv("RELAYBOX_CONFIG", str(path))
    dags = parse().dags
    for kind, name in (("webhook", "billing"), ("kafka", "warehouse")):
        dag = dags[f"relaybox_{kind}__{name}"]
        starts = schedule(dag)
        assert sorted(asset_names(starts)) == ["relaybox/flights/1/log", f"relaybox/relaybox_hub/{kind}.{name}/waiting"]
        (task,) = dag.tasks
        assert (task.task_id, task.retries, task.owner, dag.max_active_runs) == ("deliver", 2, "crew", 1)
        assert f"relaybox {kind} retry {name}" in (dag.doc_md or "")


def test_retries_are_the_routes(dags: Mapping[str, DAG]) -> None:
    """Three attempts are two retries, each delay three times the one before, at most a minute."""
    for dag_id in HOP_DAG_IDS:
        for task in dags[dag_id].tasks:
            assert task.retries == 2
            assert task.retry_delay == timedelta(seconds=7)
            assert task.retry_exponential_backoff == 3.0
            assert task.max_retry_delay == timedelta(seconds=60)


def test_a_long_attempt_ends_at_its_time_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`limits.run_timeout_seconds` of the route; a verification that hangs would delay those of the other routes.

    So does what detaches; a store with logs of several routes has the longest.
    """
    detached = {"replay_window_seconds": 0, "stopped_consumer": "detach", "detach_to": "/srv/detached"}
    path = routes_file(tmp_path, route={"limits": {"run_timeout_seconds": 5_400}, "retention": detached})
    document = yaml.safe_load(path.read_text())
    document["routes"]["longer"] = {
        "topics": ["other"],
        "path": ["airline", "analytics"],
        "limits": {"run_timeout_seconds": 7_200},
        "retention": detached,
    }
    path.write_text(yaml.safe_dump(document))
    monkeypatch.setenv("RELAYBOX_CONFIG", str(path))
    tasks = {f"{dag_id}.{task.task_id}": task.execution_timeout for dag_id, dag in parse().dags.items() for task in dag.tasks}
    moving = {f"relaybox_transfer__flights_{number}.transfer" for number in (1, 2)}
    assert {name for name, limit in tasks.items() if limit == timedelta(minutes=90)} == moving | {
        "relaybox_verify.verification.flights",
        "relaybox_retention.detach_hub",
    }
    assert {name for name, limit in tasks.items() if limit == timedelta(hours=2)} == {
        "relaybox_transfer__longer_1.transfer",
        "relaybox_verify.verification.longer",
        "relaybox_retention.detach_analytics",
    }


def test_tasks_take_slots_of_their_stores_pool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A transfer where it writes, the others where they ask. What takes a moment does not wait behind what lingers."""
    path = routes_file(tmp_path, route={"owner": "Data team"})
    document = yaml.safe_load(path.read_text())
    document["stores"] = {store: {"pool": f"pool-{store}"} for store in document["stores"]}
    path.write_text(yaml.safe_dump(document))
    monkeypatch.setenv("RELAYBOX_CONFIG", str(path))
    tasks = {f"{dag_id}.{task.task_id}": task for dag_id, dag in parse().dags.items() for task in dag.tasks}
    assert {name: task.pool for name, task in tasks.items() if "flights_1" in name or "watch" in name} == {
        "relaybox_transfer__flights_1.transfer": "pool-hub",
        "relaybox_confirm__flights_1.settle": "pool-airline",
        "relaybox_watch.keep_routes": "default_pool",
        "relaybox_watch.look_at_airline": "pool-airline",
        "relaybox_watch.look_at_hub": "pool-hub",
    }
    weights = {name: (task.priority_weight, task.owner) for name, task in tasks.items() if "flights_1" in name}
    assert weights == {
        "relaybox_transfer__flights_1.transfer": (1, "Data team"),
        "relaybox_confirm__flights_1.settle": (10, "Data team"),
    }


def test_without_a_pool_of_their_own_tasks_use_the_one_that_always_exists(dags: Mapping[str, DAG]) -> None:
    """A task in a pool that nobody made would wait for ever."""
    assert {task.pool for dag in dags.values() for task in dag.tasks} == {"default_pool"}


def test_no_dag_has_a_deadline(dags: Mapping[str, DAG]) -> None:
    """Airflow 3.3.2 answers 500 to "clear" for a run whose deadline counts from its queueing; RelayboxHopLate alarms a missed target."""
    assert not [dag_id for dag_id, dag in dags.items() if dag.deadline]


@pytest.mark.parametrize(
    ("dag_id", "param", "value"),
    [
        ("relaybox_transfer__flights_1", "runner", "sparks"),
        ("relaybox_transfer__flights_1", "linger_seconds", -1),
        ("relaybox_transfer__flights_1", "linger_seconds", "long"),
        ("relaybox_verify", "route", "fligths"),
        ("relaybox_retention", "store", "hbu"),
        ("relaybox_replay__flights", "store", "airline"),
        ("relaybox_replay__flights", "subscription", "Billing!"),
        ("relaybox_replay__flights", "rows_per_second", 0),
        ("relaybox_redrive__flights", "dead_letter_id", "all"),
        ("relaybox_redrive__flights", "reason", ""),
        ("relaybox_skip__flights", "through", 0),
    ],
)
def test_trigger_forms_explain_and_check_what_they_ask_for(
    dags: Mapping[str, DAG], dag_id: str, param: str, value: object
) -> None:
    """Every parameter has a title, a description and a default that is right; a wrong value is refused before the run begins."""
    params = dags[dag_id].params
    for name in params:
        assert params.get_param(name).schema["title"]
        assert (params.get_param(name).description or "").endswith(".")
    params.validate()
    with pytest.raises(ParamValidationError):
        params.get_param(param).resolve(value)


def test_the_verifications_are_a_group_with_a_report_behind_it(dags: Mapping[str, DAG]) -> None:
    """The report is written whatever became of a verification."""
    assert set(dags["relaybox_retention"].task_ids) == {"retain_airline", "retain_hub", "retain_analytics"}
    verify = dags["relaybox_verify"]
    assert verify.task_ids == ["verification.flights", "report"]
    assert verify.get_task("report").upstream_task_ids == {"verification.flights"}
    assert verify.get_task("report").trigger_rule == "all_done"


def test_a_store_whose_logs_are_detached_has_a_task_that_does_it(route: Path) -> None:
    """After the one that drops. No other store has one."""
    routes_file(route.parent, route={"retention": {"replay_window_seconds": 0}})
    document = yaml.safe_load(route.read_text())
    document["stores"]["hub"] = {"retention": {"stopped_consumer": "detach", "detach_to": "/srv/detached"}}
    route.write_text(yaml.safe_dump(document))
    dag = parse().dags["relaybox_retention"]
    assert set(dag.task_ids) == {"retain_airline", "retain_hub", "detach_hub", "retain_analytics"}
    assert dag.get_task("detach_hub").upstream_task_ids == {"retain_hub"}
    assert Path(dag.get_task("detach_hub").application).is_file()


def test_one_run_at_a_time_and_no_catching_up(dags: Mapping[str, DAG]) -> None:
    """A run drains everything there is: a second one beside it, or one for each missed time, would find nothing."""
    assert {dag_id for dag_id, dag in dags.items() if dag.max_active_runs > 1} == ROUTE_DAG_IDS | {
        "relaybox_init"
    }  # some wait for an answer
    assert not any(dag.catchup for dag in dags.values())


@pytest.mark.parametrize(("dag_id", "minute_of_day"), [("relaybox_verify", 4 * 60), ("relaybox_retention", 4 * 60 + 30)])
def test_a_new_deployment_waits_for_the_next_time_of_its_daily_dags(
    dags: Mapping[str, DAG], monkeypatch: pytest.MonkeyPatch, dag_id: str, minute_of_day: int
) -> None:
    """Asked at every minute of a day, by Airflow's own timetable as the scheduler reads it: the first run is never in the past."""
    dag = DagSerialization.deserialize_dag(DagSerialization.serialize_dag(dags[dag_id]))
    midnight = DateTime(2026, 7, 1, tzinfo=UTC)
    restriction = TimeRestriction(dag.start_date, None, catchup=dag.catchup)
    for minute in range(24 * 60):
        now = midnight.add(minutes=minute, seconds=1)
        monkeypatch.setattr("airflow.timetables.trigger.utcnow", lambda now=now: now)
        first = dag.timetable.next_dagrun_info(last_automated_data_interval=None, restriction=restriction)
        assert first is not None
        assert first.run_after == midnight.add(days=int(minute >= minute_of_day), minutes=minute_of_day), now


def test_a_replay_is_started_by_backfills_only_and_one_range_at_a_time(dags: Mapping[str, DAG]) -> None:
    """The scheduler gets no interval; a backfill gets days that touch. What waits for another range takes no slot."""
    replay = dags["relaybox_replay__flights"]
    timetable = DagSerialization.deserialize_dag(DagSerialization.serialize_dag(replay)).timetable
    july = DateTime(2026, 7, 1, tzinfo=UTC)
    catching_up = TimeRestriction(july, july.add(days=2), catchup=True)
    runs = []
    while info := timetable.next_dagrun_info(
        last_automated_data_interval=runs[-1].data_interval if runs else None, restriction=catching_up
    ):
        runs.append(info)
    assert [(run.data_interval.start.day, run.data_interval.end.day) for run in runs] == [(1, 2), (2, 3), (3, 4)]
    assert timetable.next_dagrun_info(last_automated_data_interval=None, restriction=catching_up._replace(catchup=False)) is None
    assert timetable.periodic
    assert [task.max_active_tis_per_dag for task in replay.tasks] == [None, 1]


def test_redrive_and_skip_wait_for_a_person(dags: Mapping[str, DAG]) -> None:
    """Show, approve, do; no answer within a day is a no."""
    for kind in ("redrive", "skip"):
        dag = dags[f"relaybox_{kind}__flights"]
        assert dag.task_ids == ["show", "approve", kind]
        approve = dag.get_task("approve")
        assert (approve.upstream_task_ids, approve.downstream_task_ids) == ({"show"}, {kind})
        assert (approve.defaults, approve.response_timeout) == (["Reject"], timedelta(days=1))
        assert approve.retries == dag.get_task("show").retries > 0, "a worker that is lost is no answer"


def test_a_replay_waits_for_a_person_where_a_store_of_the_route_asks_for_it(route: Path) -> None:
    """Count, approve, replay. Elsewhere nobody is asked."""
    without = parse().dags["relaybox_replay__flights"]
    assert without.task_ids == ["count", "replay"]
    document = yaml.safe_load(route.read_text())
    document["stores"]["hub"] = {"require_approval": True}
    route.write_text(yaml.safe_dump(document))
    asking = parse().dags["relaybox_replay__flights"]
    assert asking.task_ids == ["count", "approve", "replay"]
    approve = asking.get_task("approve")
    assert (approve.upstream_task_ids, approve.downstream_task_ids) == ({"count"}, {"replay"})
    assert (approve.defaults, approve.response_timeout) == (["Reject"], timedelta(days=1))
    assert "`approve` waits for a person" in str(asking.doc_md)
    assert "approve" not in str(without.doc_md)


def test_dags_survive_serialization(dags: Mapping[str, DAG]) -> None:
    """What the scheduler reads from its database is what the files say; a second parse gives the same."""
    serialized = {dag_id: DagSerialization.serialize_dag(dag) for dag_id, dag in dags.items()}
    for dag_id, data in serialized.items():
        restored = DagSerialization.deserialize_dag(data)
        assert restored.dag_display_name == dags[dag_id].dag_display_name
        assert [task.task_id for task in restored.tasks] == [task.task_id for task in dags[dag_id].tasks]
    assert {dag_id: DagSerialization.serialize_dag(dag) for dag_id, dag in parse().dags.items()} == serialized


def test_docs_draw_the_route_and_mark_the_hop(dags: Mapping[str, DAG]) -> None:
    """The page behind the book icon shows where the hop is, and what to do when it fails."""
    drawing = "airline ──1──▶ hub ──2──▶ analytics\n               └─── flights/2 ────┘"
    assert drawing in (dags["relaybox_transfer__flights_2"].doc_md or "")
    for dag in dags.values():
        for heading in ("### What it does", "### When it fails", "### Which buttons are safe"):
            assert heading in (dag.doc_md or "")


def test_links_of_docs_lead_to_pages_inside_airflow(dags: Mapping[str, DAG]) -> None:
    """To a hop or a runbook that is there: Airflow has no other page of ours."""
    pages = {f"hops/flights/{number}" for number in (1, 2)} | {f"runbooks/{name}" for name in read_runbooks()}
    for dag in dags.values():
        for link in re.findall(r"\]\(([^)]*)\)", dag.doc_md or ""):
            assert link.removeprefix("/plugin/relaybox/relaybox/") in pages, dag.dag_id


def test_a_task_builds_only_its_own_dag(route: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker parses the file again for each task: it builds one DAG, not all."""
    monkeypatch.setenv(_AIRFLOW_PARSING_CONTEXT_DAG_ID, "relaybox_transfer__flights_2")
    assert set(parse().dags) == {"relaybox_transfer__flights_2"}


def test_a_task_imports_only_the_kind_of_its_dag(route: Path) -> None:
    """The first message of an idle hop waits for these imports."""
    script = "import sys; from relaybox.airflow.dags import build_dags; print(*build_dags()); print(*sys.modules)"
    finished = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "RELAYBOX_CONFIG": str(route), _AIRFLOW_PARSING_CONTEXT_DAG_ID: "relaybox_transfer__flights_2"},
        capture_output=True,
        text=True,
        check=True,
        timeout=patience(120),
    )
    built, imported = finished.stdout.splitlines()[-2:]
    assert built == "relaybox_transfer__flights_2"
    kinds = {f"relaybox.airflow.dags.{kind.module}" for kind in (*KINDS, WATCH)}
    assert kinds & set(imported.split()) == {"relaybox.airflow.dags.transfer"}
    assert "airflow.providers.apache.spark.hooks.spark_submit" not in imported.split()


def test_each_dag_is_of_the_kind_that_its_id_says(dags: Mapping[str, DAG]) -> None:
    """A task whose DAG had another prefix would not find it."""
    for dag_id in dags:
        assert len([kind for kind in (*KINDS, WATCH) if dag_id.startswith(kind.prefix)]) == 1
    assert all(
        any(dag_id.startswith(kind.prefix) for dag_id in dags)
        for kind in KINDS
        if kind.module not in {"derive", "promote", "export", "sink"}
    )


def test_a_broken_route_file_gives_one_error_that_names_every_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The import error in the UI is the report of the configuration check, per file, with all problems in it."""
    path = tmp_path / "relaybox.yaml"
    path.write_text("stores: {airline: {}, hub: 3}\nroutes: {flights: {topics: [], path: [airline, hab]}}\n")
    monkeypatch.setenv("RELAYBOX_CONFIG", str(path))
    bag = parse()
    assert bag.dags == {}
    assert {Path(file).name for file in bag.import_errors} == {"relaybox_dags.py", "relaybox_routes.py"}
    for error in bag.import_errors.values():
        assert f"ConfigurationError: 3 problems in {path}" in error
        for problem in ("stores.hub: got 3", 'routes.flights.path[1]: got "hab"', "routes.flights.topics: got a list of 0"):
            assert problem in error


def test_without_a_route_file_the_error_says_where_it_belongs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """RELAYBOX_CONFIG unset: relaybox.yaml beside the dags folder."""
    monkeypatch.delenv("RELAYBOX_CONFIG", raising=False)
    errors = parse().import_errors
    assert len(errors) == 2
    assert all(f"{REPOSITORY}/relaybox.yaml: no such file" in error for error in errors.values())


@pytest.mark.parametrize("damage", ["routes: [", None], ids=["wrong", "missing"])
def test_while_the_route_file_is_wrong_dags_are_built_from_the_last_good_one(
    route: Path, monkeypatch: pytest.MonkeyPatch, damage: str | None
) -> None:
    """The error is that of a file of its own; a task's own parse goes on too."""
    keep(route, monkeypatch)
    if damage is None:
        route.unlink()
    else:
        route.write_text(damage)
    bag = parse()
    assert set(bag.dags) == DAG_IDS
    assert [Path(file).name for file in bag.import_errors] == ["relaybox_routes.py"]
    monkeypatch.setenv(_AIRFLOW_PARSING_CONTEXT_DAG_ID, "relaybox_transfer__flights_2")
    assert set(parse().dags) == {"relaybox_transfer__flights_2"}


@pytest.mark.parametrize(
    ("kept", "problem"),
    [
        ('{"path": "x"}', "is not what relaybox_watch writes. Delete it."),
        ("[", "is not what relaybox_watch writes. Delete it."),
        ('{"text": "stores: {a: {}}", "kept_at": "2026"}', "1 problem in Variable relaybox_last_good_routes"),
    ],
)
def test_what_was_kept_and_cannot_be_used_is_told_beside_the_problems_of_the_file(
    route: Path, monkeypatch: pytest.MonkeyPatch, kept: str, problem: str
) -> None:
    """A Variable that somebody wrote, or that an older version wrote by other rules."""
    monkeypatch.setenv(f"AIRFLOW_VAR_{VARIABLE.upper()}", kept)
    route.unlink()
    (error,) = [error for file, error in parse().import_errors.items() if file.endswith("relaybox_dags.py")]
    assert "relaybox.yaml: no such file" in error
    assert problem in error


def keep(route: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As relaybox_watch does; tests/airflow/test_real_scheduler.py has it done by Airflow."""
    kept = {"text": route.read_text(), "path": str(route), "kept_at": "2026-01-01T00:00:00+00:00"}
    monkeypatch.setenv(f"AIRFLOW_VAR_{VARIABLE.upper()}", json.dumps(kept))
