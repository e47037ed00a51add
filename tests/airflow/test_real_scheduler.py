"""A real scheduler, a real triggerer and real Spark move real messages over both hops, and confirm them back."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import yaml
from playwright.sync_api import sync_playwright

from relaybox.airflow.kept_routes import VARIABLE
from relaybox.airflow.naming import confirm_title, transfer_title
from relaybox.local.clusters import Cluster, postgres_program
from relaybox.local.processes import is_alive, wait_until_gone
from relaybox.verification.reliability import PERFECT
from relaybox.verification.route_verification import verify_route
from tests.airflow.conftest import REPOSITORY
from tests.airflow.page_browser import page_browser
from tests.airflow.system import (
    ARRIVE_SECONDS,
    SPARK_UI,
    ProcessSampler,
    SparkDriver,
    System,
    driver_jvms,
    is_driver,
    running_system,
)
from tests.support.chromium import find_chromium, launch_arguments
from tests.support.patience import patience
from tests.support.world import wait_until

FIRST_COUNT, SECOND_COUNT = 50_000, 20_000
DAG_IDS = [f"relaybox_{kind}__flights_{number}" for kind in ("transfer", "confirm") for number in (1, 2)]
ASSETS = ["flights/1/work", "flights/1/log", "flights/2/log", "flights/2/settled", "flights/1/settled"]


@pytest.fixture(scope="module")
def sampler() -> Iterator[ProcessSampler]:
    """Looks at every process from before Airflow starts."""
    with ProcessSampler() as sampler:
        yield sampler


@pytest.fixture(scope="module")
def lineage(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where Airflow leaves its OpenLineage events, a file for each."""
    return tmp_path_factory.mktemp("lineage")


