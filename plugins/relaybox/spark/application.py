"""The Spark application that runs one hop until it is empty; called by spark_apps/transfer.py.

Exit codes: 0 done, 75 a retry may help, 65 it won't, 78 the configuration is wrong.
"""

from __future__ import annotations

import argparse
import getpass
import logging
import sys
from collections.abc import Sequence

from pyspark import SparkContext

from relaybox.errors import ConfigurationError, RelayboxError, Transient
from relaybox.events import emit
from relaybox.parents import die_with_parent
from relaybox.routes import load_routes
from relaybox.spark.runner import SparkRunner, spark_conf
from relaybox.transfer import transfer_hop

EXIT_TRANSIENT, EXIT_TERMINAL, EXIT_CONFIGURATION = 75, 65, 78


def main(arguments: Sequence[str] | None = None) -> int:
    """Parses the arguments, runs the hop, tells the result by exit code."""
    options = _parser().parse_args(arguments)
    die_with_parent()  # the JVM, without which this process must not go on alone
    logging.basicConfig(stream=sys.stdout, level=logging.INFO, format="%(message)s")
    try:
        _run(options)
    except RelayboxError as error:
        emit("transfer_failed", hop=options.hop, error=type(error).__name__, retry=isinstance(error, Transient))
        print(error, flush=True)
        return exit_code(error)
    return 0


def exit_code(error: RelayboxError) -> int:
    """75, 65 or 78 (sysexits.h): what the retry policy of the orchestrator reads."""
    if isinstance(error, ConfigurationError):
        return EXIT_CONFIGURATION
    return EXIT_TRANSIENT if isinstance(error, Transient) else EXIT_TERMINAL


def _run(options: argparse.Namespace) -> None:
    hop = load_routes(options.config).hop(options.hop)
    linger_seconds = hop.limits.linger_seconds if options.linger_seconds is None else options.linger_seconds
    context = SparkContext.getOrCreate(spark_conf(f"relaybox {hop.name}"))
    try:
        emit("spark_application_started", hop=hop.name, application=context.applicationId, master=context.master)
        transfer_hop(
            hop,
            SparkRunner(context),
            recorded_by=options.recorded_by,
            linger_seconds=linger_seconds,
            linger_at_most_seconds=options.linger_at_most_seconds,
        )
    finally:
        context.stop()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="transfer.py",
        description="Runs one hop with Spark until it is empty.",
        epilog="example: spark-submit spark_apps/transfer.py --hop flights/1 --linger-seconds 10",
    )
    parser.add_argument("--hop", required=True, help="name of the hop, as in relaybox.yaml: route/number")
    parser.add_argument("--config", help="relaybox.yaml (default: RELAYBOX_CONFIG, else ./relaybox.yaml)")
    parser.add_argument("--linger-seconds", type=float, help="end after this long without a message (default: the route's limit)")
    parser.add_argument("--linger-at-most-seconds", type=float, default=600.0, help="end then even if messages keep coming")
    parser.add_argument("--recorded-by", default=getpass.getuser(), help="who runs it, for the ledgers")
    return parser
