"""The Spark application that writes a stream into a lake; called by spark_apps/export.py."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from relaybox.routes import load_routes
from relaybox.spark.application import new_parser, run_application, spark_session
from relaybox.spark.lake.exporting import export_stream


def main(arguments: Sequence[str] | None = None) -> int:
    """Parses the arguments, exports, tells the result by exit code."""
    options = _parser().parse_args(arguments)
    return run_application(lambda: _run(options), failure_event="export_failed", export=options.export)


def _run(options: argparse.Namespace) -> None:
    export = load_routes(options.config).export(options.export)
    with spark_session(f"export {export.name}", export=export.name) as session:
        export_stream(export, session)


def _parser() -> argparse.ArgumentParser:
    parser = new_parser("export.py", does="Writes a stream into the table of a lake with Spark.", example="--export flights_lake")
    parser.add_argument("--export", required=True, help="name of the export, as in relaybox.yaml")
    return parser
