"""The Spark application that proves delivery of one route; called by spark_apps/verify.py."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from relaybox.proofs.proof import write_proof
from relaybox.proofs.verification import proof_session, verify_route
from relaybox.routes import load_routes
from relaybox.spark.application import new_parser, run_application, spark_session
from relaybox.spark.comparison_runner import SparkComparisonRunner


def main(arguments: Sequence[str] | None = None) -> int:
    """Parses the arguments, makes the proof, writes it. Exit code 0 says that it was made, not what it found."""
    options = _parser().parse_args(arguments)
    return run_application(lambda: _run(options), failure_event="verify_failed", route=options.route)


def _run(options: argparse.Namespace) -> None:
    route = load_routes(options.config).route(options.route)
    with spark_session(f"{route.name} verify", route=route.name) as session:
        proof = verify_route(route, runner=SparkComparisonRunner(session, session_name=proof_session(route.name)))
    if options.result is not None:
        write_proof(proof, options.result)


def _parser() -> argparse.ArgumentParser:
    parser = new_parser(
        "verify.py",
        does="Compares all stores of a route with Spark, message by message, and logs the verdict.",
        example="--route flights --result proof.json",
    )
    parser.add_argument("--route", required=True, help="name of the route, as in relaybox.yaml")
    parser.add_argument("--result", type=Path, metavar="FILE", help="write the whole proof there, as JSON")
    return parser