@pytest.fixture(scope="module")
def system(
    clusters: Mapping[str, Cluster], sampler: ProcessSampler, lineage: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[System]:
    """One Airflow for all tests here."""
    transport = json.dumps({"type": "file", "log_file_path": str(lineage / "event")})
    environment = {"AIRFLOW__OPENLINEAGE__TRANSPORT": transport}
    with running_system(clusters, tmp_path_factory.mktemp("system"), environment=environment) as system:
        yield system


@pytest.fixture(scope="module")
def moved(system: System) -> System:
    """The system after its first messages went the whole way."""
    system.world.send_many(FIRST_COUNT)
    system.wait_until_settled(FIRST_COUNT)
    system.wait_until_quiet()
    return system


def test_inserted_messages_reach_the_last_store_without_a_click(moved: System) -> None:
    """An insert is all that an application does: both hops run, and the origin knows that the end has everything."""
    assert moved.world.payloads("flights/2") == moved.world.sent()
    assert moved.world.log_positions("flights/2") == list(range(1, FIRST_COUNT + 1))
    assert {run["run_type"] for run in moved.runs()} <= {"asset_triggered", "scheduled"}
    assert verify_route(moved.world.route).outcome == "delivered"


def test_g7_the_graph_shows_the_cascade(moved: System) -> None:
    """Each hop's success triggers the next, and the confirmations go back to the origin: every asset has its event."""
    events = [
        event for event in moved.asset_events() if event["source_dag_id"] != "relaybox_watch"
    ]  # it may have been time for it
    newest = {event["name"].removeprefix("relaybox/"): event for event in events}
    assert set(newest) - {"flights/2/work"} == set(ASSETS), "the second hop is triggered by the first, or by its own work"
    assert newest["flights/2/log"]["extra"] == {"batch": 3, "log_position": FIRST_COUNT}
    assert newest["flights/1/settled"]["extra"]["through_position"] == FIRST_COUNT
    runs = {dag_id: moved.runs(dag_id) for dag_id in DAG_IDS}
    assert {run["state"] for each in runs.values() for run in each} == {"success"}
    assert all(any(run["run_type"] == "asset_triggered" for run in each) for each in runs.values())


def test_no_daily_dag_runs_in_the_middle_of_a_test(moved: System) -> None:
    """At any hour: only a test may start them. The timetables that they have elsewhere are in test_dag_structure.py."""
    for dag_id in ("relaybox_verify", "relaybox_retention"):
        found = moved.client.get(f"dags/{dag_id}")
        assert (found["is_paused"], found["next_dagrun_run_after"]) == (False, None)
        assert [run for run in moved.runs(dag_id) if run["run_type"] == "scheduled"] == []


def test_the_watch_triggers_hops_that_no_event_started(moved: System) -> None:
    """Confirmations that were lost on their way: the clock's DAG finds them missing, and the confirm DAG writes them again."""
    moved.world.query("airline", "delete from relaybox_internal.confirmation where state = 'settled'")
    assert moved.settled_through() == 0
    moved.client.trigger_dag("relaybox_watch")
    moved.wait_until_settled(FIRST_COUNT)
    moved.wait_until_quiet()


def test_the_verification_of_delivery_is_reported(moved: System) -> None:
    """As it is each night: a verification per route, made by Spark since the route says so, and a report in XCom."""
    run = moved.client.trigger_dag("relaybox_verify")
    assert moved.client.wait_for_run("relaybox_verify", run, deadline_seconds=patience(ARRIVE_SECONDS)) == "success"
    path = f"dags/relaybox_verify/dagRuns/{quote(run, safe='')}/taskInstances/report/xcomEntries/return_value"
    assert f"| flights | delivered | {FIRST_COUNT} | {FIRST_COUNT} | 0 | 0 | 1 | 1 | 0 |" in moved.client.get(path)["value"]
    (verification,) = [task for task in moved.task_instances("relaybox_verify", run) if task["task_id"] == "verification.flights"]
    log = moved.task_log(verification, verification["try_number"])
    assert "spark_application_started route=flights application=local-" in log
    assert log.count("route_verified route=flights outcome=delivered") == 1


def test_openlineage_gets_the_tables_and_rows_of_transfers_and_no_secret(moved: System, lineage: Path) -> None:
    """The events that Airflow's provider sent by itself: how the messages went from the outbox to the last log."""
    events = [json.loads(path.read_text()) for path in lineage.iterdir()]
    ended = [event for event in events if event["eventType"] == "COMPLETE" and event["outputs"]]
    ways: dict[tuple[str, str], int] = {}
    for event in ended:
        ((source,), (destination,)) = event["inputs"], event["outputs"]
        assert event["job"]["name"].startswith("relaybox_transfer__flights_")
        assert all(re.fullmatch(r"postgres://[^@/]+:\d+", one["namespace"]) for one in (source, destination))
        way = source["name"].rpartition(".")[2], destination["name"].rpartition(".")[2]
        ways[way] = ways.get(way, 0) + destination["outputFacets"]["outputStatistics"]["rowCount"]
    assert ways == {("outbox", "log_1"): FIRST_COUNT, ("log_1", "log_1"): FIRST_COUNT}
    assert _leaks(moved, json.dumps(events).encode()) == []


def test_waiting_messages_do_not_flood_airflow_with_events(moved: System) -> None:
    """The watcher looks every second and Spark takes ten to start: still one event per stretch of work, and a run for each."""
    events = [event for event in moved.asset_events() if event["name"] == "relaybox/flights/1/work"]
    assert 1 <= len(events) <= max(3, len(moved.runs("relaybox_transfer__flights_1")))


def test_the_task_log_tells_batches_counts_and_rates(moved: System) -> None:
    """What an operator reads in the UI: the work, and not Spark's start-up."""
    tasks = [task for task in moved.task_instances("relaybox_transfer__flights_1") if task["state"] == "success"]
    assert tasks
    log = "\n".join(moved.task_log(task, task["try_number"]) for task in tasks)
    batches = moved.world.query("airline", "select batch, row_count from relaybox_internal.batch where hop = 'flights/1'")
    assert len(batches) == 3
    for number, rows in batches:
        assert f"batch_published hop=flights/1 batch={number} rows={rows} log_positions=" in log
    assert "transfer_done hop=flights/1 batches=3 rows=50000 rows_per_second=" in log
    assert len(log.splitlines()) < 80


def test_the_ui_shows_the_hops_their_order_and_the_assets_between(moved: System, tmp_path: Path) -> None:
    """The graph of a route, as a browser draws it. UPDATE_SCREENSHOTS=1 renews the picture in the README."""
    (asset,) = moved.client.get("assets", name_pattern="relaybox/flights/1/log")["assets"]
    titles = [title(hop) for title in (transfer_title, confirm_title) for hop in moved.world.route.hops]
    name = "airflow-assets.png"
    picture = (REPOSITORY / "docs" / "images" if os.environ.get("UPDATE_SCREENSHOTS") == "1" else tmp_path) / name
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=launch_arguments())
        page = browser.new_page(viewport={"width": 1400, "height": 900}, device_scale_factor=1.5, color_scheme="light")
        page.add_init_script(f"localStorage.setItem('direction-{asset['id']}', '\"DOWN\"')")  # its options: top to bottom
        page.goto(f"{moved.airflow.url}/assets/{asset['id']}")
        graph = page.locator(".react-flow__node")
        for label in [f"relaybox/{name}" for name in ASSETS] + titles:
            graph.filter(has_text=label).first.wait_for(timeout=patience(60_000))
        page.screenshot(path=picture)
        browser.close()
    assert picture.stat().st_size > 20_000


