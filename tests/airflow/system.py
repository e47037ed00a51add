"""A whole Relaybox for tests: three stores behind passwords, and an Airflow that moves messages over both hops."""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self
from urllib.parse import quote

import psycopg2
import yaml

from relaybox.airflow.operators.init import OWNER_SUFFIX
from relaybox.local.airflow_client import AirflowClient
from relaybox.local.airflow_standalone import AirflowStandalone
from relaybox.local.clusters import Cluster, write_service_file
from relaybox.local.processes import descendants, spawn
from tests.airflow.conftest import REPOSITORY, connection_fields
from tests.support.patience import patience
from tests.support.world import STORES, World, routes_file, wait_until

ROUTE = {
    "runner": "spark",
    "limits": {"batch_rows": 20_000, "slice_rows": 5_000},
    "retries": {"attempts": 6, "delay_seconds": 1, "backoff": 1.0, "max_delay_seconds": 1},
}
DATABASE, METADATA, ROLE = "scheduled", "airflow_metadata", "mover"
SPARK_UI = "http://spark-history.example:18080"
ARRIVE_SECONDS = 240.0
FAILPOINT = "slice.piping"
ONLY_BY_HAND = """\
from airflow.sdk.definitions.timetables.simple import NullTimetable


def dag_policy(dag):
    if dag.dag_id in ("relaybox_verify", "relaybox_retention"):
        dag.timetable = NullTimetable()
"""
"""For Airflow's local settings: what runs once a day does not run in the middle of a test, at whatever hour that is."""


@dataclass(frozen=True)
class SparkDriver:
    """A Spark application of a task that is in the middle of copying a slice."""

    jvm: int
    processes: tuple[int, ...]
    """The JVM, its Python driver and its workers."""

    @property
    def task(self) -> int:
        """The process of the Airflow task, which started the JVM."""
        return parent(self.jvm)


