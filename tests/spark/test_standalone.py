"""A standalone cluster of the wheel: a master and two workers, which know their applications by a shared secret."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark
import pytest

from relaybox.local.clusters import find_free_port
from relaybox.local.java import find_java_home
from relaybox.process_lifetime import child_dies_with_parent
from tests.spark.submit import spark_submit
from tests.support.patience import patience
from tests.support.world import World, wait_until

pytestmark = pytest.mark.thorough

HOME = Path(pyspark.__file__).parent
SECRET = "relaybox-test-secret"


@contextmanager
def process(name: str, *arguments: str, conf: Path, log: Path) -> Iterator[None]:
    """A master or a worker; ends with the block."""
    environment = {
        **os.environ,
        "JAVA_HOME": str(find_java_home()),
        "SPARK_HOME": str(HOME),
        "SPARK_CONF_DIR": str(conf),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "256m",
        "PYSPARK_PYTHON": sys.executable,
    }
    command = [str(HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}", *arguments]
    with log.open("wb") as output:
        running = subprocess.Popen(command, env=environment, stdout=output, stderr=output, preexec_fn=child_dies_with_parent())  # noqa: PLW1509  prepared before the fork
    try:
        yield
    finally:
        running.terminate()
        running.wait()


@contextmanager
def standalone(directory: Path, conf: Path) -> Iterator[str]:
    """Gives the address of a master with two workers of one core each."""
    port = find_free_port()
    master = f"spark://127.0.0.1:{port}"
    log = directory / "master.log"
    with ExitStack() as stack:
        address = ("--host", "127.0.0.1")
        stack.enter_context(process("master.Master", *address, "--port", str(port), "--webui-port", "0", conf=conf, log=log))
        wait_until(lambda: "I have been elected leader" in log.read_text(), "the master leads", deadline_seconds=patience(120))
        for number in (1, 2):
            options = ("--cores", "1", "--memory", "600m", "--webui-port", "0", "--work-dir", str(directory / f"work{number}"))
            stack.enter_context(
                process("worker.Worker", *address, *options, master, conf=conf, log=directory / f"worker{number}.log")
            )
        wait_until(
            lambda: log.read_text().count("Registering worker") == 2, "both workers registered", deadline_seconds=patience(120)
        )
        yield master


def test_a_hop_moves_on_a_standalone_cluster_with_a_shared_secret(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two executors copy. The secret is in a file of one user, not on a command line."""
    conf = tmp_path / "conf"
    conf.mkdir()
    (conf / "log4j2.properties").write_text(
        "rootLogger.level = info\nrootLogger.appenderRef.stdout.ref = console\nappender.console.type = Console\n"
        "appender.console.name = console\nappender.console.layout.type = PatternLayout\nappender.console.layout.pattern = %m%n\n"
    )
    settings = {
        "spark.authenticate": "true",
        "spark.authenticate.secret": SECRET,
        "spark.cores.max": "2",
        "spark.executor.memory": "512m",
    }
    write_settings(conf, settings)
    world.change_route(limits={"batch_rows": 1000, "slice_rows": 100})
    world.send_many(1000)
    with standalone(tmp_path, conf) as master:
        monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        monkeypatch.setenv("RELAYBOX_CONFIG", str(world.path))
        monkeypatch.setenv("SPARK_CONF_DIR", str(conf))
        done = spark_submit("transfer.py", "--hop", "flights/1", master=master)
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        assert "spark_application_started hop=flights/1 application=app-" in done.stdout
    assert world.log_positions() == list(range(1, 1001))
    assert [number for number in (1, 2) if list((tmp_path / f"work{number}").glob("app-*/*"))] == [1, 2]


def write_settings(conf: Path, settings: dict[str, str]) -> None:
    file = conf / "spark-defaults.conf"
    file.write_text("".join(f"{name} {value}\n" for name, value in settings.items()))
    file.chmod(0o600)