def test_the_relaybox_page_leads_through_map_hop_stuck_and_where(moved: System, tmp_path: Path) -> None:
    """As the engineer on call: a paused hop is explained, repaired by the button that is named, and its message found."""
    world, dag_id = moved.world, "relaybox_transfer__flights_1"
    with page_browser(moved.airflow.url, tmp_path) as browser, world.session() as producer:
        browser.open("/plugin/relaybox")
        browser.see("svg.map .card.ok", "flights/2")
        browser.picture("page-map.png")

        browser.frame.locator("svg.map a").filter(has_text="flights/1").click()
        browser.see("h1", "Hop flights/1: airline → hub")
        browser.count(".timeline .step.settled", 3)
        browser.find(".chart .bar")
        browser.picture("page-hop.png")
        browser.press("Pause")
        browser.see("#said", "Hop flights/1 is paused.")

        with producer.cursor() as cursor:
            cursor.execute(
                "insert into relaybox.outbox (topic, sender, payload) values ('flights', 'DL', 'not yet') returning message_id"
            )
            (kept_back,) = cursor.fetchone()
        world.send("page", sender="PAGE")
        browser.go("What is stuck")
        browser.see("article[data-kind=paused]", "The DAGs of hop flights/1 are paused: no run starts (waiting: 1 message).")
        open_transaction = browser.see("article[data-kind=open_transaction]", "One transaction has sent messages at airline")
        assert str(producer.info.backend_pid) in open_transaction.inner_text()
        assert "insert into relaybox.outbox" in open_transaction.inner_text()
        browser.picture("page-stuck.png")
        producer.commit()
        browser.press("Unpause")
        browser.see("#said", "Hop flights/1 is not paused any more.")
        browser.see("nav", "Map")
        browser.open("/plugin/relaybox/relaybox/hops/flights/1")
        browser.press("Run now")
        browser.see("#said", "of hop flights/1 is started.")
        moved.wait_until_settled(FIRST_COUNT + 2)
        browser.go("What is stuck")
        browser.see("p.well", "Nothing is stuck.")

        browser.go("Where is message X")
        browser.frame.locator("input[name=message]").fill(str(kept_back))
        browser.press("Find")
        browser.see("section.trace td", f"flights/2: arrived at position {FIRST_COUNT // 1000},00")
        browser.see("section.trace td", "flights/1: settled")
        browser.picture("page-where.png")
    moved.wait_until_quiet()
    presses = moved.client.get("eventLogs", event="trigger_dag_run", dag_id=dag_id)["event_logs"]
    assert len(presses) == 1


