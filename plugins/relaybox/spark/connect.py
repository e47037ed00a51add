"""A Spark Connect server that is warm already: its tasks start in a fraction of a second, and no JVM starts here.

The server's Python has Relaybox installed, and its environment names the service file of the stores (PGSERVICEFILE): no
password travels there.

The server goes on with the work of a client that vanishes. So each try of an Airflow task has a session with an id of its own, which
the next try can name: it ends that session before it begins. A task that is told to end ends its session itself.
"""

from __future__ import annotations

import pickle
import re
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa  # type: ignore[import-untyped]
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql.connect.client import DefaultChannelBuilder
from pyspark.sql.connect.client.retries import DefaultPolicy, RetryPolicyState
from pyspark.sql.connect.session import SparkSession

from relaybox.errors import ConfigurationError, SparkFailed
from relaybox.log_events import emit, warn
from relaybox.spark.failures import SPARK_ERRORS, failure_line

if TYPE_CHECKING:
    from pyarrow import RecordBatch

SERVER_PATIENCE_SECONDS = 60.0
"""A server that does not answer for this time has failed: the task ends, and Airflow tries it again."""

LOGGED_EVERY_SECONDS = 10.0
END_SECONDS = 4.0
"""How long a task that is told to end waits for the server: Airflow kills it after five seconds."""

EARLIER_TRIES = 5
"""The sessions of so many tries before this one are ended; those before them were ended by these."""

LOST_WORK_SETTING = "spark.connect.execute.manager.detachedTimeout"
LOST_WORK_SECONDS = 30.0
"""A server should keep work whose client vanished no longer than this."""

_CHANNEL_OPTIONS = [("grpc.initial_reconnect_backoff_ms", 500), ("grpc.max_reconnect_backoff_ms", 2_000)]
"""A server that is back is found within seconds: by default a channel may wait two minutes before it looks again."""

_DEFAULT_LOST_WORK = "5m"
_CLOSED = "SESSION_CLOSED"
_MANY_SESSIONS = 100
_RELEASE_PAUSES = (0.2, 0.5, 1.0)


@dataclass(frozen=True)
class TaskTry:
    """One try of an Airflow task; `number` counts from 1."""

    dag_id: str
    run_id: str
    task_id: str
    number: int

    @property
    def tag(self) -> str:
        """Of its operations on the server, where Spark shows them."""
        return f"relaybox {self.dag_id} {self.run_id} {self.task_id} try {self.number}".replace(",", " ")

    def session_id(self, ordinal: int) -> str:
        """Ordinal 0, unless the same try has had a session before."""
        return str(uuid.uuid5(uuid.NAMESPACE_OID, f"{self.tag} session {ordinal}"))


class _Patience(DefaultPolicy):
    """Asks a silent server again for a minute, and says so; a server that answers sets the clock back.

    Attributes:
        server: host and port, for the log.
        is_over: nothing is tried again: the task is told to end.
    """

    def __init__(self, server: str) -> None:
        super().__init__(max_retries=None, initial_backoff=200, backoff_multiplier=2.0, max_backoff=5_000)
        self.server = server
        self.is_over = threading.Event()
        self._since: float | None = None
        self._logged = 0.0

    def to_state(self) -> RetryPolicyState:
        """Called once per call to the server: the server has answered the one before."""
        self._since = None
        return super().to_state()

    def can_retry(self, exception: BaseException) -> bool:
        if self.is_over.is_set() or not super().can_retry(exception):
            return False
        now = time.monotonic()
        if self._since is None:
            self._since = self._logged = now
        if now - self._logged >= LOGGED_EVERY_SECONDS:
            self._logged = now
            silent = round(now - self._since)
            warn(
                "spark_server_silent", server=self.server, seconds=silent, at_most=SERVER_PATIENCE_SECONDS, error=_code(exception)
            )
        return now - self._since < SERVER_PATIENCE_SECONDS


class ConnectSession:
    """Runs tasks on the server behind a session of the caller's.

    Args:
        session: on the server.
        tag: of all operations of the session.
        patience: of its calls.
    """

    def __init__(self, session: SparkSession, *, tag: str, patience: _Patience) -> None:
        self.dataframes: Any = session
        self._session, self._tag, self._patience = session, tag, patience
        self.application: str = session.conf.get("spark.app.id") or ""

    @property
    def cores(self) -> None:
        """The server tells nobody."""

    def collect(self, description: str, items: Sequence[Any], task: Callable[[Any], Any]) -> list[Any]:
        """Items and task travel with the plan; a partition per item, and no shuffle between."""

        def run(batches: Iterator[RecordBatch]) -> Iterator[RecordBatch]:
            for batch in batches:
                for number in batch.column("id").to_pylist():
                    yield pa.RecordBatch.from_pydict({"id": [number], "report": [pickle.dumps(task(items[number]))]})

        with self.described(description):
            numbers = self._session.range(0, len(items), 1, len(items))
            rows = numbers.mapInArrow(run, "id long, report binary").collect()
        return [pickle.loads(row.report) for row in sorted(rows, key=lambda row: row.id)]  # noqa: S301  what `run` has pickled

    @contextmanager
    def described(self, description: str) -> Iterator[None]:
        """Operations of the block have the tag of the try, and the description as a tag: a session has no other word for them."""
        if self._patience.is_over.is_set():
            raise SparkFailed("Spark Connect: the task is told to end, so nothing more is begun.")
        tags = (self._tag, description.replace(",", " "))
        for tag in tags:
            self._session.addTag(tag)
        try:
            yield
        finally:
            for tag in tags:
                self._session.removeTag(tag)

    def remove_directory(self, directory: str) -> None:
        """By the file systems of the server: it drops a database with the directory of its location, which it makes if there is none."""
        name = f"relaybox_{uuid.uuid4().hex}"
        location = directory.replace("\\", "\\\\").replace("'", "\\'")
        with self.described(f"removing {directory}"):
            self._session.sql(f"create database {name} location '{location}'").collect()
            self._session.sql(f"drop database {name} cascade").collect()

    def end(self) -> None:
        """Interrupts what runs on the server, and lets nothing more begin. From any thread; takes a few seconds at most."""
        self._patience.is_over.set()
        # a thread of its own: the caller may be a signal handler, above a call of the same channel
        ending = threading.Thread(target=self._end, name="relaybox-connect-end", daemon=True)
        ending.start()
        ending.join(END_SECONDS)

    def _end(self) -> None:
        interrupted = self.interrupt()
        for pause in _RELEASE_PAUSES:
            try:
                self._session.client.release_session()  # ends also what was on its way while the tag was looked for
            except PySparkException as error:  # an operation that is just being interrupted is in the way
                if _CLOSED in str(error):
                    break
                failure = failure_line(error)
                time.sleep(pause)
            else:
                break
        else:
            warn("spark_server_not_told", server=self._patience.server, error=failure)
            return
        emit("spark_work_interrupted", server=self._patience.server, operations=interrupted)

    def interrupt(self) -> str:
        """How many operations of the try were interrupted, or why that is not known: the end of their session ends them too."""
        try:
            return str(len(self._session.interruptTag(self._tag)))
        except PySparkException as error:  # of an operation that ends just now, such as STATE_TRANSITION_INVALID
            return failure_line(error)


