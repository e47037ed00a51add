"""The Spark application that detaches what only stopped consumers of a store need; called by spark_apps/detach.py.

Exit codes: as relaybox.spark.application.
"""

from __future__ import annotations

import argparse
import getpass
import logging
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from pyspark import SparkContext

from relaybox.detaching import detach_segments
from relaybox.errors import RelayboxError, Transient
from relaybox.events import emit
from relaybox.parents import die_with_parent
from relaybox.routes import load_routes
from relaybox.spark.application import exit_code
from relaybox.spark.archive import SparkArchive
from relaybox.spark.runner import spark_conf


def main(arguments: Sequence[str] | None = None) -> int:
    """Parses the arguments, detaches, tells the result by exit code."""
    options = _parser().parse_args(arguments)
    die_with_parent()  # the JVM, without which this process must not go on alone
    logging.basicConfig(stream=sys.stdout, level=logging.INFO, format="%(message)s")
    try:
        store = load_routes(options.config).store(options.store)
        with open_archive(f"relaybox detach {store.name}") as archive:
            done = detach_segments(store, archive, recorded_by=options.recorded_by)
    except RelayboxError as error:
        emit("detach_failed", store=options.store, error=type(error).__name__, retry=isinstance(error, Transient))
        print(error, flush=True)
        return exit_code(error)
    emit("detach_done", store=store.name, segments=len(done.segments), removed=len(done.removed), kept=done.kept or "nothing")
    return 0


@contextmanager
def open_archive(name: str, settings: Sequence[tuple[str, str]] = ()) -> Iterator[SparkArchive]:
    """A Spark session of this process: where spark-submit or Spark's configuration says, else on this machine's cores."""
    conf = spark_conf(name).setAll([*settings]).setIfMissing("spark.master", "local[*]")
    context = SparkContext.getOrCreate(conf.set("spark.ui.enabled", "false"))
    try:
        yield SparkArchive(context)
    finally:
        context.stop()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="detach.py",
        description="Detaches with Spark what only stopped consumers of a store need.",
        epilog="example: spark-submit spark_apps/detach.py --store hub",
    )
    parser.add_argument("--store", required=True, help="name of the store, as in relaybox.yaml")
    parser.add_argument("--config", help="relaybox.yaml (default: RELAYBOX_CONFIG, else ./relaybox.yaml)")
    parser.add_argument("--recorded-by", default=getpass.getuser(), help="who runs it, for the ledger")
    return parser