def test_a_store_of_the_map_leads_to_what_doctor_finds_in_it(moved: System, tmp_path: Path) -> None:
    """Its worst result first, with the statement that corrects it."""
    table = "relaybox_internal.log_1_s000000"
    moved.world.query("hub", f"alter table {table} set unlogged")
    try:
        with page_browser(moved.airflow.url, tmp_path) as browser:
            browser.open("/plugin/relaybox")
            browser.see("svg.map .card.ok", "flights/2")
            browser.frame.locator("svg.map a[href$='/doctor#hub']").click()
            browser.see("section[data-store=hub] h2", "error")
            found = browser.see("section[data-store=hub] article[data-check=unlogged]", "A crash of the server empties")
            assert f"alter table {table} set logged" in found.inner_text()
            browser.see("section[data-store=airline] h2", "airline")
            browser.see("nav [aria-current=page]", "Doctor")
            browser.picture("page-doctor.png")
    finally:
        moved.world.query("hub", f"alter table {table} set logged")


def test_a_task_and_a_dag_lead_to_the_page_of_their_hop(moved: System, tmp_path: Path) -> None:
    """In the dark theme, which the page takes from Airflow."""
    task = next(task for task in moved.task_instances("relaybox_transfer__flights_2") if task["state"] == "success")
    links = moved.client.get(f"{_task_path(task)}/links")["extra_links"]
    batches = moved.world.query("hub", "select count(*) from relaybox_internal.batch where hop = 'flights/2'")
    run = f"{task['dag_id']} {task['dag_run_id']}"
    application = "select distinct application from relaybox_internal.attempt where recorded_by = %s"
    spark_page = f"{SPARK_UI}/history/{moved.world.value('hub', application, run)}/"
    assert links["Spark application"] == spark_page
    with page_browser(moved.airflow.url, tmp_path, dark=True) as browser:
        browser.open(links["Batches"])
        browser.see("h2", f"moved by {task['dag_id']} {task['dag_run_id']}")
        browser.find("html[data-theme=dark]")
        browser.find(f".timeline a[href='{spark_page}'] .step.copied")
        browser.find(f"table a[href='{spark_page}']")
        assert 1 <= browser.frame.locator(".timeline .step.published").count() <= batches[0][0]
        browser.picture("page-dark.png")
        browser.frame.locator("a[data-leave]").filter(has_text="confirm DAG").click()
        browser.tab.wait_for_url("**/dags/relaybox_confirm__flights_2**")
        browser.open("/dags/relaybox_confirm__flights_2/plugin/relaybox-hop")
        browser.see("h1", "Hop flights/2: hub → analytics")


def test_g3_a_killed_driver_is_retried_and_finishes_the_same_batch(moved: System) -> None:
    """SIGKILL in the middle of a batch: the next attempt copies what was missing, nothing twice, and positions stay dense."""
    world, before = (
        moved.world,
        moved.world.value("airline", "select max(batch) from relaybox_internal.batch where hop = 'flights/1'"),
    )
    log_position = len(world.sent())
    with _slice_held_up(moved, batch=before + 1, slice_=3):
        world.send_many(SECOND_COUNT, prefix="second")
        copied = "select count(*) from relaybox_internal.receipt where batch = %s"
        wait_until(lambda: world.value("hub", copied, before + 1) == 3, "three of four slices copied", deadline_seconds=120)
        plan = world.value(
            "airline", "select plan_id from relaybox_internal.batch where hop = 'flights/1' and batch = %s", before + 1
        )
        killed = _kill_driver_of(f"relaybox flights/1 b{before + 1} s3 a", moved)
    moved.wait_until_settled(log_position + SECOND_COUNT)
    moved.wait_until_quiet()

    (retried,) = moved.task_instances("relaybox_transfer__flights_1", killed["dag_run_id"])
    assert (retried["try_number"], retried["state"]) == (killed["try_number"] + 1, "success")
    log = moved.task_log(retried, retried["try_number"])
    assert f"batch_resumed hop=flights/1 batch={before + 1} rows={SECOND_COUNT}" in log
    assert log.count("slice_found") >= 3  # the fourth too, if its orphan got to its commit before the retry came
    assert world.value("hub", "select plan_id from relaybox_internal.arrival where batch = %s", before + 1) == plan
    assert world.log_positions("flights/2") == list(range(1, log_position + SECOND_COUNT + 1))
    assert verify_route(world.route).outcome == "delivered"


