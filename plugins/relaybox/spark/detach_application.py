"""The Spark application that detaches what only stopped consumers of a store need; called by spark_apps/detach.py."""

from __future__ import annotations

import argparse
import getpass
from collections.abc import Sequence

from relaybox.log_events import emit
from relaybox.retention.detaching import detach_segments
from relaybox.routes import load_routes
from relaybox.spark.application import new_parser, run_application, spark_session
from relaybox.spark.archive import SparkArchive


def main(arguments: Sequence[str] | None = None) -> int:
    """Parses the arguments, detaches, tells the result by exit code."""
    options = _parser().parse_args(arguments)
    return run_application(lambda: _run(options), failure_event="detach_failed", store=options.store)


def _run(options: argparse.Namespace) -> None:
    routes = load_routes(options.config)
    store = routes.store(options.store)
    with spark_session(f"{store.name} detach", store=store.name) as session:
        done = detach_segments(store, SparkArchive(session), recorded_by=options.recorded_by, routes=routes)
    emit("detach_done", store=store.name, segments=len(done.segments), removed=len(done.removed), kept=done.kept or "nothing")


def _parser() -> argparse.ArgumentParser:
    parser = new_parser(
        "detach.py", does="Detaches with Spark what only stopped consumers of a store need.", example="--store hub"
    )
    parser.add_argument("--store", required=True, help="name of the store, as in relaybox.yaml")
    parser.add_argument("--recorded-by", default=getpass.getuser(), help="who runs it, for the ledger")
    return parser
