"""The Spark application that runs one hop until it is empty; called by spark_apps/transfer.py."""

from __future__ import annotations

import argparse
import getpass
from collections.abc import Sequence

from relaybox.hops.transfer import transfer_hop
from relaybox.routes import load_routes
from relaybox.spark.application import new_parser, run_application, spark_session, start_workers
from relaybox.spark.runner import SparkRunner


def main(arguments: Sequence[str] | None = None) -> int:
    """Parses the arguments, runs the hop, tells the result by exit code."""
    options = _parser().parse_args(arguments)
    return run_application(lambda: _run(options), failure_event="transfer_failed", hop=options.hop)


def _run(options: argparse.Namespace) -> None:
    hop = load_routes(options.config).hop(options.hop)
    linger_seconds = hop.limits.linger_seconds if options.linger_seconds is None else options.linger_seconds
    with spark_session(hop.name, hop=hop.name) as session:
        start_workers(session)
        transfer_hop(
            hop,
            SparkRunner(session),
            recorded_by=options.recorded_by,
            linger_seconds=linger_seconds,
            linger_at_most_seconds=options.linger_at_most_seconds,
        )


def _parser() -> argparse.ArgumentParser:
    parser = new_parser(
        "transfer.py", does="Runs one hop with Spark until it is empty.", example="--hop flights/1 --linger-seconds 10"
    )
    parser.add_argument("--hop", required=True, help="name of the hop, as in relaybox.yaml: route/number")
    parser.add_argument("--linger-seconds", type=float, help="end after this long without a message (default: the route's limit)")
    parser.add_argument("--linger-at-most-seconds", type=float, default=600.0, help="end then even if messages keep coming")
    parser.add_argument("--recorded-by", default=getpass.getuser(), help="who runs it, for the ledgers")
    return parser
