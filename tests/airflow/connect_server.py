"""A real Spark Connect server on this machine, as the wheel has it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark

from relaybox.local.clusters import find_free_port
from relaybox.local.java import find_java_home
from relaybox.process_lifetime import child_dies_with_parent
from relaybox.spark.driver_options import driver_java_options
from tests.support.world import wait_until

START_SECONDS = 180.0


@contextmanager
def connect_server(log: Path, *, port: int | None = None, service_file: Path | None = None, **settings: str) -> Iterator[int]:
    """Gives the port of a server with two local cores. Ends it with the block, which may have killed it: `log` with `.pid` has its pid.

    Args:
        log: its output.
        port: where it listens; None: a free one.
        service_file: of its Python workers; None: that of this process.
        settings: of Spark, with `__` for a dot.
    """
    port = port or find_free_port()
    home = Path(pyspark.__file__).parent
    conf = {
        "spark.ui.enabled": "false",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.python.daemon.module": "relaybox.spark.daemon",
        "spark.driver.extraJavaOptions": driver_java_options(),
        "spark.sql.warehouse.dir": str(log.parent / "warehouse"),
        **{name.replace("__", "."): value for name, value in settings.items()},
    }
    command = [
        str(home / "bin" / "spark-submit"),
        *("--master", "local[2]", "--class", "org.apache.spark.sql.connect.service.SparkConnectServer"),
        *(part for name, value in conf.items() for part in ("--conf", f"{name}={value}")),
        "spark-internal",
    ]
    environment = {
        **os.environ,
        "JAVA_HOME": str(find_java_home()),
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
        **({"PGSERVICEFILE": str(service_file)} if service_file else {}),
    }
    with log.open("wb") as output:
        process = subprocess.Popen(command, env=environment, stdout=output, stderr=output, preexec_fn=child_dies_with_parent())  # noqa: PLW1509  prepared before the fork
    log.with_suffix(".pid").write_text(str(process.pid))
    try:
        wait_until(lambda: _listens(port), "the server listens", deadline_seconds=START_SECONDS, poll_seconds=0.2)
        yield port
    finally:
        process.kill()
        process.wait()


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