@contextmanager
def connect_session(address: str, task_try: TaskTry, conf: Mapping[str, str]) -> Iterator[ConnectSession]:
    """A session of its own on a server, ended with the block, and with it all that runs in it. Ends those of earlier tries first.

    Args:
        address: `sc://host:port/;token=...`, as Spark writes it.
        task_try: whose session it is.
        conf: settings of the session.

    Raises:
        ConfigurationError: the server refused a setting.
        SparkFailed: the server did not answer for a minute, or failed, or lost the session; a retry may help.
    """
    server = DefaultChannelBuilder(address).endpoint
    try:
        for number in range(max(1, task_try.number - EARLIER_TRIES), task_try.number):
            _end_earlier(address, server, replace(task_try, number=number))
        session = _open(address, server, task_try)
        try:
            _warn_of_kept_work(session, server)
            for name, value in conf.items():
                _set(session, server, name, value)
            yield session
        finally:
            _close(session)
    except SPARK_ERRORS as error:
        raise SparkFailed(
            f"Spark Connect server {server}: {failure_line(error)}",
            next_step="What was copied stays. If the server is down, start it. Airflow tries the task again.",
        ) from error


def with_session(address: str, session_id: str) -> str:
    """The address of a server with the id of a session: parameters follow a path, which people leave out."""
    path = "" if "/" in address.removeprefix("sc://") else "/"
    return f"{address}{path};session_id={session_id}"


def _open(address: str, server: str, task_try: TaskTry) -> ConnectSession:
    """The first session of this try that is not closed: a try that ran twice has more than one."""
    for ordinal in range(_MANY_SESSIONS):
        patience = _Patience(server)
        builder = DefaultChannelBuilder(with_session(address, task_try.session_id(ordinal)), _CHANNEL_OPTIONS)
        session = SparkSession.builder.channelBuilder(builder).create()
        session.client.set_retry_policies([patience])
        try:
            return ConnectSession(session, tag=task_try.tag, patience=patience)
        except PySparkException as error:
            _stop(session)
            if _CLOSED not in str(error):
                raise
        except BaseException:
            _stop(session)
            raise
    raise SparkFailed(f"Spark Connect server {server}: {task_try.tag} has had {_MANY_SESSIONS} sessions.")


def _end_earlier(address: str, server: str, task_try: TaskTry) -> None:
    """A process that was killed could not do it; a session that it never had is opened and closed."""
    session = _open(address, server, task_try)
    interrupted = session.interrupt()
    if interrupted != "0":
        emit("spark_work_interrupted", server=server, operations=interrupted, of_try=task_try.number)
    _close(session)


def _set(session: ConnectSession, server: str, name: str, value: str) -> None:
    try:
        session.dataframes.conf.set(name, value)
    except AnalysisException as error:
        raise ConfigurationError(
            f"Spark Connect server {server}: it refused spark.conf.{name}: {failure_line(error)}",
            next_step="Take it out of relaybox.yaml, and give it to the server when it starts: see docs/spark.md",
        ) from error


def _warn_of_kept_work(session: ConnectSession, server: str) -> None:
    """A task whose process is killed is missed by the server alone, after a time that the server sets."""
    value = session.dataframes.conf.get(LOST_WORK_SETTING, _DEFAULT_LOST_WORK)
    seconds = _seconds(value)
    if seconds is None or seconds > LOST_WORK_SECONDS:
        told = f"start the server with {LOST_WORK_SETTING}={LOST_WORK_SECONDS / 2:g}s"
        warn("spark_server_keeps_lost_work", server=server, setting=value, warning=told)


def _seconds(value: str) -> float | None:
    """Of a time as Spark writes it, with its unit."""
    units = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}
    found = re.fullmatch(r"(\d+)(ms|s|m|min|h)", value.strip())
    return int(found[1]) * units[found[2]] if found else None


def _code(exception: BaseException) -> str:
    """The status of gRPC."""
    code = getattr(exception, "code", None)
    return code().name if code else type(exception).__name__


def _close(session: ConnectSession) -> None:
    _stop(session.dataframes)


def _stop(session: SparkSession) -> None:
    """What runs in it ends with it. One call: a server that does not answer it is left."""
    session.client.set_retry_policies([])
    session.stop()
