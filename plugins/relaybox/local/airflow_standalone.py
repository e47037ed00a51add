"""Airflow in one process group on loopback, for the demo and the tests: no login, metadata in Postgres."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from signal import SIGTERM
from typing import Self

from relaybox.errors import StackFailed
from relaybox.local.airflow_client import AirflowClient
from relaybox.local.clusters import find_free_port
from relaybox.local.java import find_java_home
from relaybox.local.processes import spawn

_POLL_SECONDS = 0.2
_SETTINGS = {
    "CORE__LOAD_EXAMPLES": "False",
    "CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
    "CORE__EXECUTOR": "LocalExecutor",
    "CORE__PARALLELISM": "4",
    "CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "True",  # everybody who reaches the loopback port is an administrator
    "API__HOST": "127.0.0.1",
    "SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": "0.2",  # the wait between two tasks of a run
    "SCHEDULER__MAX_DAGRUNS_PER_LOOP_TO_SCHEDULE": "200",  # above all runs at once, or backfills starve
    "SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "30",  # how long a lost worker blocks its hop
    "SCHEDULER__ORPHANED_TASKS_CHECK_INTERVAL": "20",  # how long tasks that a killed scheduler had queued wait for the next one
    "DAG_PROCESSOR__REFRESH_INTERVAL": "5",  # how long a new file is not seen
    "DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "30",  # a file that changed is read again at once
}


@dataclass(frozen=True)
class AirflowPorts:
    """The loopback ports that `airflow standalone` listens on."""

    api: int = field(default_factory=find_free_port)
    worker_log: int = field(default_factory=find_free_port)
    triggerer_log: int = field(default_factory=find_free_port)


@dataclass
class AirflowStandalone:
    """`airflow standalone` below a guard: nothing of it outlives `stop()`, nor this process.

    Args:
        home: AIRFLOW_HOME; made when missing. The log of all components is `standalone.log` in it.
        metadata_url: SQLAlchemy URL of the empty or older metadata database.
        dags: the dags folder.
        plugins: the plugins folder; none by default.
        connections: connection id to URI or JSON, given to the child as AIRFLOW_CONN_*.
        environment: further variables of the child, for example RELAYBOX_CONFIG.
        command_line: what of Airflow is started; all of it by default.
        programs: the directory with `airflow` and `python`; that of this Python by default.
    """

    home: Path
    metadata_url: str = field(repr=False)
    dags: Path
    plugins: Path | None = None
    connections: Mapping[str, str] = field(default_factory=dict, repr=False)
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    ports: AirflowPorts = field(default_factory=AirflowPorts)
    command_line: Sequence[str] = ("standalone",)
    programs: Path = Path(sys.executable).parent
    client: AirflowClient = field(init=False, repr=False)
    _guard: subprocess.Popen[bytes] | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        self.client = AirflowClient(self.ports.api)

    @property
    def url(self) -> str:
        """Where the UI is."""
        return f"http://127.0.0.1:{self.ports.api}"

    @property
    def pid(self) -> int | None:
        """The guard, below which everything runs; None when it was not started."""
        return None if self._guard is None else self._guard.pid

    @property
    def log_file(self) -> Path:
        return self.home / "standalone.log"

    def start(self) -> None:
        """Starts the components; `wait_until_healthy` tells when they answer."""
        self.home.mkdir(parents=True, exist_ok=True)
        self.client = AirflowClient(self.ports.api)  # an earlier start's token is of no use
        self._guard = spawn(
            [sys.executable, "-m", "relaybox.local.guard", self.programs / "airflow", *self.command_line],
            env=self._child_environment(),
            log=self.log_file,
            cwd=self.home,
            death_signal=SIGTERM,
        )

    def wait_until_healthy(self, *, deadline_seconds: float = 300.0) -> None:
        """Waits until database, scheduler, DAG processor and triggerer are healthy.

        Raises:
            StackFailed: Airflow ended, or was not healthy in time; the message carries the end of its log.
        """
        deadline = time.monotonic() + deadline_seconds
        while not self.client.is_healthy():
            if self._guard is None or self._guard.poll() is not None:
                raise StackFailed(f"Airflow ended while starting:\n{self._log_tail()}\n", next_step=f"Its log: {self.log_file}")
            if time.monotonic() > deadline:
                raise StackFailed(
                    f"Airflow was not healthy within {deadline_seconds:.0f} s:\n{self._log_tail()}\n",
                    next_step=f"Its log: {self.log_file}",
                )
            time.sleep(_POLL_SECONDS)

    def stop(self) -> None:
        """Ends every process that Airflow started, tasks and their Spark drivers included."""
        if self._guard is None:
            return
        self._guard.terminate()
        self._guard.wait()  # it kills what is left after its grace
        self._guard = None

    def command(self, *arguments: str) -> str:
        """What a person types after `airflow`, on the machine that it runs on; returns what was printed.

        Raises:
            StackFailed: the command failed; the message carries the end of what it said.
        """
        ran = subprocess.run(
            [self.programs / "airflow", *arguments],
            env=self._child_environment(),
            cwd=self.home,
            capture_output=True,
            text=True,
            check=False,
        )
        if ran.returncode != 0:
            raise StackFailed(f"airflow {' '.join(arguments)} ended with {ran.returncode}:\n{(ran.stdout + ran.stderr)[-2000:]}")
        return ran.stdout

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _child_environment(self) -> dict[str, str]:
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW")}
        python = str(self.programs / "python")
        return {
            **inherited,
            "PATH": os.pathsep.join([str(self.programs), inherited.get("PATH", os.defpath)]),
            "JAVA_HOME": str(find_java_home()),
            "PYSPARK_PYTHON": python,
            "PYSPARK_DRIVER_PYTHON": python,
            "AIRFLOW_HOME": str(self.home),
            **{f"AIRFLOW__{name}": value for name, value in {**_SETTINGS, **self._own_settings()}.items()},
            **{f"AIRFLOW_CONN_{name.upper()}": value for name, value in self.connections.items()},
            **self.environment,
        }

    def _own_settings(self) -> dict[str, str]:
        return {
            "DATABASE__SQL_ALCHEMY_CONN": self.metadata_url,
            "CORE__DAGS_FOLDER": str(self.dags),
            "CORE__PLUGINS_FOLDER": str(self.plugins or self.home / "plugins"),
            "CORE__EXECUTION_API_SERVER_URL": f"{self.url}/execution/",
            "API__BASE_URL": self.url,
            "API__PORT": str(self.ports.api),
            "LOGGING__WORKER_LOG_SERVER_PORT": str(self.ports.worker_log),
            "LOGGING__TRIGGER_LOG_SERVER_PORT": str(self.ports.triggerer_log),
        }

    def _log_tail(self) -> str:
        return "\n".join(self.log_file.read_text(encoding="utf-8", errors="replace").splitlines()[-20:])