@contextmanager
def _slice_held_up(system: System, *, batch: int, slice_: int) -> Iterator[None]:
    """Holds an uncommitted receipt of one slice, on whose key the slice then waits."""
    with system.world.session("hub") as connection, connection.cursor() as cursor:
        cursor.execute(
            "insert into relaybox_internal.receipt (log_id, batch, slice, plan_id, row_count, attempt) "
            "select log_id, %s, %s, gen_random_uuid(), 1, 0 from relaybox_internal.hop_in where hop = 'flights/1'",
            (batch, slice_),
        )
        yield
        connection.rollback()


def _kill_driver_of(blocked: str, system: System) -> Mapping[str, Any]:
    """SIGKILLs the JVM of the attempt whose slice waits; its Python and its tasks go with it. Returns the task of that attempt.

    On a busy machine it can be past its first attempt: a held-up slice gives up after ten seconds, and the attempt with it.
    """
    target: list[Mapping[str, Any]] = []

    def inject() -> bool:
        before = driver_jvms("flights/1")
        tasks = [task for task in system.task_instances("relaybox_transfer__flights_1") if task["state"] == "running"]
        if len(before) == len(tasks) == 1 and _blocked_slices(system) == [blocked] and driver_jvms("flights/1") == before:
            os.kill(before[0], signal.SIGKILL)
            target.extend(tasks)
        return bool(target)

    wait_until(inject, f"a driver to kill, whose slice {blocked!r} waits", deadline_seconds=120)
    return target[0]


def _blocked_slices(system: System) -> list[str]:
    """Sessions that wait for another one at the hub; without the attempt's number."""
    query = "select application_name from pg_stat_activity where cardinality(pg_blocking_pids(pid)) > 0 and datname = current_database()"
    return [name.rstrip("0123456789") for (name,) in system.world.query("hub", query)]


def _running_try(system: System) -> Mapping[str, Any]:
    """The first hop's task, whichever of its attempts runs."""
    (task,) = [task for task in system.task_instances("relaybox_transfer__flights_1") if task["state"] == "running"]
    return task


def test_g3_whatever_is_done_to_a_task_ends_its_spark_and_its_batch_arrives_once(moved: System) -> None:
    """One batch, hit in the middle of its slices: task killed, cleared, marked success, triggered twice, scheduler killed."""
    world, dag_id = moved.world, "relaybox_transfer__flights_1"
    batch = 1 + world.value("airline", "select max(batch) from relaybox_internal.batch where hop = 'flights/1'")
    plan = "select plan_id from relaybox_internal.batch where hop = 'flights/1' and batch = %s"
    with moved.held():
        world.send_many(SECOND_COUNT, prefix="third")
        first = moved.wait_for_driver("flights/1")
        planned = world.value("airline", plan, batch)

        task = _running_try(moved)
        os.kill(first.task, signal.SIGKILL)
        _assert_gone(moved, first, deadline_seconds=10)

        second = moved.wait_for_driver("flights/1", but=[first.jvm])
        _clear(moved, task)
        _assert_gone(moved, second, deadline_seconds=60)

        third = moved.wait_for_driver("flights/1", but=[first.jvm, second.jvm])
        _mark_success(moved, task)
        _assert_gone(moved, third, deadline_seconds=60)

        runs = [moved.client.trigger_dag(dag_id) for _ in range(2)]
        fourth = moved.wait_for_driver("flights/1", but=[first.jvm, second.jvm, third.jvm])
        moved.kill_scheduler()
        assert is_alive(fourth.jvm)  # its task needs no scheduler
    moved.wait_until_settled(len(world.sent()))
    moved.wait_until_quiet()

    assert {run["state"] for run in moved.runs(dag_id) if run["dag_run_id"] in runs} == {"success"}
    assert world.value("hub", "select plan_id from relaybox_internal.arrival where batch = %s", batch) == planned
    assert world.log_positions("flights/2") == list(range(1, len(world.sent()) + 1))
    _assert_perfect(moved, outcome="delivered")


