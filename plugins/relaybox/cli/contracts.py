"""What producers and consumers agree on: schemas, asyncapi."""

from __future__ import annotations

import json
import sys
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from relaybox.cli.exits import ExitCode, Settings
from relaybox.cli.options import AsJson, answer
from relaybox.cli.printable import print_text
from relaybox.cli.usage import CommandList, UsageError

if TYPE_CHECKING:
    from relaybox.contracts.topic_schemas import TopicSchemas
    from relaybox.routes import Routes

commands = CommandList()


class Format(StrEnum):
    """How the document is written."""

    YAML = "yaml"
    JSON = "json"


@commands.command()
def schemas(
    context: typer.Context,
    *,
    as_sql: Annotated[
        bool,
        typer.Option(
            "--sql", help="Write a script of psql: functions with which a database checks payloads. Run it as their owner."
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Check the schemas of topics: each is a JSON Schema, and takes each message that the version before it took.

    Reads the files under `schemas` of relaybox.yaml, and connects to nothing. The exit code is 1 if a version
    refuses messages that the one before it took; then --sql writes no script.

    \b
    Examples:
      relaybox schemas
      relaybox schemas --sql > checks.sql
      relaybox --config deploy/relaybox.yaml schemas --json
    """
    from relaybox.documents.contracts import SchemasDocument

    if as_sql and as_json:
        raise UsageError("Choose one of --sql and --json.")
    settings: Settings = context.obj
    routes = settings.load_routes()
    read = _read_schemas(routes)
    breaks = list(read.breaks())
    lines = [
        f"topic {topic}, version {version}: {file}"
        for topic, files in routes.schemas.items()
        for version, file in enumerate(files, 1)
    ]
    if as_sql:
        _print_script(read, is_refused=bool(breaks))
    else:
        answer("\n".join(lines) or "relaybox.yaml names no schemas.", SchemasDocument.of(routes, breaks), as_json=as_json)
    for one in breaks:
        print_text(
            f"error: {one}. Consumers that replay meet both versions. Correct the file, or give the messages a new topic.",
            stderr=True,
        )
    raise typer.Exit(ExitCode.DEFECT_FOUND if breaks else ExitCode.FINE)


def _print_script(read: TopicSchemas, *, is_refused: bool) -> None:
    from relaybox.contracts.sql_check import list_formats, write_sql_check

    script = write_sql_check(read)
    for place in list_formats(read):
        print_text(f"note: {place} is not checked, as in TopicSchemas.require.", stderr=True)
    if not is_refused:
        sys.stdout.write(script)


@commands.command()
def asyncapi(
    context: typer.Context,
    title: Annotated[str, typer.Option("--title", help="Title of the document.")] = "Messages between stores",
    version: Annotated[str, typer.Option("--document-version", help="Version of the document.")] = "1.0.0",
    format_: Annotated[Format, typer.Option("--format", help="How the document is written.")] = Format.YAML,
) -> None:
    """Write the AsyncAPI 3.0 document of relaybox.yaml: topics, stores, who sends and receives, and the schemas.

    Connects to nothing, and names no host: a server is the libpq service of a store.

    \b
    Examples:
      relaybox asyncapi > asyncapi.yaml
      relaybox asyncapi --title "Flights" --document-version 2.1.0 --format json
    """
    import yaml

    from relaybox.contracts.asyncapi import build_asyncapi

    settings: Settings = context.obj
    routes = settings.load_routes()
    document = build_asyncapi(routes, _read_schemas(routes), title=title, version=version)
    if format_ is Format.JSON:
        print(json.dumps(document, indent=2))
    else:
        print_text(yaml.safe_dump(document, sort_keys=False, width=120).rstrip("\n"))


def _read_schemas(routes: Routes) -> TopicSchemas:
    from relaybox.contracts.topic_schemas import TopicSchemas

    return TopicSchemas.read(routes.schemas, routes.path.parent)