@dataclass(frozen=True)
class System:
    """The stores, the Airflow over them, and the passwords that must not be seen anywhere."""

    world: World
    airflow: AirflowStandalone
    metadata: Mapping[str, str] = field(repr=False)
    passwords: tuple[str, ...] = field(repr=False)
    temporary: Path
    failpoints: Path
    schedulers: ExitStack

    @property
    def client(self) -> AirflowClient:
        return self.airflow.client

    def settled_through(self, hop: str = "flights/1") -> int:
        """The position through which a hop is settled, as the origin knows it."""
        query = (
            "select coalesce(max(through_position), 0) from relaybox_internal.confirmation where hop = %s and state = 'settled'"
        )
        return int(self.world.value("airline", query, hop))

    def wait_until_settled(self, log_position: int) -> None:
        """Waits until the origin knows that the last store has everything up to a position."""
        wait_until(
            lambda: self.settled_through() >= log_position,
            f"settled through {log_position}",
            deadline_seconds=ARRIVE_SECONDS,
            progress=self.settled_through,
        )

    def wait_until_quiet(self) -> None:
        """Waits until no run of any DAG is queued or running."""

        def is_quiet() -> bool:
            return not any(
                self.client.get("dags/~/dagRuns", state=state, limit=1)["total_entries"] for state in ("running", "queued")
            )

        wait_until(is_quiet, "no run is left", deadline_seconds=ARRIVE_SECONDS, poll_seconds=0.5)

    @contextmanager
    def held(self, failpoint: str = FAILPOINT) -> Iterator[None]:
        """Meanwhile every driver waits where it reaches the failpoint: in the middle of its first slices, by default."""
        released = self.failpoints / f"{failpoint}.go"
        released.unlink()
        try:
            yield
        finally:
            released.touch()

    def wait_for_driver(self, hop: str, *, but: Collection[int] = ()) -> SparkDriver:
        """Waits until an application of the hop, whose JVM is none of `but`, is in the middle of a slice."""
        found: list[SparkDriver] = []

        def is_there() -> bool:
            for jvm in set(driver_jvms(hop)) - set(but):
                below = descendants(jvm)
                if set(self._held_workers()) & set(below):
                    found.append(SparkDriver(jvm, (jvm, *below)))
            return bool(found)

        wait_until(is_there, f"an application of {hop} copies a slice", deadline_seconds=ARRIVE_SECONDS)
        return found[0]

    def _held_workers(self) -> list[int]:
        try:
            lines = (self.failpoints / "hits.jsonl").read_text(encoding="utf-8").splitlines()
        except FileNotFoundError:
            return []
        return [json.loads(line)["pid"] for line in lines]

    def kill_scheduler(self) -> None:
        """SIGKILLs the scheduler and starts another one, as a supervisor of services does."""
        environment = self._kill("scheduler")
        self._start("scheduler", environment)

    def kill_triggerer(self) -> Callable[[], None]:
        """SIGKILLs the triggerer and its runner; what is returned starts another one."""
        environment = self._kill("triggerer")
        return lambda: self._start("triggerer", environment)

    def _kill(self, component: str) -> dict[str, str]:
        """Returns the environment that the component had."""
        found = [pid for pid in descendants(os.getpid()) if is_component(_read(pid, "cmdline"), component)]
        # others are forks of it, or what an earlier one left behind to end its tasks
        killed = max((pid for pid in found if parent(pid) not in found), key=_started)
        environment = dict(os.fsdecode(entry).split("=", 1) for entry in _read(killed, "environ").rstrip(b"\0").split(b"\0"))
        children = descendants(killed)
        os.kill(killed, signal.SIGKILL)
        if component == "scheduler":
            self.schedulers.callback(_kill_workers, children)
            return environment
        for pid in children:
            with suppress(ProcessLookupError):  # it ends by itself when its parent is gone
                os.kill(pid, signal.SIGKILL)
        return environment

    def _start(self, component: str, environment: Mapping[str, str]) -> None:
        airflow = Path(sys.executable).with_name("airflow")
        guard = spawn(
            [sys.executable, "-m", "relaybox.local.guard", airflow, component],
            env=environment,
            log=self.airflow.home / f"second-{component}.log",
            cwd=self.airflow.home,
            death_signal=signal.SIGTERM,
        )
        self.schedulers.callback(_end, guard)

    def runs(self, dag_id: str = "~") -> list[dict[str, Any]]:
        return list(self.client.get(f"dags/{dag_id}/dagRuns", limit=500, order_by="run_after")["dag_runs"])

    def task_instances(self, dag_id: str = "~", run_id: str = "~") -> list[dict[str, Any]]:
        path = f"dags/{dag_id}/dagRuns/{quote(run_id, safe='~')}/taskInstances"
        return list(self.client.get(path, limit=500)["task_instances"])

    def variables(self) -> list[str]:
        return [variable["key"] for variable in self.client.get("variables")["variables"]]

    def import_errors(self) -> dict[str, str]:
        """The error of each DAG file that has one."""
        return {error["filename"]: error["stack_trace"] for error in self.client.get("importErrors")["import_errors"]}

    def asset_events(self) -> list[dict[str, Any]]:
        return list(self.client.get("assets/events", limit=500, order_by="timestamp")["asset_events"])

    def task_log(self, task: Mapping[str, Any], try_number: int) -> str:
        """The lines of one attempt, as the UI shows them."""
        path = f"dags/{task['dag_id']}/dagRuns/{quote(task['dag_run_id'])}/taskInstances/{task['task_id']}/logs/{try_number}"
        content = self.client.get(path, full_content=True, map_index=-1)["content"]
        return "\n".join(line for entry in content for line in _lines_of(entry))

    def account_of(self, dag_id: str, run_id: str) -> str:
        """What Airflow recorded of a run: its tasks, the events of each, and the logs of what failed."""
        lines = []
        for task in self.task_instances(dag_id, run_id):
            lines.append(f"{task['task_id']}: {task['state']} in attempt {task['try_number']}")
            events = self.client.get("eventLogs", dag_id=dag_id, run_id=run_id, task_id=task["task_id"])["event_logs"]
            lines += [f"  {event['when']} {event['event']}: {event['extra']}" for event in events]
            if task["state"] not in ("success", "skipped"):
                lines.append(self.task_log(task, task["try_number"]))
        return "\n".join(lines)


def _lines_of(entry: Mapping[str, Any] | str) -> list[str]:
    """An entry of a log, with the exceptions that it tells of."""
    if isinstance(entry, str):
        return [entry]
    raised = entry.get("error_detail") or []
    return [entry["event"], *(f"{error['exc_type']}: {error['exc_value']}" for error in raised)]


