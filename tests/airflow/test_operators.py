"""What the two tasks of a hop do, with real stores and a spark-submit that only notes how it was called, or a real warm server."""

from __future__ import annotations

import json
import os
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from airflow.sdk import DAG, RetryAction
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSkipException, AirflowTaskTimeout
from airflow.sdk.execution_time.context import OutletEventAccessors
from airflow.sdk.observability import stats

from relaybox.airflow import head_start, slot_use
from relaybox.airflow.assets import log_asset, settled_asset, verification_asset
from relaybox.airflow.dags.retention import build_retention_dag
from relaybox.airflow.dags.verify import build_verify_dag
from relaybox.airflow.dags.watch import build_watch_dag
from relaybox.airflow.head_start import SparkHasStarted, UntilOver
from relaybox.airflow.links import SparkApplicationLink
from relaybox.airflow.operators import transfer as transfer_operator
from relaybox.airflow.operators.driver import SparkDriverOperator
from relaybox.airflow.operators.settle import HopSettleOperator
from relaybox.airflow.operators.transfer import HopTransferOperator
from relaybox.airflow.retry_policy import DriverExitPolicy
from relaybox.errors import ConfigurationError, CredentialsUnavailable, StoreBusy, StoreUnreachable
from relaybox.hops.runners import BatchTooLarge, ThreadRunner
from relaybox.hops.transfer import transfer_hop
from relaybox.local.clusters import find_free_port
from relaybox.payloads import PayloadStore
from relaybox.payloads.preparing import prepare_place
from relaybox.routes import Hop
from relaybox.spark.driver_options import driver_java_options
from relaybox.stores.opening import open_store
from relaybox.verification.results import write_verification
from relaybox.verification.route_verification import verify_route
from tests.airflow.conftest import REPOSITORY
from tests.airflow.connect_server import connect_server
from tests.airflow.connections import change_connection
from tests.support.patience import patience
from tests.support.payloads import Directory, add_place, place_of, refs, send, stores_of
from tests.support.sinks import webhook
from tests.support.world import World, routes_file, wait_until

SPARK_SUBMIT = """\
#!/bin/sh
printf '%s\\n' "$@" > "$NOTES/arguments"
env > "$NOTES/environment"
cp "$PGSERVICEFILE" "$NOTES/services"
cp "$RELAYBOX_CONFIG" "$NOTES/relaybox.yaml"
for last; do :; done
while test -e "$NOTES/starts"; do sleep 0.02; done
test -e "$NOTES/application" && cp "$NOTES/application" "$RELAYBOX_APPLICATION_FILE"
touch "$(dirname "$RELAYBOX_APPLICATION_FILE")/ready"
test -e "$NOTES/result" && cp "$NOTES/result" "$last"
while test -e "$NOTES/works"; do sleep 0.02; done
exit "$(cat "$NOTES/exit_code")"
"""


@dataclass(frozen=True)
class SparkSubmit:
    """Stands where spark-submit is found: notes its arguments, environment and service file, and ends as told.

    A file `result` beside its notes is left where the last argument says, as an application leaves its result; one named
    `application` is what it says of itself. It starts while there is a file `starts`, and then works while there is one `works`.
    """

    notes: Path

    def ends_with(self, code: int) -> None:
        (self.notes / "exit_code").write_text(str(code))

    @property
    def arguments(self) -> list[str]:
        return (self.notes / "arguments").read_text().splitlines()

    @property
    def environment(self) -> dict[str, str]:
        return dict(line.split("=", 1) for line in (self.notes / "environment").read_text().splitlines() if "=" in line)

    @property
    def was_called(self) -> bool:
        return (self.notes / "arguments").exists()


@pytest.fixture
def spark_submit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SparkSubmit:
    """A spark-submit of our own, first on the path, that succeeds."""
    notes = tmp_path / "notes"
    notes.mkdir()
    program = tmp_path / "bin" / "spark-submit"
    program.parent.mkdir()
    program.write_text(SPARK_SUBMIT)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("NOTES", str(notes))
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps({"conn_type": "spark", "host": "local[2]"}))
    submit = SparkSubmit(notes)
    submit.ends_with(0)
    return submit


def transfer(world: World, hop: Hop, *, try_number: int = 1) -> tuple[dict[str, int], OutletEventAccessors]:
    """Executes the transfer task of a hop; returns its XCom and its asset events."""
    return execute(transfer_task(world, hop), try_number=try_number)


def transfer_task(world: World, hop: Hop) -> HopTransferOperator:
    return HopTransferOperator(
        task_id="transfer",
        hop=hop,
        routes_text=world.routes.text,
        outlets=[log_asset(hop)],
    )


def verification_task(world: World) -> Any:
    return build_verify_dag(world.routes)["relaybox_verify"].get_task("verification.flights")


def by_spark(world: World) -> Hop:
    """The first hop, of a route whose runner is spark."""
    return replace(world.first_hop, runner="spark")


def settle(world: World, hop: Hop) -> tuple[dict[str, int], OutletEventAccessors]:
    """Executes the confirm task of a hop; returns its XCom and its asset events."""
    return execute(HopSettleOperator(task_id="settle", route=world.route, hop=hop, outlets=[settled_asset(hop)]), try_number=1)


def execute(
    operator: Any, *, try_number: int, dag_run: Any = None, previous: datetime | None = None, **params: object
) -> tuple[Any, OutletEventAccessors]:
    """`previous`: the logical date of the run before, in which the task succeeded."""
    events = OutletEventAccessors()
    before = SimpleNamespace(logical_date=previous, run_id="before") if previous else None
    task = SimpleNamespace(
        dag_id="a_dag",
        run_id="a_run",
        try_number=try_number,
        get_previous_ti=lambda **_: before,
        get_ti_count=lambda **_: 0,
        xcom_pull=lambda **_: None,
    )
    context = {"ti": task, "outlet_events": events, "params": params, "dag_run": dag_run}
    return operator.execute(context), events


def test_an_empty_hop_is_skipped_without_spark(connected: World, spark_submit: SparkSubmit) -> None:
    """A look costs milliseconds, a Spark application ten seconds; a skipped task emits no asset event."""
    with pytest.raises(AirflowSkipException, match="hop flights/1: no message to move"):
        transfer(connected, connected.first_hop)
    assert not spark_submit.was_called


