"""The Spark application that proves delivery of one route; called by spark_apps/verify.py."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from relaybox.routes import load_routes
from relaybox.spark.application import new_parser, run_application, spark_session
from relaybox.spark.comparison_runner import SparkComparisonRunner
from relaybox.verification.results import write_verification
from relaybox.verification.route_verification import verification_session, verify_route


def main(arguments: Sequence[str] | None = None) -> int:
    """Parses the arguments, makes the verification, writes it. Exit code 0 says that it was made, not what it found."""
    options = _parser().parse_args(arguments)
    return run_application(lambda: _run(options), failure_event="verify_failed", route=options.route)


def _run(options: argparse.Namespace) -> None:
    route = load_routes(options.config).route(options.route)
    with spark_session(f"{route.name} verify", route=route.name) as session:
        verification = verify_route(route, runner=SparkComparisonRunner(session, session_name=verification_session(route.name)))
    if options.result is not None:
        write_verification(verification, options.result)


def _parser() -> argparse.ArgumentParser:
    parser = new_parser(
        "verify.py",
        does="Compares all stores of a route with Spark, message by message, and logs the outcome.",
        example="--route flights --result verification.json",
    )
    parser.add_argument("--route", required=True, help="name of the route, as in relaybox.yaml")
    parser.add_argument("--result", type=Path, metavar="FILE", help="write the whole verification there, as JSON")
    return parser