@contextmanager
def running_system(
    clusters: Mapping[str, Cluster],
    directory: Path,
    *,
    route: Mapping[str, object] = ROUTE,
    more_routes: Mapping[str, object] = MappingProxyType({}),
    exports: Mapping[str, object] = MappingProxyType({}),
    webhooks: Mapping[str, object] = MappingProxyType({}),
    pauses: Collection[str] = (FAILPOINT,),
    prepare: Callable[[World], object] = lambda world: None,
    environment: Mapping[str, str] = MappingProxyType({}),
    dags: Path = REPOSITORY / "dags",
    owners: bool = False,
) -> Iterator[System]:
    """Stores and Airflow, made now and gone afterwards. This process reaches the stores by PGSERVICEFILE; Airflow may not.

    `pauses`: the failpoints at which `held` may stop a driver. `prepare`: done to the stores while Airflow starts. `environment`: more
    of Airflow's. `dags`: its DAG files; ours by default. `owners`: Airflow has the connections of the stores' owners too.
    """
    passwords = {store: f"canary-{secrets.token_hex(12)}" for store in STORES}
    stores = {store: _make_store(clusters[store], passwords[store]) for store in STORES}
    metadata = clusters["hub"].parameters(METADATA)
    _administer(clusters["hub"], f"create database {METADATA}")
    # a scheduler that is killed leaves its session, and its locks, open in the workers that it had forked
    _administer(clusters["hub"], f"alter database {METADATA} set idle_in_transaction_session_timeout = '20s'")
    service_file, temporary, failpoints = directory / "services.conf", directory / "tmp", directory / "failpoints"
    temporary.mkdir()
    failpoints.mkdir()
    for failpoint in pauses:
        (failpoints / f"{failpoint}.go").touch()
    write_service_file(service_file, stores)
    path = routes_file(directory, route=route, more_routes=more_routes)
    if exports or webhooks:
        more = {"exports": dict(exports), "webhooks": dict(webhooks)}
        path.write_text(yaml.safe_dump(yaml.safe_load(path.read_text(encoding="utf-8")) | more), encoding="utf-8")
    os.environ["PGSERVICEFILE"] = str(service_file)
    try:
        world = World(path)
        world.initialise()
        airflow = AirflowStandalone(
            home=directory / "airflow",
            metadata_url="postgresql+psycopg2://{user}:{password}@{host}:{port}/{dbname}".format(**metadata),
            dags=dags,
            plugins=REPOSITORY / "plugins",
            connections={
                **{
                    f"relaybox_{store}{suffix}": json.dumps(connection_fields(parameters))
                    for store, parameters in stores.items()
                    for suffix in ("", *([OWNER_SUFFIX] if owners else []))
                },
                "spark_default": json.dumps({"conn_type": "spark", "host": "local[2]"}),
            },
            environment={
                "RELAYBOX_CONFIG": str(path),
                "PGSERVICEFILE": "/nowhere/at/all",
                "TMPDIR": str(temporary),
                "RELAYBOX_ENVIRONMENT": "test",
                "RELAYBOX_FAILPOINTS": ", ".join(f"{failpoint}=pause" for failpoint in pauses),
                "RELAYBOX_FAILPOINTS_DIRECTORY": str(failpoints),
                "RELAYBOX_SPARK_UI": SPARK_UI,
                **environment,
            },
        )
        _write_local_settings(airflow.home)
        with airflow, ExitStack() as schedulers:
            prepare(world)
            airflow.wait_until_healthy(deadline_seconds=patience(ARRIVE_SECONDS))
            yield System(world, airflow, metadata, tuple(passwords.values()), temporary, failpoints, schedulers)
    finally:
        del os.environ["PGSERVICEFILE"]
        _drop(clusters)


def _write_local_settings(home: Path) -> None:
    settings = home / "config" / "airflow_local_settings.py"
    settings.parent.mkdir(parents=True)
    settings.write_text(ONLY_BY_HAND, encoding="utf-8")


def _make_store(cluster: Cluster, password: str) -> dict[str, str]:
    _administer(cluster, f"create role {ROLE} superuser login password '{password}'")
    _administer(cluster, f"create database {DATABASE}")
    return {**cluster.parameters(DATABASE), "user": ROLE, "password": password}


def _drop(clusters: Mapping[str, Cluster]) -> None:
    _administer(clusters["hub"], f"drop database {METADATA} with (force)")
    for store in STORES:
        _administer(clusters[store], f"drop database {DATABASE} with (force)")
        _administer(clusters[store], f"drop role {ROLE}")


