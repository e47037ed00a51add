"""The commands that write a stream into a lake and verify what is there, without Airflow."""

from __future__ import annotations

from typing import Annotated

import typer

from relaybox.cli.exits import ExitCode, Settings
from relaybox.cli.options import AsJson
from relaybox.cli.usage import CommandList

commands = CommandList()


@commands.command()
def export(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="EXPORT", help="The export, as in relaybox.yaml.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be written, and write nothing.")] = False,
    as_json: AsJson = False,
) -> None:
    """Write a stream into its table in a lake, up to the newest message, with Spark and without Airflow.

    Can be interrupted and repeated: each message is in the table once. If two runs work at
    once, the first to commit goes on.

    \b
    Examples:
      relaybox export flights_lake --dry-run
      relaybox export flights_lake
      relaybox export flights_lake --json
    """
    from relaybox.cli.spark import require_lake, spark_lake

    settings: Settings = context.obj
    exported = settings.load_routes().export(name)
    require_lake()
    from relaybox.cli.terminal.lake import export_line, show_exported, show_waiting
    from relaybox.documents.document import write
    from relaybox.documents.lake import ExportDocument, ExportPreviewDocument
    from relaybox.spark.lake.exporting import count_waiting, export_stream

    if dry_run:
        waiting = count_waiting(exported)
        if as_json:
            write(ExportPreviewDocument.model_validate(waiting))
        else:
            show_waiting(waiting)
        return
    with spark_lake(f"relaybox export {name}") as session:
        if as_json:
            write(ExportDocument.model_validate(export_stream(exported, session)))
        else:
            with export_line(name) as progress:
                done = export_stream(exported, session, progress=progress)
            show_exported(done)


@commands.command("verify-lake")
def verify_lake(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="EXPORT", help="The export, as in relaybox.yaml.")],
    as_json: AsJson = False,
) -> None:
    """Compare the table of an export with its stream, message by message and column by column, with Spark.

    Messages that the store does not keep any more are counted. Changes nothing.

    \b
    Examples:
      relaybox verify-lake flights_lake
      relaybox verify-lake flights_lake --json > lake.json
    """
    from relaybox.cli.spark import require_lake, spark_lake

    settings: Settings = context.obj
    exported = settings.load_routes().export(name)
    require_lake()
    from relaybox.cli.terminal.lake import show_lake_verification
    from relaybox.documents.document import write
    from relaybox.documents.lake import LakeVerificationDocument
    from relaybox.spark.lake.verifying import verify_lake as verify

    with spark_lake(f"relaybox verify-lake {name}") as session:
        found = verify(exported, session)
    if as_json:
        write(LakeVerificationDocument.model_validate(found))
    else:
        show_lake_verification(found)
    raise typer.Exit(ExitCode.FINE if found.is_equal else ExitCode.DEFECT_FOUND)
