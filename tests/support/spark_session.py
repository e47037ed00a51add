"""Spark with real executors on this machine: a session that lives long, and whole applications that can be killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

from pyspark import SparkContext

from relaybox.local.java import find_java_home
from relaybox.local.processes import send_signal
from relaybox.spark.application import spark_conf
from tests.support.world import wait_until

MASTER = "local-cluster[2,1,600]"
"""Two executors with one core each: two slices are copied at once."""

START_SECONDS = 180.0
"""Ten seconds on a machine that has nothing else to do."""

_APPLICATION = Path(__file__).parents[2] / "spark_apps" / "transfer.py"
_JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"  # a short life: starting is most of it
_CONF = {
    "spark.ui.enabled": "false",
    "spark.executor.memory": "512m",
    "spark.driver.extraJavaOptions": _JAVA_OPTIONS,
    "spark.executor.extraJavaOptions": _JAVA_OPTIONS,
}


@contextmanager
def spark_session(master: str = MASTER) -> Iterator[SparkContext]:
    """A session with its own JVM; both are gone afterwards."""
    conf = spark_conf("relaybox faults").setMaster(master).setAll(list(_CONF.items()))
    with patch.dict(os.environ, _environment()):
        context = SparkContext(conf=conf)
    context.setLogLevel("ERROR")  # it warns of every process that is killed here
    gateway = SparkContext._gateway  # noqa: SLF001  Spark keeps the JVM for a next session; here is none
    try:
        yield context
    finally:
        context.stop()
        gateway.shutdown()
        SparkContext._gateway = SparkContext._jvm = None  # noqa: SLF001
        gateway.proc.stdin.close()
        gateway.proc.wait()


@contextmanager
def spark_application(
    arguments: Sequence[str], *, environment: Mapping[str, str], log: Path
) -> Iterator[subprocess.Popen[bytes]]:
    """spark-submit of spark_apps/transfer.py; the process is the JVM, its Python and its executors are below."""
    conf = [part for name, value in _CONF.items() for part in ("--conf", f"{name}={value}")]
    command = [Path(sys.executable).with_name("spark-submit"), "--master", MASTER, *conf, _APPLICATION, *arguments]
    with log.open("wb") as output:
        process = subprocess.Popen(command, env={**os.environ, **_environment(), **environment}, stdout=output, stderr=output)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def _environment() -> dict[str, str]:
    python = sys.executable
    return {
        "JAVA_HOME": str(find_java_home()),
        "PYSPARK_PYTHON": python,
        "PYSPARK_DRIVER_PYTHON": python,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }


@dataclass(frozen=True)
class Pause:
    """Every process that gets to a failpoint waits there, until all are released. One directory per pause."""

    failpoint: str
    directory: Path

    def environment(self) -> dict[str, str]:
        """What processes need that are to wait. Spark starts new Python workers for a new environment."""
        self.directory.mkdir(parents=True, exist_ok=True)
        return {
            "RELAYBOX_ENVIRONMENT": "test",
            "RELAYBOX_FAILPOINTS": f"{self.failpoint}=pause",
            "RELAYBOX_FAILPOINTS_DIRECTORY": str(self.directory),
        }

    def waiting(self) -> list[int]:
        """The processes that got there, first one first."""
        try:
            lines = (self.directory / "hits.jsonl").read_text(encoding="utf-8").splitlines()
        except FileNotFoundError:
            return []
        return [json.loads(line)["pid"] for line in lines]

    def release(self) -> None:
        (self.directory / f"{self.failpoint}.go").touch()

    def processes(self) -> list[int]:
        """All processes with the environment of this pause."""
        wanted = f"RELAYBOX_FAILPOINTS_DIRECTORY={self.directory}\0".encode()
        return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit() and wanted in _environ(entry)]

    def end_processes(self) -> None:
        """Kills them: Spark keeps the Python workers of an environment for ever."""
        for pid in self.processes():
            send_signal(pid, signal.SIGKILL)
        wait_until(lambda: not self.processes(), f"all processes of {self.directory.name} have ended")


def parent(pid: int) -> int:
    """The parent of a living process."""
    return int(Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[1])


def _environ(process: Path) -> bytes:
    try:
        return (process / "environ").read_bytes() + b"\0"
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return b""  # it has ended, or belongs to another user