def _administer(cluster: Cluster, statement: str) -> None:
    with closing(psycopg2.connect(**cluster.parameters())) as connection:
        connection.autocommit = True
        with connection.cursor() as cursor:
            cursor.execute(statement)


def _kill_workers(forked: Collection[int]) -> None:
    """What a killed scheduler leaves behind: its workers wait for ever."""
    for pid in forked:
        if _read(pid, "cmdline").startswith(b"airflow worker"):
            os.kill(pid, signal.SIGKILL)


def _end(guard: subprocess.Popen[bytes]) -> None:
    guard.terminate()
    guard.wait()


class ProcessSampler:
    """Notes the command line of every process of the machine, and the environment of Spark drivers, twenty times a second.

    A process gets its own command line soon after it began; later ones are looked at once a second, or the looks cost half a core.
    """

    PERIOD_SECONDS = 0.05
    YOUNG_SECONDS, OLD_PERIOD_SECONDS = 10.0, 1.0

    def __init__(self) -> None:
        self._command_lines: set[bytes] = set()
        self._driver_environments: set[bytes] = set()
        self._first_seen: dict[int, float] = {}
        self._all_seen_at = 0.0
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="process sampler", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def command_lines(self) -> list[bytes]:
        """Every command line seen so far."""
        with self._lock:
            return list(self._command_lines)

    def driver_environments(self) -> list[bytes]:
        """Every environment of a Spark driver seen so far."""
        with self._lock:
            return list(self._driver_environments)

    def _run(self) -> None:
        while not self._ended.wait(self.PERIOD_SECONDS):
            seen = dict(command_lines(self._due()))
            environments = {_read(pid, "environ") for pid, command_line in seen.items() if is_driver(command_line)}
            with self._lock:
                self._command_lines.update(seen.values())
                self._driver_environments.update(environments)

    def _due(self) -> list[int]:
        """The young processes; all of them once a second."""
        now, present = time.monotonic(), process_ids()
        self._first_seen = {pid: self._first_seen.get(pid, now) for pid in present}
        if now - self._all_seen_at >= self.OLD_PERIOD_SECONDS:
            self._all_seen_at = now
            return present
        return [pid for pid in present if now - self._first_seen[pid] < self.YOUNG_SECONDS]


def process_ids() -> list[int]:
    """Of every process of the machine."""
    return [int(entry.name) for entry in os.scandir("/proc") if entry.name.isdigit()]


def command_lines(processes: Iterable[int] | None = None) -> Iterator[tuple[int, bytes]]:
    """The process id and the command line of these processes; by default of every one of the machine."""
    for pid in process_ids() if processes is None else processes:
        if command_line := _read(pid, "cmdline"):
            yield pid, command_line


def is_driver(command_line: bytes, hop: str = "") -> bool:
    """Whether a process is a Spark driver, the JVM or its Python: a transfer of that hop, or any of ours."""
    arguments = command_line.split(b"\0")
    applications = (b"spark_apps/transfer.py", b"spark_apps/verify.py", b"spark_apps/derive.py", b"spark_apps/export.py")
    return any(argument.endswith(applications) for argument in arguments) and (not hop or hop.encode() in arguments)


def driver_jvms(hop: str) -> list[int]:
    """The JVMs that spark-submit became for a hop; not the scripts and the launcher, which carry its arguments before."""
    return [pid for pid, command_line in command_lines() if is_driver(command_line, hop) and _runs_spark_submit(command_line)]


def _runs_spark_submit(command_line: bytes) -> bool:
    program, *arguments = command_line.split(b"\0")
    launcher = b"org.apache.spark.launcher.Main"
    return program.endswith(b"java") and b"org.apache.spark.deploy.SparkSubmit" in arguments and launcher not in arguments


def is_component(command_line: bytes, component: str) -> bool:
    """Whether a process is `airflow scheduler` or another component, or a fork of it that has not changed its title."""
    arguments = command_line.rstrip(b"\0").split(b"\0")
    return arguments[-1] == component.encode() and arguments[-2:-1] != [] and arguments[-2].endswith(b"airflow")


def parent(pid: int) -> int:
    """The parent of a living process."""
    return int(_read(pid, "stat").rpartition(b")")[2].split()[1])


def _started(pid: int) -> int:
    """When a process began, in ticks since the machine did."""
    return int(_read(pid, "stat").rpartition(b")")[2].split()[19])


def _read(pid: int, name: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return b""  # it ended, or belongs to another user
