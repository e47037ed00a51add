"""The Spark application that derives the messages of a route; called by spark_apps/derive.py."""

from __future__ import annotations

import argparse
import getpass
from collections.abc import Sequence

from relaybox.routes import load_routes
from relaybox.spark.application import new_parser, run_application, spark_session
from relaybox.spark.derivations.deriving import derive
from relaybox.spark.derivations.trying import try_next


def main(arguments: Sequence[str] | None = None) -> int:
    """Parses the arguments, derives, tells the result by exit code."""
    options = _parser().parse_args(arguments)
    return run_application(lambda: _run(options), failure_event="derivation_failed", route=options.route)


def _run(options: argparse.Namespace) -> None:
    route = load_routes(options.config).route(options.route)
    derivation = route.require_derivation()
    with spark_session(f"{route.name} derive", route=route.name) as session:
        if options.trial:
            given = {"start": options.start, "through": options.through, "recorded_by": options.recorded_by}
            try_next(route, session, **given, once=options.once)
            return
        derive(route, derivation, session, recorded_by=options.recorded_by)


def _parser() -> argparse.ArgumentParser:
    parser = new_parser("derive.py", does="Derives the messages of a route with Spark.", example="--route delays")
    parser.add_argument("--route", required=True, help="name of the route, as in relaybox.yaml")
    parser.add_argument("--recorded-by", default=getpass.getuser(), help="who runs it, for the ledger")
    parser.add_argument("--trial", action="store_true", help="try the next version on messages of the past, and send nothing")
    parser.add_argument(
        "--once",
        action="store_true",
        help="with --trial: --recorded-by is one run; if its trial has ended, it begins no other one",
    )
    parser.add_argument("--from", dest="start", help="with --trial: earliest, a stream position or a time")
    parser.add_argument("--through", help="with --trial: a stream position (included) or a time (excluded)")
    return parser
