"""`relaybox bench page`: how long Airflow's own endpoints take beside people who look at the page, whatever a store does.

A real API server over clusters of its own. One of the two stores is healthy, silent (accepts and never answers), slow, frozen
(SIGSTOP) or dead. Beside each, a number of requests to the page are open all the time; meanwhile version, health and the start of a task
are asked for one after the other.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from http.client import HTTPConnection
from pathlib import Path
from statistics import median
from typing import Any

import psycopg2
from rich.console import Console
from rich.table import Table

from relaybox import errors
from relaybox.local.airflow_standalone import AirflowStandalone
from relaybox.local.bench.environment import describe_environment
from relaybox.local.bench.report import write_json
from relaybox.local.bench.stores import DESTINATION, SOURCE, BenchStores, bench_directory, open_bench_stores
from relaybox.local.bench.unwell_link import UnwellLink
from relaybox.local.checkout import find_checkout
from relaybox.local.clusters import Cluster, create_cluster
from relaybox.local.processes import descendants, send_signal

MANNERS = ("healthy", "silent", "slow", "frozen", "dead")
ENDPOINTS = ("version", "health", "start of a task")
DAG = "relaybox_transfer__r1_1"
START_SECONDS = 300.0
ANSWER_SECONDS = 120.0
SETTLE_SECONDS = 3.0
"""After a store has changed, before the first sample: its first late looks are part of what is measured, its last good one is not."""


@dataclass(frozen=True)
class Beside:
    """Seconds of each sample of each endpoint, beside this many requests to the page with such a store; no requests: `manner` is None."""

    manner: str | None
    looks: int
    seconds: Mapping[str, Sequence[float]]
    answers: Mapping[str, int]

    def median(self, endpoint: str) -> float:
        return median(self.seconds[endpoint])


@dataclass(frozen=True)
class PageReport:
    """One run: `alone` was measured before and after, and between the others."""

    alone: Beside
    beside: tuple[Beside, ...]
    environment: Mapping[str, Any]

    def ratio(self, one: Beside, endpoint: str) -> float:
        return one.median(endpoint) / self.alone.median(endpoint)

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def run_bench_page(
    *,
    looks: Sequence[int],
    samples: int,
    json_path: Path | None = None,
    console: Console | None = None,
) -> PageReport:
    """Makes clusters and an API server, measures, prints, writes JSON, and removes everything. Takes minutes.

    Args:
        looks: how many requests to the page are open at once, one measurement after the other.
        samples: of each endpoint, in each measurement.
        json_path: gets every raw value.
        console: prints progress and results there.

    Raises:
        StackFailed: Airflow did not start, or did not answer at all.
    """
    console = console or Console()
    with bench_directory(console) as directory, ExitStack() as stack:
        stores = stack.enter_context(open_bench_stores(directory, {}))
        stores.write_routes({"r1": {"topics": ["r1"]}})
        cluster = stores.clusters[DESTINATION]
        link = stack.enter_context(UnwellLink(cluster.host, cluster.port))
        server = _ApiServer(directory, stores, link, stack)
        alone: list[Beside] = []
        beside: list[Beside] = []
        for manner in MANNERS:
            for count in looks:
                alone.append(Beside(None, 0, server.measure(samples), {}))
                with _unwell(link, stores.clusters[DESTINATION], manner), server.looked_at(count) as answers:
                    time.sleep(SETTLE_SECONDS)
                    seconds = server.measure(samples)
                beside.append(Beside(manner, count, seconds, answers))
                shown = (
                    f"{name} {beside[-1].median(name) * 1000:.0f} ms ({alone[-1].median(name) * 1000:.0f})" for name in ENDPOINTS
                )
                console.print(
                    f"{manner} store, {count} requests to the page at once; in brackets without: {', '.join(shown)}; page: {answers}"
                )
        whole = {name: [second for one in alone for second in one.seconds[name]] for name in ENDPOINTS}
        report = PageReport(Beside(None, 0, whole, {}), tuple(beside), describe_environment(stores))
    print_report(report, console)
    write_json(report.as_json(), json_path)
    return report


@contextmanager
def _unwell(link: UnwellLink, cluster: Cluster, manner: str) -> Iterator[None]:
    stopped = [cluster.pid, *descendants(cluster.pid)] if manner == "frozen" and cluster.pid is not None else []
    if not stopped:
        link.change(manner)  # type: ignore[arg-type]  # of MANNERS, and not frozen
    for pid in stopped:
        send_signal(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in stopped:
            send_signal(pid, signal.SIGCONT)
        link.change("healthy")


class _ApiServer:
    """`airflow api-server` with one queued task instance, and nothing else of Airflow."""

    def __init__(self, directory: Path, stores: BenchStores, link: UnwellLink, stack: ExitStack) -> None:
        self._secret = secrets.token_hex(32)
        self._metadata = create_cluster("airflow", directory / "metadata", settings={"fsync": "off", "shared_buffers": "64MB"})
        stack.callback(self._metadata.remove)
        self._metadata.start()
        ports = {SOURCE: stores.clusters[SOURCE].port, DESTINATION: link.port}
        self._airflow = AirflowStandalone(
            home=directory / "airflow",
            metadata_url="postgresql+psycopg2://{user}:{password}@{host}:{port}/{dbname}".format(**self._metadata.parameters()),
            dags=find_checkout() / "dags",
            plugins=find_checkout() / "plugins",
            connections={f"relaybox_{store}": _connection(stores.clusters[store], port) for store, port in ports.items()},
            environment={"RELAYBOX_CONFIG": str(directory / "relaybox.yaml"), "AIRFLOW__API_AUTH__JWT_SECRET": self._secret},
            command_line=("api-server",),
        )
        self._airflow.home.mkdir()
        self._airflow.command("db", "migrate")
        self._airflow.command("dags", "reserialize")
        stack.enter_context(self._airflow)
        self._wait_until_it_answers()
        self._airflow.client.trigger_dag(DAG)
        ((self._task_id,),) = self._query("select id::text from task_instance where dag_id = %s and task_id = 'transfer'", DAG)

    @contextmanager
    def looked_at(self, count: int) -> Iterator[dict[str, int]]:
        """Holds this many requests to the page open; the dictionary gets how often which status was answered, at the end."""
        answers: dict[str, int] = {}
        arguments = [str(self._airflow.ports.api), str(count), self._airflow.client.token]
        with subprocess.Popen(
            [sys.executable, "-m", "relaybox.local.bench.lookers", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as lookers:
            yield answers
            said, _ = lookers.communicate(timeout=ANSWER_SECONDS)
            answers.update(json.loads(said))

    def measure(self, samples: int) -> dict[str, list[float]]:
        """Seconds of each sample of each endpoint, in turn."""
        seconds: dict[str, list[float]] = {name: [] for name in ENDPOINTS}
        for _ in range(samples):
            seconds["version"].append(self._time("GET", "/api/v2/version"))
            seconds["health"].append(self._time("GET", "/api/v2/monitor/health"))
            self._query("update task_instance set state = 'queued' where id = %s::uuid returning 1", self._task_id)
            seconds["start of a task"].append(self._start_task())
        return seconds

    def _start_task(self) -> float:
        started = {
            "state": "running",
            "hostname": "bench",
            "unixname": "bench",
            "pid": 1,
            "start_date": datetime.now(UTC).isoformat(),
        }
        headers = {"Authorization": f"Bearer {_task_token(self._task_id, self._secret)}", "Content-Type": "application/json"}
        return self._time("PATCH", f"/execution/task-instances/{self._task_id}/run", json.dumps(started), headers)

    def _time(self, method: str, path: str, body: str | None = None, headers: Mapping[str, str] | None = None) -> float:
        started = time.monotonic()
        with closing(HTTPConnection("127.0.0.1", self._airflow.ports.api, timeout=ANSWER_SECONDS)) as connection:
            connection.request(method, path, body, dict(headers or {}))
            answer = connection.getresponse()
            content = answer.read()
        if answer.status != 200:
            raise errors.StackFailed(
                f"Airflow answered {answer.status} to {method} {path}: {content[:500].decode(errors='replace')}"
            )
        return time.monotonic() - started

    def _query(self, statement: str, *arguments: str) -> list[tuple[Any, ...]]:
        parameters: dict[str, Any] = {**self._metadata.parameters()}
        with closing(psycopg2.connect(**parameters)) as session, session, session.cursor() as cursor:
            cursor.execute(statement, arguments)
            return list(cursor.fetchall())

    def _wait_until_it_answers(self) -> None:
        _wait(self._answers, "Airflow's API server answers")

    def _answers(self) -> bool:
        try:
            self._airflow.client.get("version")
        except errors.StackFailed:
            return False  # not yet
        return True


def _connection(cluster: Cluster, port: int) -> str:
    given = cluster.parameters()
    fields = {"conn_type": "postgres", "host": cluster.host, "port": port, "schema": given["dbname"]}
    return json.dumps({**fields, "login": given["user"], "password": given["password"]})


def _task_token(task_id: str, secret: str) -> str:
    """What Airflow's executor gives to a task, as RFC 7515 has it."""
    now = int(time.time())
    claims = {
        "sub": task_id,
        "aud": "urn:airflow.apache.org:task",
        "jti": secrets.token_hex(16),
        "nbf": now,
        "iat": now,
        "exp": now + 600,
    }
    signed = b".".join(_encode(json.dumps(part).encode()) for part in ({"alg": "HS512", "typ": "JWT", "kid": "not-used"}, claims))
    return b".".join((signed, _encode(hmac.new(secret.encode(), signed, hashlib.sha512).digest()))).decode()


def _encode(data: bytes) -> bytes:
    return base64.urlsafe_b64encode(data).rstrip(b"=")


def _wait(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + START_SECONDS
    while not condition():
        if time.monotonic() > deadline:
            raise errors.StackFailed(f"not within {START_SECONDS:g} s: {what}.")
        time.sleep(0.2)


def print_report(report: PageReport, console: Console) -> None:
    """Prints the times of Airflow's endpoints beside each kind of store."""
    table = Table(
        "state of\none store",
        "requests to the\npage at once",
        *(f"{name},\nms (ratio)" for name in ENDPOINTS),
        "answers of the page:\ncount x HTTP status",
        title="How long Airflow's own endpoints take, medians",
        caption="Ratio: to the first row, without requests to the page. Good: at most 1.5.",
    )
    table.add_row("healthy", "0", *(f"{report.alone.median(name) * 1000:.1f}" for name in ENDPOINTS), "")
    for one in report.beside:
        answers = ", ".join(f"{count} x {status}" for status, count in sorted(one.answers.items()))
        shown = (f"{one.median(name) * 1000:.1f} ({report.ratio(one, name):.2f})" for name in ENDPOINTS)
        table.add_row(one.manner, str(one.looks), *shown, answers)
    console.print(table)