def test_a_retry_that_finds_nothing_left_succeeds(
    connected: World, spark_submit: SparkSubmit, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The attempt before it moved everything and was killed before it could deliver it and trigger the next hop: this one does."""
    connected.send("one", "two")
    with monkeypatch.context() as patch:
        patch.setenv("RELAYBOX_ENVIRONMENT", "test")
        patch.setenv("RELAYBOX_FAILPOINTS_DIRECTORY", str(connected.path.parent))
        patch.setenv("RELAYBOX_FAILPOINTS", "deliver.begin=raise 40001 ")
        with pytest.raises(StoreBusy):
            connected.transfer()
    numbers, events = transfer(connected, connected.first_hop, try_number=2)
    assert connected.value("hub", "select last_stream_position from relaybox_internal.stream") == 2
    assert numbers == {"batch": 1, "log_position": 2}
    assert events[log_asset(connected.first_hop)].extra == numbers
    assert not spark_submit.was_called


def test_work_starts_the_spark_application(connected: World, spark_submit: SparkSubmit) -> None:
    """In client mode, with the hop's name and who recorded it, and Spark's own noise turned off."""
    connected.send("one")
    transfer(connected, by_spark(connected))
    arguments = spark_submit.arguments
    application = arguments.index(str(REPOSITORY / "spark_apps" / "transfer.py"))
    assert arguments[application + 1 :] == [
        *("--hop", "flights/1", "--recorded-by", "{{ dag.dag_id }} {{ run_id }}"),
        *("--linger-seconds", "{{ [params.linger_seconds, 5] | min }}"),
    ]
    assert arguments[arguments.index("--master") + 1] == "local[2]"
    assert arguments[arguments.index("--deploy-mode") + 1] == "client"
    (option,) = [argument for argument in arguments if argument.startswith("spark.driver.extraJavaOptions=")]
    assert Path(option.rpartition("file://")[2]).is_file()


def test_a_route_says_where_and_how_spark_works(
    connected: World, spark_submit: SparkSubmit, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own connection, settings and queue, for transfer and verification. Options of the driver's JVM are added to ours."""
    monkeypatch.setenv("AIRFLOW_CONN_BIG", json.dumps({"conn_type": "spark", "host": "yarn", "extra": {"queue": "default"}}))
    conf = {"spark.executor.memory": "2g", "spark.driver.extraJavaOptions": "-Dmine=1", "spark.ui.enabled": "true"}
    connected.change_route(runner="spark", spark={"conn_id": "big", "queue": "etl", "conf": conf})
    connected.send("one")
    transfer(connected, connected.first_hop)
    assert_submitted(spark_submit, master="yarn", queue="etl")
    write_verification(verify_route(connected.route), spark_submit.notes / "result")
    execute(verification_task(connected), try_number=1, route="flights")
    assert_submitted(spark_submit, master="yarn", queue="etl")


def assert_submitted(spark_submit: SparkSubmit, *, master: str, queue: str) -> None:
    arguments = spark_submit.arguments
    assert {name: arguments[arguments.index(name) + 1] for name in ("--master", "--queue", "--deploy-mode")} == {
        "--master": master,
        "--queue": queue,
        "--deploy-mode": "client",
    }
    settings = dict(arguments[place + 1].split("=", 1) for place, argument in enumerate(arguments) if argument == "--conf")
    assert settings["spark.executor.memory"] == "2g"
    assert settings["spark.ui.enabled"] == "true"
    assert settings["spark.driver.extraJavaOptions"] == f"{driver_java_options()} -Dmine=1"


def test_a_driver_in_the_cluster_gets_the_routes_as_a_file(
    connected: World, spark_submit: SparkSubmit, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark brings it into the working directory of the driver, where the directory of this task is not."""
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps({"conn_type": "spark", "host": "yarn"}))
    connected.change_route(runner="spark", spark={"deploy_mode": "cluster"})
    connected.send("one")
    transfer(connected, connected.first_hop)
    arguments = spark_submit.arguments
    assert arguments[arguments.index("--deploy-mode") + 1] == "cluster"
    assert Path(arguments[arguments.index("--files") + 1]).name == "relaybox.yaml"
    assert arguments[-2:] == ["--config", "relaybox.yaml"]
    with pytest.raises(AirflowFailException, match=r"route flights: spark\.deploy_mode is cluster, where a verification can't"):
        execute(verification_task(connected), try_number=1, route="flights")


@pytest.mark.parametrize("host", ["spark://master:7077", "local[2]"])
def test_a_master_that_runs_no_python_driver_is_refused(
    connected: World, spark_submit: SparkSubmit, monkeypatch: pytest.MonkeyPatch, host: str
) -> None:
    """Spark refuses Python in cluster mode there, half a minute later and in its log only."""
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps({"conn_type": "spark", "host": host}))
    connected.change_route(runner="spark", spark={"deploy_mode": "cluster"})
    connected.send("one")
    with pytest.raises(AirflowFailException, match=r"spark\.deploy_mode is cluster, but connection spark_default leads to"):
        transfer(connected, connected.first_hop)
    assert not spark_submit.was_called


def test_no_operator_uses_private_names_of_the_spark_provider() -> None:
    """Hooks are used, not inherited from: the provider may change what is private within the range of pyproject.toml."""
    from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator

    assert not issubclass(SparkDriverOperator, SparkSubmitOperator)
    source = (REPOSITORY / "plugins/relaybox/airflow/operators/driver.py").read_text(encoding="utf-8")
    assert re.findall(r"(?:hook|Hook\([^)]*\)|super\(\))\._[a-z]\w+", source) == []


@pytest.fixture
def lineage(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """OpenLineage's provider, switched on."""
    transport = {"type": "file", "log_file_path": str(tmp_path / "lineage")}
    monkeypatch.setenv("AIRFLOW__OPENLINEAGE__TRANSPORT", json.dumps(transport))


def test_openlineage_gets_the_tables_that_a_transfer_read_and_wrote(
    connected: World, spark_submit: SparkSubmit, lineage: None
) -> None:
    """The outbox or log that it reads, the log that it fills, and how many rows; nothing of a run that moved nothing."""
    tables = dataset_names(connected)
    connected.send("one", "two")
    for hop, read, written in (
        (connected.first_hop, "airline outbox", "hub log_1"),
        (connected.second_hop, "hub log_1", "analytics log_1"),
    ):
        task = transfer_task(connected, hop)
        execute(task, try_number=1)
        told = task.get_openlineage_facets_on_complete(None)
        ((source,), (destination,)) = told.inputs, told.outputs
        assert (source.namespace, source.name) == tables[read]
        assert (destination.namespace, destination.name) == tables[written]
        assert source.inputFacets["inputStatistics"].rowCount == destination.outputFacets["outputStatistics"].rowCount == 2
    idle = transfer_task(connected, connected.first_hop)
    with pytest.raises(AirflowSkipException):
        execute(idle, try_number=1)
    told = idle.get_openlineage_facets_on_complete(None)
    assert (told.inputs, told.outputs) == ([], [])


def test_openlineage_gets_what_a_transfer_moved_before_it_failed(
    connected: World, lineage: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """One batch is published, the second one fails: its tables, with the rows of the first; nothing where the store is away."""
    connected.change_route(runner="threads", limits={"batch_rows": 2, "slice_rows": 2})
    connected.send("one", "two", "three", "four")
    monkeypatch.setenv("RELAYBOX_ENVIRONMENT", "test")
    monkeypatch.setenv("RELAYBOX_FAILPOINTS_DIRECTORY", str(tmp_path))
    monkeypatch.setenv("RELAYBOX_FAILPOINTS", "plan.locked:2=raise 57014")
    task = transfer_task(connected, connected.first_hop)
    with pytest.raises(StoreBusy):
        execute(task, try_number=1)
    told = task.get_openlineage_facets_on_failure(None)
    ((source,), (destination,)) = told.inputs, told.outputs
    tables = dataset_names(connected)
    assert ((source.namespace, source.name), (destination.namespace, destination.name)) == (
        tables["airline outbox"],
        tables["hub log_1"],
    )
    assert source.inputFacets["inputStatistics"].rowCount == destination.outputFacets["outputStatistics"].rowCount == 2


def test_openlineage_gets_the_result_of_a_verification(connected: World, lineage: None) -> None:
    """An assertion per log of the route."""
    connected.send("one", "two")
    connected.transfer_all()
    connected.query("hub", "update relaybox_internal.log set payload = 'other' where log_position = 1")
    task = verification_task(connected)
    execute(task, try_number=1, route="flights")
    told = task.get_openlineage_facets_on_complete(None)
    tables = dataset_names(connected)
    assert [(one.namespace, one.name) for one in told.inputs] == [tables["hub log_1"], tables["analytics log_1"]]
    found = [one.inputFacets["dataQualityAssertions"].assertions[0] for one in told.inputs]
    assert [(one.assertion, one.success, one.actual) for one in found] == [
        ("delivered", False, "1 defect"),
        ("delivered", False, "1 defect"),
    ]


def dataset_names(world: World) -> dict[str, tuple[str, str]]:
    """Namespace and name of tables, by store and table."""
    names = {}
    for store in ("airline", "hub", "analytics"):
        fields = json.loads(os.environ[f"AIRFLOW_CONN_RELAYBOX_{store.upper()}"])
        for schema, table in (("relaybox", "outbox"), ("relaybox_internal", "log_1")):
            names[f"{store} {table}"] = f"postgres://{fields['host']}:{fields['port']}", f"{fields['schema']}.{schema}.{table}"
    return names


@pytest.mark.parametrize("code", [0, 75])
def test_a_task_links_to_its_spark_application(
    connected: World, spark_submit: SparkSubmit, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    """Also an application that failed. A task that moved all messages itself has none."""
    monkeypatch.setenv("RELAYBOX_SPARK_UI", "http://history:18080")
    (spark_submit.notes / "application").write_text("app-7")
    spark_submit.ends_with(code)
    connected.send("one")
    by_threads, by_driver = transfer_task(connected, connected.first_hop), transfer_task(connected, by_spark(connected))
    with suppress(AirflowException):
        execute(by_driver, try_number=1)
    execute(by_threads, try_number=1)
    links = [SparkApplicationLink().get_link(task, ti_key=None) for task in (by_driver, by_threads)]
    assert links == ["http://history:18080/history/app-7/", ""]


def test_the_driver_gets_credentials_by_file_and_nothing_of_airflow(connected: World, spark_submit: SparkSubmit) -> None:
    """Its hop's two stores only; no password in its arguments or environment; the file is gone with the task."""
    connected.send("one")
    transfer(connected, by_spark(connected))
    passwords = {json.loads(os.environ[f"AIRFLOW_CONN_RELAYBOX_{store}"])["password"] for store in ("AIRLINE", "HUB")}
    services = (spark_submit.notes / "services").read_text()
    assert [line for line in services.splitlines() if line.startswith("[")] == ["[airline]", "[hub]"]
    assert all(password in services for password in passwords)
    seen = "\n".join([*spark_submit.arguments, *spark_submit.environment.values()])
    assert [password for password in passwords if password in seen] == []
    assert [name for name in spark_submit.environment if name.startswith("AIRFLOW")] == []
    assert not Path(spark_submit.environment["PGSERVICEFILE"]).exists()


def test_the_driver_gets_the_routes_that_its_task_was_built_from(connected: World, spark_submit: SparkSubmit) -> None:
    """Whatever happens to relaybox.yaml between the parse and the start: a driver that read it then would fail, or move other topics."""
    connected.send("one")
    task, text = transfer_task(connected, by_spark(connected)), connected.path.read_text()
    connected.path.write_text("routes: [")
    execute(task, try_number=1)
    assert (spark_submit.notes / "relaybox.yaml").read_text() == text
    assert not Path(spark_submit.environment["RELAYBOX_CONFIG"]).exists()


@pytest.mark.parametrize(("code", "action"), [(65, RetryAction.FAIL), (78, RetryAction.FAIL), (75, RetryAction.DEFAULT)])
def test_the_drivers_exit_code_decides_about_a_retry(
    connected: World, spark_submit: SparkSubmit, code: int, action: RetryAction
) -> None:
    """The Spark hook's error is what the retry policy reads."""
    connected.send("one")
    spark_submit.ends_with(code)
    with pytest.raises(AirflowException) as failed:
        transfer(connected, by_spark(connected))
    assert DriverExitPolicy().evaluate(failed.value, 1, 5).action is action


def test_a_store_that_does_not_know_the_hop_is_no_empty_hop(connected: World, spark_submit: SparkSubmit) -> None:
    """A forgotten `relaybox init` fails at once and says so; skipping for ever would look like peace."""
    connected.query("airline", "delete from relaybox_internal.hop_out")
    with pytest.raises(AirflowFailException, match=r"store airline: it does not know hop flights/1\. Run: relaybox init"):
        transfer(connected, connected.first_hop)


def test_a_wrong_password_fails_at_once(connected: World, spark_submit: SparkSubmit, monkeypatch: pytest.MonkeyPatch) -> None:
    """A retry would give the same answer."""
    change_connection(monkeypatch, "RELAYBOX_AIRLINE", password="wrong")
    with pytest.raises(AirflowFailException, match="store airline: the server refused the connection"):
        transfer(connected, connected.first_hop)
    with pytest.raises(AirflowFailException, match="store airline: the server refused the connection"):
        settle(connected, connected.first_hop)


def test_a_store_that_is_down_is_retried(connected: World, spark_submit: SparkSubmit, monkeypatch: pytest.MonkeyPatch) -> None:
    """A transient error passes through as it is."""
    change_connection(monkeypatch, "RELAYBOX_AIRLINE", port=find_free_port())
    with pytest.raises(StoreUnreachable):
        transfer(connected, connected.first_hop)
    with pytest.raises(StoreUnreachable):
        settle(connected, connected.first_hop)


@pytest.mark.parametrize("connection", ["RELAYBOX_HUB", "SPARK_DEFAULT"])
def test_a_missing_connection_is_retried(
    connected: World, spark_submit: SparkSubmit, monkeypatch: pytest.MonkeyPatch, connection: str
) -> None:
    """Also Spark's own: without it, the hook would submit to a YARN that nobody has. An attempt with the connection works."""
    connected.send("one")
    with monkeypatch.context() as without:
        without.delenv(f"AIRFLOW_CONN_{connection}")
        with pytest.raises(CredentialsUnavailable, match=f"`{connection.lower()}`.*Add the connection in Airflow"):
            transfer(connected, by_spark(connected))
    assert not spark_submit.was_called
    transfer(connected, by_spark(connected))
    assert spark_submit.was_called


def test_a_confirmation_whose_connection_was_away_is_retried(connected: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """It waited for the next watch, for up to five minutes, because it failed at once."""
    connected.send("one")
    connected.transfer_all()
    with monkeypatch.context() as without:
        without.delenv("AIRFLOW_CONN_RELAYBOX_HUB")
        with pytest.raises(CredentialsUnavailable, match="Add the connection in Airflow"):
            settle(connected, connected.first_hop)
    assert settle(connected, connected.first_hop)


def test_a_small_backlog_is_moved_by_the_task_itself(connected: World, spark_submit: SparkSubmit) -> None:
    """Of a route whose runner is auto, the default: the same protocol, the same event, no JVM, and no Spark connection asked for."""
    connected.send("one", "two")
    numbers, events = transfer(connected, connected.first_hop)
    assert numbers == {"batch": 1, "log_position": 2}
    assert events[log_asset(connected.first_hop)].extra == numbers
    assert connected.payloads() == ["one", "two"]
    assert connected.value("airline", "select recorded_by from relaybox_internal.confirmation") == "a_dag a_run"
    assert not spark_submit.was_called


@pytest.mark.parametrize(("waiting", "starts_spark"), [(9, False), (10, True)])
def test_spark_starts_from_the_row_count_of_the_route(
    connected: World, spark_submit: SparkSubmit, waiting: int, starts_spark: bool
) -> None:
    """`limits.spark_from_rows` of the route; a planned batch that no driver finished counts like rows in no batch."""
    hop = few_rows_for_spark(connected)
    connected.send_many(waiting - 3)
    leave_a_planned_batch(connected)
    connected.send_many(3)
    transfer(connected, hop)
    assert spark_submit.was_called is starts_spark
    assert starts_spark or len(connected.payloads()) == waiting


def test_a_large_batch_that_comes_while_threads_linger_is_left_to_spark(
    connected: World, spark_submit: SparkSubmit, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is planned already: the application resumes it, as any batch that was left."""
    monkeypatch.setattr(slot_use, "IDLE_SECONDS", patience(20))
    hop = few_rows_for_spark(connected)
    hop = replace(hop, limits=replace(hop.limits, linger_seconds=60))
    connected.send("one")
    sender = threading.Thread(
        target=lambda: (wait_until(lambda: connected.payloads() == ["one"], "moved"), connected.send_many(10))
    )
    sender.start()
    numbers, _ = transfer(connected, hop)
    sender.join()
    assert spark_submit.was_called
    assert numbers == {"batch": 2, "log_position": 11}
    connected.transfer()
    assert connected.log_positions() == list(range(1, 12))
    assert connected.value("airline", "select count(*) from relaybox_internal.batch") == 2


def test_threads_move_what_comes_while_spark_starts(
    connected: World, spark_submit: SparkSubmit, caplog: pytest.LogCaptureFixture
) -> None:
    """Its start takes ten seconds, beside others thirty. Once it has started, they move nothing more."""
    caplog.set_level("INFO")
    (spark_submit.notes / "application").write_text("local-1")
    starts, works = spark_submit.notes / "starts", spark_submit.notes / "works"
    starts.touch()
    works.touch()
    connected.send_many(12)
    with ThreadPoolExecutor(1) as pool:
        try:
            moving = pool.submit(transfer, connected, few_rows_for_spark(connected))
            wait_until(lambda: len(connected.payloads()) == 12, "the waiting messages are moved")
            assert spark_submit.was_called
            connected.send("later")
            wait_until(lambda: len(connected.payloads()) == 13, "what comes later is moved too")
            starts.unlink()
            wait_until(
                lambda: not connected.value("airline", "select relaybox_internal.hop_is_driven('flights/1')"), "the threads end"
            )
            connected.send("left to Spark")
            assert not moving.done()
        finally:
            starts.unlink(missing_ok=True)
            works.unlink()
        moving.result()
    assert len(connected.payloads()) == 13
    assert 'head_start_ended hop=flights/1 reason="Spark has started"' in caplog.text
    assert connected.query("airline", "select distinct application, recorded_by from relaybox_internal.attempt") == [
        (None, "a_dag a_run")
    ]


def test_a_batch_that_threads_have_begun_is_resumed_by_spark(connected: World, spark_submit: SparkSubmit) -> None:
    """Spark has started while they copied: they begin no other slice, and the batch stays planned."""
    hop = few_rows_for_spark(connected)
    connected.send_many(12)
    with pytest.raises(SparkHasStarted):
        transfer_hop(hop, UntilOver(ThreadRunner(), lambda: True), recorded_by="test")
    assert connected.payloads() == []
    assert connected.transfer().resumed_count == 1
    assert connected.log_positions() == list(range(1, 13))


@pytest.mark.parametrize("mode", ["runner: spark", "cluster mode"])
def test_spark_alone_moves_for_a_route_that_says_so(
    connected: World, spark_submit: SparkSubmit, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    """With `runner: spark` no thread of a task copies a message; nor in cluster mode, where the task can't see whether Spark runs."""
    monkeypatch.setattr(transfer_operator, "head_start", lambda *_, **__: pytest.fail("threads begin"))
    hop = by_spark(connected)
    if mode == "cluster mode":
        hop = replace(few_rows_for_spark(connected), spark=replace(hop.spark, deploy_mode="cluster"))
        monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps({"conn_type": "spark", "host": "yarn"}))
    connected.send_many(12)
    transfer(connected, hop)
    assert spark_submit.was_called


def test_an_error_of_the_head_start_is_told_and_fails_nothing(
    connected: World, spark_submit: SparkSubmit, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Spark's driver meets the same stores, and its error is the task's."""
    caplog.set_level("INFO")

    def refuse(*_: object, **__: object) -> None:
        raise StoreBusy("no room")

    monkeypatch.setattr(head_start, "transfer_hop", refuse)
    connected.send_many(12)
    transfer(connected, few_rows_for_spark(connected))
    assert spark_submit.was_called
    assert 'head_start_ended hop=flights/1 reason="no room"' in caplog.text


def test_airflows_own_metrics_tell_what_a_transfer_moved(
    connected: World, spark_submit: SparkSubmit, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever Airflow sends them to; with the hop as a tag."""
    told: dict[str, tuple[object, object]] = {}
    for kind in ("incr", "gauge", "timing"):
        monkeypatch.setattr(stats, kind, lambda name, value, *, tags: told.update({name: (value, tags)}))
    connected.send("one", "two")
    transfer(connected, connected.first_hop)
    tags = {"hop": "flights/1"}
    assert told.pop("relaybox.transfer_duration")[1] == tags
    assert told == {
        "relaybox.messages_moved": (2, tags),
        "relaybox.batches_moved": (1, tags),
        "relaybox.waiting_messages": (0, tags),
    }


def test_a_run_may_be_told_who_moves(connected: World, spark_submit: SparkSubmit) -> None:
    """By the trigger form; for this run only."""
    connected.send("one")
    execute(transfer_task(connected, connected.first_hop), try_number=1, runner="spark", linger_seconds=0)
    assert spark_submit.was_called


def test_the_verification_of_a_route_is_reported(connected: World) -> None:
    """Delivered, then a message changed at its destination: the verification is made all the same, and the report fails."""
    connected.send("one", "two")
    connected.transfer_all()
    verification = verification_task(connected)
    line, events = execute(verification, try_number=1, route="every route")
    assert (line["outcome"], line["sent"], line["received"], line["reliability"], line["defects"]) == ("delivered", 2, 2, "1", 0)
    assert events[verification_asset("flights")].extra == line
    assert "| flights | delivered | 2 | 2 | 0 | 0 | 1 | 1 | 0 |" in report(connected, line)
    connected.query("hub", "update relaybox_internal.log set payload = 'other' where log_position = 1")
    changed, _ = execute(verification, try_number=1, route="flights")
    assert changed["outcome"] == "defects"
    with pytest.raises(
        AirflowFailException, match=r"Delivery is not verified: flights\. See docs/runbooks/loss-or-duplicates\.md"
    ):
        report(connected, changed)
    with pytest.raises(AirflowFailException, match="not verified: see the log of its task"):
        report(connected, None)
    with pytest.raises(AirflowSkipException, match="route flights was not chosen in the form"):
        execute(verification, try_number=1, route="bookings")


@pytest.mark.parametrize(
    ("route", "by_spark"),
    [
        ({"limits": {"spark_from_rows": 3}}, False),
        ({"limits": {"spark_from_rows": 2}}, True),
        ({"runner": "threads", "limits": {"spark_from_rows": 1}}, False),
        ({"runner": "spark"}, True),
    ],
    ids=["few", "many", "threads", "spark"],
)
def test_a_verification_uses_the_runner_of_the_route(
    connected: World, spark_submit: SparkSubmit, route: Mapping[str, object], by_spark: bool
) -> None:
    """As its transfers are; what Spark found comes back whole, from a file that is gone with the task."""
    connected.change_route(**route)
    connected.send("one", "two")
    connected.transfer_all()
    found = verify_route(connected.route)
    write_verification(replace(found, duration_seconds=4711.0), spark_submit.notes / "result")
    verification = verification_task(connected)
    line, _ = execute(verification, try_number=1, route="flights")
    assert (line["outcome"], line["sent"]) == ("delivered", 2)
    assert (line["duration_seconds"] == 4711.0) == by_spark == spark_submit.was_called
    if by_spark:
        application = spark_submit.arguments.index(str(REPOSITORY / "spark_apps" / "verify.py"))
        *arguments, result = spark_submit.arguments[application + 1 :]
        assert arguments == ["--route", "flights", "--result"]
        assert Path(result).parent == Path(spark_submit.environment["PGSERVICEFILE"]).parent
        assert not Path(result).exists()
        services = (spark_submit.notes / "services").read_text()
        assert [line for line in services.splitlines() if line.startswith("[")] == ["[airline]", "[hub]", "[analytics]"]


@pytest.mark.parametrize(("code", "action"), [(65, RetryAction.FAIL), (75, RetryAction.DEFAULT)])
def test_a_verification_that_spark_could_not_finish_fails(
    connected: World, spark_submit: SparkSubmit, code: int, action: RetryAction
) -> None:
    """The application's exit code decides about a retry."""
    connected.change_route(runner="spark")
    spark_submit.ends_with(code)
    verification = verification_task(connected)
    with pytest.raises(AirflowException) as failed:
        execute(verification, try_number=1, route="flights")
    assert verification.retry_policy.evaluate(failed.value, 1, 3).action is action


def test_a_warm_server_moves_and_compares_what_is_much(
    connected: World, spark_submit: SparkSubmit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A Spark connection of type spark_connect: the task is the driver, no JVM starts, errors of stores come back as they are."""
    connected.change_route(runner="spark", limits={"batch_rows": 3000, "slice_rows": 1000})
    connected.send_many(6000)
    with connect_server(tmp_path / "server.log") as port:
        server = {"conn_type": "spark_connect", "host": "127.0.0.1", "port": port}
        monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(server))
        task = transfer_task(connected, connected.first_hop)
        execute(task, try_number=1)
        connected.transfer(connected.second_hop)
        damaged = "update relaybox_internal.log set payload = 'other' where log_position = 1500"
        connected.query("hub", damaged)
        verification = verification_task(connected)
        line, _ = execute(verification, try_number=1, route="flights")
        connected.send_many(10)
        connected.query("hub", "alter table relaybox_internal.receipt rename to receipt_away")
        with pytest.raises(AirflowFailException, match=r"store hub: .*receipt"):
            execute(transfer_task(connected, connected.first_hop), try_number=1)
    assert not spark_submit.was_called
    assert connected.log_positions() == list(range(1, 6001))
    assert task.spark_application is not None
    assert connected.query("airline", "select distinct application from relaybox_internal.attempt where batch <= 2") == [
        (task.spark_application,)
    ]
    assert (line["outcome"], line["sent"], line["defects"]) == ("defects", 6000, 2)


def test_what_must_be_submitted_is_refused_where_the_connection_leads_to_a_server(
    connected: World, spark_submit: SparkSubmit, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Detaching writes files with a Spark of its own; it is not given to YARN instead."""
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps({"conn_type": "spark_connect", "host": "127.0.0.1", "port": 1}))
    with pytest.raises(ConfigurationError, match=r"transfer\.py needs spark-submit, but connection spark_default is of"):
        transfer_task(connected, connected.first_hop).run_driver()
    assert not spark_submit.was_called


def test_retention_drops_in_the_store_that_was_asked_for_and_says_who_needs_the_rest(connected: World) -> None:
    """A dry run tells; without a window everything is kept, and that is no failure."""
    task = build_retention_dag(connected.routes)["relaybox_retention"].get_task("retain_hub")
    told, _ = execute(task, try_number=1, store="every store", dry_run=True)
    assert [(line["hop"], line["droppable"]) for line in told] == [(None, 0), ("flights/1", 0)]
    assert "window flights/1 from 0" in told[1]["holders"]
    done, _ = execute(task, try_number=1, store="hub", dry_run=False)
    assert [(line["hop"], line["dropped_count"], line["holder"]) for line in done][1] == ("flights/1", 0, "newest flights/1")
    with pytest.raises(AirflowSkipException, match="store hub was not chosen in the form"):
        execute(task, try_number=1, store="airline", dry_run=False)
    webhook(connected, "http://127.0.0.1:1/")
    task = build_retention_dag(connected.routes)["relaybox_retention"].get_task("retain_hub")
    skip = "or, if it may skip all messages that are kept, write start: latest"
    step = f"Run: relaybox webhook run billing; {skip}; or take it out of relaybox.yaml"
    told, _ = execute(task, try_number=1, store="hub", dry_run=True)
    assert f"awaited webhook billing from 1; {step}" in told[1]["holders"]
    done, _ = execute(task, try_number=1, store="hub", dry_run=False)
    assert done[1]["holder"] == told[1]["holders"][0].rpartition(" from ")[0] == "newest flights/1", "nothing has arrived there"
    assert (done[1]["awaited"].partition(",")[0], done[1]["next_step"]) == ("relaybox.yaml names webhook billing", step)


def test_payloads_are_collected_after_all_stores_dropped_their_segments(connected: World, tmp_path: Path) -> None:
    """A dry run tells, and a single store is not enough."""
    add_place(connected, tmp_path / "payloads")
    prepare_place(place_of(connected), stores_of(connected), recorded_by="test")
    place = Directory(PayloadStore(tmp_path / "payloads"))
    kept, orphan = place.write(), place.write()
    send(connected, kept)
    task = build_retention_dag(connected.routes)["relaybox_retention"].get_task("collect_payloads_pictures")
    assert task.upstream_task_ids == {"retain_airline", "retain_hub", "retain_analytics"}
    told, _ = execute(task, try_number=1, store="every store", dry_run=True)
    assert (told["trashed"], place.refs) == ({"count": 1, "bytes": 7}, refs(kept, orphan))
    with pytest.raises(AirflowSkipException, match="a store was chosen in the form"):
        execute(task, try_number=1, store="hub", dry_run=False)
    done, _ = execute(task, try_number=1, store="every store", dry_run=False)
    assert (done["trashed"]["count"], place.refs) == (1, refs(kept))
    json.dumps(done)


def test_detaching_starts_spark_only_for_what_a_stopped_consumer_keeps(connected: World, spark_submit: SparkSubmit) -> None:
    """A look costs milliseconds; a dry run, another store and nothing to do start no JVM."""
    connected.change_route(
        retention={
            "replay_window_seconds": 0,
            "stopped_consumer": "detach",
            "detach_after_seconds": 0,
            "detach_to": "/srv/detached",
        }
    )
    task = build_retention_dag(connected.routes)["relaybox_retention"].get_task("detach_hub")
    with pytest.raises(AirflowSkipException, match="store hub: no segment to detach"):
        execute(task, try_number=1, store="hub", dry_run=False)
    connected.query("hub", "select relaybox.subscribe('billing', 'flights')")
    connected.cut_small_segments()
    connected.send_many(15)
    connected.transfer_all()
    connected.settle_all()
    with pytest.raises(AirflowSkipException, match="dry run: nothing is detached"):
        execute(task, try_number=1, store="every store", dry_run=True)
    with pytest.raises(AirflowSkipException, match="store hub was not chosen in the form"):
        execute(task, try_number=1, store="airline", dry_run=False)
    sink = webhook(connected, "http://127.0.0.1:1/")
    awaiting = build_retention_dag(connected.routes)["relaybox_retention"].get_task("detach_hub")
    with pytest.raises(AirflowSkipException, match="store hub: no segment to detach"):
        execute(awaiting, try_number=1, store="hub", dry_run=False)
    connected.query("hub", "select relaybox.subscribe(%s, 'flights')", sink.subscription)
    assert not spark_submit.was_called
    execute(task, try_number=1, store="every store", dry_run=False)
    assert spark_submit.arguments[-4:-1] == ["--store", "hub", "--recorded-by"]


def report(world: World, line: dict[str, Any] | None) -> str:
    """Of a run whose only verification gave this line."""
    task = build_verify_dag(world.routes)["relaybox_verify"].get_task("report")
    context = {
        "ti": SimpleNamespace(xcom_pull=lambda *, task_ids: {"verification.flights": line}[task_ids]),
        "params": {"route": "flights"},
    }
    return str(task.execute(context))


def test_a_route_may_do_without_spark(connected: World, spark_submit: SparkSubmit) -> None:
    """`runner: threads`: however much waits."""
    connected.send_many(11)
    transfer(connected, replace(few_rows_for_spark(connected), runner="threads"))
    assert not spark_submit.was_called
    assert len(connected.payloads()) == 11


SLOW_DRIVER = """\
#!/bin/sh
exec "$PYSPARK_PYTHON" -c "
from relaybox.stores.sessions.connections import connect
with connect('airline', application_name='slow driver').cursor() as cursor: cursor.execute('select pg_sleep(600)')
"
"""


@pytest.mark.parametrize("work", ["transfer", "verification"])
def test_a_time_limit_ends_the_driver_and_its_statement(connected: World, spark_submit: SparkSubmit, work: str) -> None:
    """As Airflow does it: the task is interrupted, then asked to end what it started. The server ends what nobody waits for."""
    program = Path(os.environ["PATH"].split(os.pathsep)[0]) / "spark-submit"
    program.write_text(SLOW_DRIVER)
    connected.change_route(runner="spark")
    connected.send("one")
    operator = transfer_task(connected, connected.first_hop) if work == "transfer" else verification_task(connected)
    running = "select count(*) from pg_stat_activity where application_name = 'slow driver' and state = 'active'"
    with interrupted_once(lambda: connected.value("airline", running) == 1), pytest.raises(AirflowTaskTimeout):
        execute(operator, try_number=1, route="flights")
    operator.on_kill()
    wait_until(lambda: connected.value("airline", running) == 0, "the statement is ended", deadline_seconds=15)


def test_a_time_limit_does_not_wait_for_the_slices_of_threads(connected: World, spark_submit: SparkSubmit) -> None:
    """A slice that waits for a lock would outlive the limit; here its session ends when the lock does, in a task with the process."""
    connected.send("one")
    waiting = "select count(*) from pg_stat_activity where application_name like %s and wait_event_type = 'Lock'"
    with connected.session("hub") as blocker, blocker.cursor() as cursor:
        connected.query(
            "hub", "select relaybox_internal.ensure_log_segments(log_id, 1) from relaybox_internal.hop_in where hop = 'flights/1'"
        )
        cursor.execute("lock table relaybox_internal.receipt in exclusive mode")
        with (
            interrupted_once(lambda: connected.value("hub", waiting, "relaybox flights/1 b1%") == 1),
            pytest.raises(AirflowTaskTimeout),
        ):
            execute(transfer_task(connected, connected.first_hop), try_number=1)
        assert connected.value("hub", waiting, "relaybox flights/1 b1%") == 1  # it still waits, and nobody waits for it
        blocker.rollback()
    connected.transfer()
    assert connected.payloads() == ["one"]


def test_a_time_limit_cancels_the_statements_of_a_verification(
    connected: World, spark_submit: SparkSubmit, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its statements end with the limit, and do not wait for a lock as long as they would."""
    monkeypatch.setattr("relaybox.stores.sessions.settings.LOCK_TIMEOUT_SECONDS", 60)
    connected.send("one")
    connected.transfer_all()
    sessions = "select count(*) from pg_stat_activity where application_name = 'relaybox flights verify'"
    with connected.session("hub") as blocker, blocker.cursor() as cursor:
        cursor.execute("lock table relaybox_internal.log in access exclusive mode")
        waiting = f"{sessions} and wait_event_type = 'Lock'"
        started = time.monotonic()
        with interrupted_once(lambda: connected.value("hub", waiting) == 1), pytest.raises(AirflowTaskTimeout):
            execute(verification_task(connected), try_number=1, route="flights")
        assert time.monotonic() - started < patience(45)
        wait_until(lambda: connected.value("hub", sessions) == 0, "the verification's session is gone, and the lock is not")


@contextmanager
def interrupted_once(condition: Callable[[], bool]) -> Iterator[None]:
    """Raises Airflow's AirflowTaskTimeout in this thread when the condition holds, by a signal as Airflow does."""

    def interrupt(*_: object) -> None:
        raise AirflowTaskTimeout

    def watch() -> None:
        wait_until(condition, "the moment to interrupt")
        os.kill(os.getpid(), signal.SIGALRM)

    before = signal.signal(signal.SIGALRM, interrupt)
    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield
    finally:
        watcher.join()
        signal.signal(signal.SIGALRM, before)


def few_rows_for_spark(world: World) -> Hop:
    """The first hop, of a route whose runner is auto, with Spark for ten rows and more."""
    return replace(world.first_hop, limits=replace(world.first_hop.limits, spark_from_rows=10))


def leave_a_planned_batch(world: World) -> None:
    with pytest.raises(BatchTooLarge):
        transfer_hop(world.first_hop, ThreadRunner(below_rows=1), recorded_by="somebody")


def test_the_look_at_a_store_learns_topics_that_were_subscribed_to(connected: World) -> None:
    """An idle route has no transfer and no confirmation that would carry them up;"""
    connected.change_route(topics_by_subscription=True)
    connected.query("analytics", "select relaybox.subscribe('billing', 'invoices')")
    for store in ("hub", "airline"):
        execute(parse_dag(connected, "relaybox_watch").get_task(f"look_at_{store}"), try_number=1)
    assert connected.value("airline", "select topics from relaybox_internal.hop_out where hop = 'flights/1'") == [
        "flights",
        "invoices",
    ]


def test_a_destination_whose_topics_cannot_be_read_stops_no_hop(
    connected: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Its connection is gone, or it is another database than before: an idle look fails, one that has work triggers it."""
    connected.change_route(topics_by_subscription=True)
    look = parse_dag(connected, "relaybox_watch").get_task("look_at_airline")
    monkeypatch.delenv("AIRFLOW_CONN_RELAYBOX_HUB")
    with pytest.raises(CredentialsUnavailable, match="relaybox_hub"):
        execute(look, try_number=1)
    connected.send("one")
    assert execute(look, try_number=1)[0]["waiting"] == ["flights/1"]
    assert 'look_incomplete store=airline activity="carrying the topics of hop flights/1"' in caplog.text


def test_a_topic_that_the_store_does_not_move_yet_is_a_warning_in_the_tasks_logs(
    connected: World, caplog: pytest.LogCaptureFixture
) -> None:
    """Of the transfer, and of the look, which runs also while the hop has nothing else to move."""
    routes_file(connected.path.parent, route={"topics": ["flights", "refunds"]})
    connected.send("waits", topic="refunds")

    def warnings() -> list[str]:
        told = [record.getMessage() for record in caplog.records if record.levelname == "WARNING" and record.name == "relaybox"]
        caplog.clear()
        return told

    says = "relaybox.yaml gives it topic refunds, which store airline does not move yet: what is sent there waits. Run: relaybox init"
    execute(parse_dag(connected, "relaybox_watch").get_task("look_at_airline"), try_number=1)
    (told,) = warnings()
    assert told == f'topics_unknown hop=flights/1 warning="hop flights/1: {says}"'
    execute(parse_dag(connected, "relaybox_watch").get_task("look_at_hub"), try_number=1)
    assert warnings() == []
    connected.send("moved")
    transfer(connected, connected.first_hop)
    assert warnings() == [told]


def test_the_watch_of_a_store_triggers_idle_hops(connected: World) -> None:
    """Work that nobody drives, messages that are not settled; and nothing, once all of it is done."""

    def look(store: str) -> tuple[dict[str, Any], list[str]]:
        task = parse_dag(connected, "relaybox_watch").get_task(f"look_at_{store}")
        triggered, events = execute(task, try_number=1)
        return triggered, [event.dest_asset_key.name for event in events[task.alias].asset_alias_events]

    assert look("airline") == ({"waiting": [], "unsettled": [], "late": {}}, [])
    connected.send("one")
    assert look("airline") == ({"waiting": ["flights/1"], "unsettled": [], "late": {}}, ["relaybox/flights/1/work"])
    with closing(open_store(connected.first_hop.source, application_name="relaybox flights/1 driver")):
        assert look("airline")[0]["waiting"] == []
    connected.transfer_all()
    assert look("airline") == ({"waiting": [], "unsettled": ["flights/1"], "late": {}}, ["relaybox/flights/2/settled"])
    assert look("hub") == ({"waiting": [], "unsettled": ["flights/2"], "late": {}}, ["relaybox/flights/2/log"])
    connected.settle_all()
    assert [look(store)[1] for store in ("airline", "hub")] == [[], []]


def test_a_store_that_sleeps_is_looked_at_as_often_as_the_file_says(connected: World) -> None:
    """A scheduled run between its times opens no session and is skipped; a run that a person starts looks at once."""
    document = yaml.safe_load(connected.path.read_text())
    document["stores"]["airline"] = {"watch": {"max_interval_seconds": 600, "listen": False}}
    connected.path.write_text(yaml.safe_dump(document))
    connected.send("one")
    look = parse_dag(connected, "relaybox_watch").get_task("look_at_airline")
    found = {"waiting": ["flights/1"], "unsettled": [], "late": {}}
    assert execute(look, try_number=1, dag_run=run_at("scheduled", 0))[0] == found
    with pytest.raises(AirflowSkipException, match=r"Store airline is looked at every 600 s, and not in this run\."):
        execute(look, try_number=1, dag_run=run_at("scheduled", 5), previous=MIDNIGHT)
    assert execute(look, try_number=1, dag_run=run_at("scheduled", 10), previous=MIDNIGHT)[0] == found
    assert execute(look, try_number=1, dag_run=run_at("manual", 5), previous=MIDNIGHT)[0] == found


def test_a_destination_that_sleeps_is_asked_for_topics_as_often_as_the_file_says(connected: World) -> None:
    """The look at the source, each five minutes, would wake it."""
    connected.change_route(topics_by_subscription=True)
    document = yaml.safe_load(connected.path.read_text())
    document["stores"]["hub"] = {"watch": {"max_interval_seconds": 600, "listen": False}}
    connected.path.write_text(yaml.safe_dump(document))
    look = parse_dag(connected, "relaybox_watch").get_task("look_at_airline")

    def topics() -> list[str]:
        return connected.value("airline", "select topics from relaybox_internal.hop_out where hop = 'flights/1'")

    connected.query("hub", "select relaybox.subscribe('billing', 'invoices')")
    execute(look, try_number=1, dag_run=run_at("scheduled", 5), previous=MIDNIGHT)
    assert topics() == ["flights"]
    execute(look, try_number=1, dag_run=run_at("scheduled", 10), previous=MIDNIGHT)
    assert topics() == ["flights", "invoices"]


MIDNIGHT = datetime(2026, 1, 1, tzinfo=UTC)


def run_at(run_type: str, minutes: int) -> SimpleNamespace:
    """A run of the watch DAG, this long after midnight."""
    return SimpleNamespace(run_type=run_type, logical_date=MIDNIGHT + timedelta(minutes=minutes))


def test_a_store_that_is_down_hides_no_other_store(connected: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The look at it fails, to be retried; the look at the other one does not ask it."""
    change_connection(monkeypatch, "RELAYBOX_AIRLINE", port=find_free_port())
    dag = parse_dag(connected, "relaybox_watch")
    with pytest.raises(StoreUnreachable):
        execute(dag.get_task("look_at_airline"), try_number=1)
    assert execute(dag.get_task("look_at_hub"), try_number=1)[0] == {"waiting": [], "unsettled": [], "late": {}}


def parse_dag(world: World, dag_id: str) -> DAG:
    return build_watch_dag(world.routes)[dag_id]


def test_g7_the_confirm_tasks_settle_from_the_end_to_the_origin(connected: World) -> None:
    """Hop 1 is settled once hop 2 is, and never before."""
    connected.send("one", "two", "three")
    connected.transfer_all()
    assert settle(connected, connected.first_hop)[0] == {"through_position": 0, "newly_settled": 0}
    assert settle(connected, connected.second_hop)[0] == {"through_position": 3, "newly_settled": 3}
    numbers, events = settle(connected, connected.first_hop)
    assert numbers == {"through_position": 3, "newly_settled": 3}
    assert events[settled_asset(connected.first_hop)].extra == numbers
    assert (
        connected.value("airline", "select min(recorded_by) from relaybox_internal.confirmation where state = 'settled'")
        == "a_dag a_run"
    )