def _assert_gone(system: System, driver: SparkDriver, *, deadline_seconds: float) -> None:
    """No process of the application lives, and what it left behind is no defect."""
    assert wait_until_gone(driver.processes, deadline_seconds=patience(deadline_seconds)) == []
    _assert_perfect(system, outcome="in flight")


def _assert_perfect(system: System, *, outcome: str) -> None:
    """R = UR = 1 on every hop and from end to end."""
    verification = verify_route(system.world.route)
    assert [leg.delivery for leg in (*verification.hops, verification.end_to_end)] == [PERFECT] * 3
    assert verification.outcome == outcome


def _task_path(task: Mapping[str, Any]) -> str:
    return f"dags/{task['dag_id']}/dagRuns/{quote(task['dag_run_id'], safe='')}/taskInstances/{task['task_id']}"


def _clear(system: System, task: Mapping[str, Any]) -> None:
    body = {"dry_run": False, "only_failed": False, "dag_run_id": task["dag_run_id"], "task_ids": [task["task_id"]]}
    system.client.post(f"dags/{task['dag_id']}/clearTaskInstances", body)


def _mark_success(system: System, task: Mapping[str, Any]) -> None:
    system.client.patch(_task_path(task), {"new_state": "success"})


def test_a_store_may_sleep_as_soon_as_the_file_says_so(moved: System) -> None:
    """An edit under the living triggerer: its session ends, the watch DAG spares the store, a click wakes it; and all of it back."""
    world, document = moved.world, moved.world.path.read_text()
    sessions = "select count(*) from pg_stat_activity where application_name = 'relaybox watch' and datname = current_database()"
    sleepy = yaml.safe_load(document)
    sleepy["stores"]["airline"] = {"watch": {"interval_seconds": 590, "max_interval_seconds": 600, "listen": False}}
    world.path.write_text(yaml.safe_dump(sleepy))
    wait_until(lambda: world.value("airline", sessions) == 0, "the triggerer lets airline sleep", deadline_seconds=ARRIVE_SECONDS)
    assert world.value("hub", sessions) == 1
    midnight = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(days=1)
    # a sleeping store's first run, one of the same interval, and two after runs that were missed
    backfill = {
        "dag_id": "relaybox_watch",
        "from_date": midnight.isoformat(),
        "to_date": (midnight + timedelta(minutes=15)).isoformat(),
    }
    moved.client.post("backfills", {**backfill, "max_active_runs": 1})
    looks = {}

    def has_ended() -> bool:
        tasks = moved.task_instances("relaybox_watch")
        ended = [task for task in tasks if task["task_id"] == "look_at_airline" and task["dag_run_id"].startswith("backfill__")]
        looks.update({task["logical_date"][11:16]: task["state"] for task in ended})
        return len(looks) == 4 and set(looks.values()) <= {"success", "skipped", "failed"}

    wait_until(has_ended, "four runs of the watch DAG", deadline_seconds=ARRIVE_SECONDS, poll_seconds=0.5, progress=looks.copy)
    assert looks == {"00:00": "success", "00:05": "skipped", "00:10": "success", "00:15": "skipped"}

    world.send("in a store that sleeps")
    moved.client.trigger_dag("relaybox_transfer__flights_1")
    moved.wait_until_settled(len(world.sent()))
    world.path.write_text(document)
    wait_until(lambda: world.value("airline", sessions) == 1, "the triggerer watches airline", deadline_seconds=ARRIVE_SECONDS)
    world.send("in a store that is watched again")
    moved.wait_until_settled(len(world.sent()))
    moved.wait_until_quiet()


def test_passwords_are_on_no_command_line(moved: System, sampler: ProcessSampler) -> None:
    """Every process of the machine was looked at twenty times a second while the messages moved."""
    seen = sampler.command_lines()
    assert all(any(is_driver(command_line, hop) for command_line in seen) for hop in ("flights/1", "flights/2"))
    assert _leaks(moved, b"\n".join(seen)) == []


