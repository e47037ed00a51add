"""Commands for tables of applications whose rows are sent: adopt, unadopt."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from relaybox.cli.exits import ExitCode, Settings
from relaybox.cli.options import AsJson, answer
from relaybox.cli.usage import CommandList

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from relaybox.routes import Store

commands = CommandList()

StoreName = Annotated[str, typer.Argument(metavar="STORE", help="The store whose database has the table.")]
TableName = Annotated[str, typer.Argument(metavar="TABLE", help="The table, as SCHEMA.TABLE; without a schema: of public.")]


@commands.command()
def adopt(
    context: typer.Context,
    store: StoreName,
    table: TableName,
    *,
    maps: Annotated[
        list[str] | None,
        typer.Option(
            "--map",
            metavar="FIELD=TEXT",
            help=(
                "A part of a message: message_id, topic, sender, key, payload, headers or header.NAME, from a column, a constant in "
                "quotes, or a pattern with {columns}. May be repeated. relaybox.yaml decides if it has the table."
            ),
            show_default=False,
        ),
    ] = None,
    on_unmapped: Annotated[
        str | None,
        typer.Option(
            "--on-unmapped",
            metavar="fail|set_aside",
            help=(
                "A row that can't be a message: its insert fails, or it is kept apart as unmapped. Default: as on record, else fail."
            ),
            show_default=False,
        ),
    ] = None,
    backlog: Annotated[
        bool, typer.Option("--backlog", help="Send also the rows that are there, once, before later ones.")
    ] = False,
    order_by: Annotated[
        list[str] | None,
        typer.Option(
            "--order-by",
            metavar="COLUMN",
            help="Order of the backlog. May be repeated. Default: a numeric primary key, else a column of a time; docs/adopt.md.",
            show_default=False,
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Change nothing: show what is in the way, and ten rows as they would travel.")
    ] = False,
    send_unmapped: Annotated[
        bool, typer.Option("--send-unmapped", help="Afterwards send the unmapped rows, if they are messages now.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Send what an application inserts into a table of its own, such as an outbox of Debezium. The application is not changed.

    A trigger copies each new row into the outbox of the store, in the transaction of the application. The
    login is the owner of Relaybox and has the rights of the owner of the table. Idempotent: it also
    repairs a trigger, follows a changed map, and finishes a backlog that was interrupted.

    \b
    Examples:
      relaybox adopt shop public.outboxevent --dry-run
      relaybox adopt shop public.outboxevent --backlog
      relaybox adopt shop public.events --map topic=kind --map "sender='shop'" --map message_id={id} --map header.trace=trace_id
    """
    settings: Settings = context.obj
    chosen = settings.load_routes().store(store)
    mapped, on_unmapped = _read_options(maps or [], on_unmapped)
    if dry_run:
        _show_plan(chosen, table, mapped, on_unmapped, order_by or [], as_json=as_json)
        return
    from relaybox.adoption.adopting import SentUnmapped, adopt_table
    from relaybox.adoption.adopting import send_unmapped as send
    from relaybox.cli.terminal.adoption import backlog_bar, describe_adoption
    from relaybox.documents.adoption import AdoptionDocument

    with backlog_bar(table) as progress:
        done = adopt_table(
            chosen,
            table,
            mapped=mapped,
            on_unmapped=on_unmapped,
            with_backlog=backlog,
            order_by=order_by or [],
            progress=progress,
        )
    sent = send(chosen, table) if send_unmapped else SentUnmapped(0, 0)
    text = describe_adoption(done, sent if send_unmapped else None)
    answer(text, AdoptionDocument.of(done, sent), as_json=as_json)
    if sent.left_count:
        raise typer.Exit(ExitCode.DEFECT_FOUND)


def _read_options(maps: list[str], on_unmapped: str | None) -> tuple[Mapping[str, Any] | None, str | None]:
    from relaybox.errors import ConfigurationError
    from relaybox.routes.adopt_rules import ON_UNMAPPED, BrokenMap, parse_map_options

    if on_unmapped is not None and on_unmapped not in ON_UNMAPPED:
        raise ConfigurationError(f"--on-unmapped {on_unmapped}: expected {' or '.join(ON_UNMAPPED)}.")
    try:
        return parse_map_options(maps) if maps else None, on_unmapped
    except BrokenMap as broken:
        raise ConfigurationError(f"{broken}.", next_step="See docs/adopt.md, or run: relaybox adopt --help") from None


def _show_plan(
    store: Store,
    table: str,
    mapped: Mapping[str, Any] | None,
    on_unmapped: str | None,
    order_by: list[str],
    *,
    as_json: bool,
) -> None:
    from relaybox.adoption.adopting import examine
    from relaybox.cli.terminal.adoption import show_plan
    from relaybox.documents.adoption import AdoptionPlanDocument
    from relaybox.documents.document import write

    wanted, examination = examine(store, table, mapped=mapped, on_unmapped=on_unmapped, order_by=order_by)
    if as_json:
        write(AdoptionPlanDocument.of(store.name, wanted, examination))
    else:
        show_plan(store.name, wanted, examination)
    if examination.refusals or (examination.unmapped and wanted.on_unmapped == "fail"):
        raise typer.Exit(ExitCode.DEFECT_FOUND)


@commands.command()
def unadopt(
    context: typer.Context,
    store: StoreName,
    table: TableName,
    drop_unmapped: Annotated[
        bool, typer.Option("--drop-unmapped", help="Give up unmapped rows; without it they refuse the command.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """End the adoption of a table: what is inserted from now on is not sent. What was inserted before is.

    Nothing of the adoption is left; the table stays.

    \b
    Examples:
      relaybox unadopt shop public.outboxevent
      relaybox unadopt shop public.outboxevent --drop-unmapped --json
    """
    from relaybox.adoption.adopting import unadopt_table
    from relaybox.cli.terminal.adoption import describe_unadopted
    from relaybox.documents.adoption import UnadoptedDocument

    chosen = context.obj.load_routes().store(store)
    done = unadopt_table(chosen, table, drop_unmapped=drop_unmapped)
    answer(describe_unadopted(done, chosen), UnadoptedDocument.model_validate(done), as_json=as_json)
