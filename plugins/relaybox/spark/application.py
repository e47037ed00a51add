"""What every Spark application of ours does: says which routes file it reads, logs, holds one session, and ends with a code.

Exit codes: 0 done, 75 a retry may help, 65 it won't, 78 the configuration is wrong.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark import SparkConf, SparkContext

from relaybox.errors import ConfigurationError, RelayboxError, SparkFailed, Transient
from relaybox.log_events import emit
from relaybox.monitoring.spark_pages import APPLICATION_FILE, READY_FILE
from relaybox.process_lifetime import die_with_parent
from relaybox.spark.failures import SPARK_ERRORS, failure_line
from relaybox.spark.runner import load_copying
from relaybox.spark.tasks import ContextSession

EXIT_TRANSIENT, EXIT_TERMINAL, EXIT_CONFIGURATION = 75, 65, 78


def new_parser(program: str, *, does: str, example: str) -> argparse.ArgumentParser:
    """The arguments that all applications take; `example` is what comes after the application's own name."""
    parser = argparse.ArgumentParser(
        prog=program, description=does, epilog=f"example: spark-submit spark_apps/{program} {example}"
    )
    parser.add_argument("--config", help="relaybox.yaml (default: RELAYBOX_CONFIG, else ./relaybox.yaml)")
    return parser


def run_application(run: Callable[[], None], *, failure_event: str, **about: str) -> int:
    """Runs an application and returns its exit code. An error is printed without traceback, and is an event `about` the application."""
    die_with_parent()  # the JVM, without which this process must not go on alone
    logging.basicConfig(stream=sys.stdout, level=logging.INFO, format="%(message)s")
    try:
        run()
    except RelayboxError as error:
        emit(failure_event, **about, error=type(error).__name__, retry=isinstance(error, Transient))
        print(error, flush=True)
        return exit_code(error)
    return 0


def exit_code(error: RelayboxError) -> int:
    """75, 65 or 78 (sysexits.h): what the retry policy of the orchestrator reads."""
    if isinstance(error, ConfigurationError):
        return EXIT_CONFIGURATION
    return EXIT_TRANSIENT if isinstance(error, Transient) else EXIT_TERMINAL


@contextmanager
def spark_session(name: str, **about: str) -> Iterator[ContextSession]:
    """A session until the block ends, told in the log with what it is about: its hop, or its route."""
    context = SparkContext.getOrCreate(spark_conf(f"relaybox {name}"))
    try:
        emit("spark_application_started", **about, application=context.applicationId, master=context.master)
        if path := os.environ.get(APPLICATION_FILE):
            Path(path).write_text(context.applicationId, encoding="utf-8")
        yield ContextSession(context)
    finally:
        context.stop()


def start_workers(session: ContextSession) -> None:
    """Runs one empty task per core, which takes seconds the first time; then the task that started this driver is told.

    Threads of that task move messages until then (relaybox.airflow.head_start).
    """
    cores = session.context.defaultParallelism
    session.collect("starting the Python workers", range(cores), load_copying)
    if path := os.environ.get(APPLICATION_FILE):
        Path(path).with_name(READY_FILE).touch()


@contextmanager
def command_session(name: str, java_options: str) -> Iterator[ContextSession]:
    """A session for a command until the block ends: where Spark's configuration says, else on this machine's cores.

    Raises:
        SparkFailed: it did not start, or gave up what the block asked of it.
    """
    # the master is spark-submit's to choose, which reads spark-defaults.conf
    conf = spark_conf(name).set("spark.ui.enabled", "false")
    try:
        context = SparkContext(conf=conf.set("spark.driver.extraJavaOptions", java_options))
        try:
            yield ContextSession(context)
        finally:
            context.stop()
    except SPARK_ERRORS as error:
        raise SparkFailed(
            f"Spark failed: {failure_line(error)}", next_step="Its log is above. Correct what it says, and run this again."
        ) from error


def spark_conf(name: str) -> SparkConf:
    """What every session of ours sets; master and memory are the deployment's."""
    conf = SparkConf().setAppName(name).set("spark.ui.showConsoleProgress", "false")
    return conf.set("spark.python.daemon.module", "relaybox.spark.daemon")