def test_spark_drivers_see_no_password_and_nothing_of_airflow(moved: System, sampler: ProcessSampler) -> None:
    """Their environment names a file; the metadata database is not in it either."""
    environments = b"\n".join(sampler.driver_environments())
    assert b"PGSERVICEFILE=" in environments
    assert _leaks(moved, environments) == []
    assert moved.metadata["password"].encode() not in environments


def test_passwords_are_in_no_log(moved: System) -> None:
    """All that Airflow's components and tasks wrote."""
    logs = [path for path in moved.airflow.home.rglob("*") if path.is_file() and path.suffix in (".log", ".txt", ".cfg", "")]
    text = b"\n".join(path.read_bytes() for path in logs)
    assert b"batch_published hop=flights/2" in text
    assert _leaks(moved, text) == []


def test_passwords_are_in_nothing_that_the_ui_shows(moved: System) -> None:
    """Rendered templates, XCom, asset events."""
    tasks = moved.task_instances()
    entries = moved.client.get("dags/~/dagRuns/~/taskInstances/~/xcomEntries", limit=500)["xcom_entries"]
    assert any("--hop" in str(task["rendered_fields"]) for task in tasks)
    assert any(entry["key"] == "return_value" for entry in entries)
    assert _leaks(moved, repr([tasks, entries, moved.asset_events()]).encode()) == []


def test_passwords_are_in_no_row_of_airflows_database(moved: System) -> None:
    """Serialized DAGs, triggers, rendered fields, XCom: whatever is in it."""
    dump = subprocess.run(
        [postgres_program("pg_dump"), "--data-only"],
        env={f"PG{name.upper()}": value for name, value in _as_environment(moved.metadata).items()},
        check=True,
        capture_output=True,
    ).stdout
    assert b"relaybox.airflow.triggers.HopWorkTrigger" in dump
    assert _leaks(moved, dump) == []


def test_no_service_file_is_left(moved: System) -> None:
    """Tasks remove their own; that of a task which was killed is removed by a later one, a minute after it was written."""
    for file in moved.temporary.glob("relaybox-services-*/pg_service.conf"):
        os.utime(file, (0, 0))
    run = moved.client.trigger_dag("relaybox_transfer__flights_1")
    moved.client.wait_for_run("relaybox_transfer__flights_1", run, deadline_seconds=patience(ARRIVE_SECONDS))
    moved.wait_until_quiet()
    assert list(moved.temporary.glob("relaybox-services-*")) == []


def _as_environment(parameters: Mapping[str, str]) -> dict[str, str]:
    return {("database" if name == "dbname" else name): value for name, value in parameters.items()}


def _leaks(system: System, text: bytes) -> list[str]:
    """The stores whose password occurs."""
    return [password for password in system.passwords if password.encode() in text]


def test_messages_move_while_relaybox_yaml_is_wrong(moved: System) -> None:
    """relaybox_watch kept the last good file: no DAG vanishes; the error is an import error, and the watch is red."""
    routes, before = moved.world.path, len(moved.world.sent())
    wait_until(lambda: VARIABLE in moved.variables(), "the routes are kept", deadline_seconds=ARRIVE_SECONDS)
    text = routes.read_text()
    routes.write_text("routes: [", encoding="utf-8")
    try:
        wait_until(moved.import_errors, "the error is shown", deadline_seconds=ARRIVE_SECONDS, poll_seconds=0.5)
        run = moved.client.trigger_dag("relaybox_watch")
        moved.world.send_many(10)
        moved.wait_until_settled(before + 10)
        assert moved.client.wait_for_run("relaybox_watch", run, deadline_seconds=patience(ARRIVE_SECONDS)) == "failed"
        ((file, error),) = moved.import_errors().items()
        assert file == "relaybox_routes.py"
        assert f"1 problem in {routes}" in error
        assert "not YAML" in error
    finally:
        routes.write_text(text, encoding="utf-8")
    assert moved.world.payloads("flights/2") == moved.world.sent()
    wait_until(lambda: not moved.import_errors(), "no error is left", deadline_seconds=ARRIVE_SECONDS, poll_seconds=0.5)
    moved.wait_until_quiet()
