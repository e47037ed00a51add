"""Commands of consumers: consume, replay."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from relaybox.amounts import amount
from relaybox.cli.exits import ExitCode
from relaybox.cli.options import AsJson, answer
from relaybox.cli.printable import print_text
from relaybox.cli.readers import warn_of_readers
from relaybox.cli.subscription_options import AtStore, SubscriptionName, store_of
from relaybox.cli.usage import CommandList

if TYPE_CHECKING:
    from collections.abc import Sequence

    from relaybox.consumer import Message, UnreadLane

commands = CommandList()


@commands.command()
def consume(
    context: typer.Context,
    subscription: SubscriptionName,
    store: AtStore = None,
    follow: Annotated[bool, typer.Option("--follow", help="Wait for more messages, until Ctrl-C or SIGTERM.")] = False,
    count: Annotated[
        int | None, typer.Option("--count", min=1, help="Stop after this many messages.", show_default=False)
    ] = None,
    source: Annotated[
        str | None,
        typer.Option(
            "--subscribe", metavar="STREAM", help="Create the subscription first: to this stream or topic.", show_default=False
        ),
    ] = None,
    start: Annotated[
        str, typer.Option("--from", help="With --subscribe: earliest, latest, a stream position, or a time.")
    ] = "earliest",
    lane: Annotated[int | None, typer.Option("--lane", min=1, help="Only this lane.", show_default=False)] = None,
) -> None:
    """Print the messages of a subscription as JSON lines. Each is acknowledged after it is written.

    If the subscription gets nothing new, or less than it did, stderr says why and what to do.
    Without --follow the command ends when a fetch returns no message. Exit code 3: other lanes have more
    messages, for example lanes that other workers lease; stderr says which lanes, and until when.

    \b
    Examples:
      relaybox consume billing
      relaybox consume billing --follow | jq .payload
      relaybox consume look --store analytics --subscribe flights --from latest --count 10
    """
    from relaybox.consumer import Consumer
    from relaybox.errors import AlreadySubscribed, ConfigurationError
    from relaybox.subscriptions.subscriptions import find_reader_problem, subscribe

    routes = context.obj.load_routes()
    at = store_of(routes, subscription, store, must_exist=source is None)
    if source is not None:
        if lane is not None and lane > 1:
            raise ConfigurationError(
                f"--lane {lane}: a subscription that --subscribe makes has one lane; nothing was made.",
                next_step=f"Leave --lane out, or subscribe first: select relaybox.subscribe('{subscription}', '{source}', lanes => {lane})",
            )
        try:
            subscribe(at, subscription, source, start)
        except AlreadySubscribed as error:
            raise AlreadySubscribed(
                f"store {at.name} has the subscription {subscription} already; nothing was changed.",
                next_step=f"Leave --subscribe out: relaybox consume {subscription} --store {at.name}. Or choose another name.",
            ) from error
    problem = find_reader_problem(at, routes, subscription)
    warn_of_readers([] if problem is None else [problem])
    most = min(100, count or 100)
    with Consumer(at.service, subscription, max_count=most, commit_every=most, until_empty=not follow, lane=lane) as consumer:
        number = 0
        for number, message in enumerate(consumer, start=1):
            _print_message(message)
            if number == count:
                consumer.stop()
        if consumer.unread:
            _tell_unread(subscription, number, consumer.unread)
            raise typer.Exit(ExitCode.IN_FLIGHT)


@commands.command()
def replay(
    context: typer.Context,
    subscription: SubscriptionName,
    start: Annotated[
        str | None, typer.Option("--from", help="earliest, a stream position, or a time of delivery.", show_default=False)
    ] = None,
    through: Annotated[
        str | None,
        typer.Option("--through", help="With --second-cursor: the last stream position, or a time.", show_default=False),
    ] = None,
    second_cursor: Annotated[
        bool, typer.Option("--second-cursor", help="Open a second cursor; the live cursor is not moved.")
    ] = False,
    rows_per_second: Annotated[
        int | None,
        typer.Option("--rows-per-second", min=1, help="Read at most this many messages per second.", show_default=False),
    ] = None,
    reason: Annotated[
        str | None, typer.Option("--reason", help="Do it, and record why. Without it: a dry run that counts.", show_default=False)
    ] = None,
    cancel: Annotated[bool, typer.Option("--cancel", help="Cancel the current replay.")] = False,
    store: AtStore = None,
    as_json: AsJson = False,
) -> None:
    """Read messages again: move the cursor of a subscription back, or open a second cursor.

    Without --reason nothing is changed: the command counts messages and bytes, and estimates the time.

    \b
    Examples:
      relaybox replay billing --from earliest
      relaybox replay billing --from 2026-07-01T00:00Z --rows-per-second 500 --reason "invoices were wrong"
      relaybox replay billing --from 1000 --through 2000 --second-cursor --reason "compare"
      relaybox replay billing --cancel --reason "wrong month"
    """
    import shlex

    from relaybox import errors
    from relaybox.documents.consumers import CancelledReplayDocument, ReplayDocument
    from relaybox.documents.document import write
    from relaybox.subscriptions import subscriptions as steer

    at = store_of(context.obj.load_routes(), subscription, store)
    if cancel:
        if not reason:
            raise errors.ConfigurationError(
                "replay --cancel needs --reason.",
                next_step=f'Run: relaybox replay {shlex.quote(subscription)} --cancel --reason "..."',
            )
        steer.cancel_replay(at, subscription, reason=reason)
        cancelled = CancelledReplayDocument(subscription=subscription, cancelled=True)
        answer(f"{subscription}: replay cancelled", cancelled, as_json=as_json)
        return
    if start is None:
        raise errors.ConfigurationError("replay needs --from, or --cancel.", next_step="Run: relaybox replay --help")
    begun = steer.replay(
        at,
        subscription,
        start,
        reason=reason or "dry run",
        through=through,
        second_cursor=second_cursor,
        rows_per_second=rows_per_second,
        dry_run=not reason,
    )
    if as_json:
        write(ReplayDocument.model_validate(begun))
        return
    if begun.is_empty:
        end = "to" if second_cursor else f"on. {subscription} is done through"
        print_text(
            f"{subscription}: 0 messages from stream position {begun.first_stream_position} {end} "
            f"stream position {begun.last_stream_position}. "
            "Nothing was changed."
        )
        return
    print_text(
        f"{begun.replayed_as}: stream positions {begun.first_stream_position} to {begun.last_stream_position}, "
        f"{amount(begun.message_count, 'message')}, "
        f"{amount(begun.byte_count, 'byte')}, about {begun.estimated_seconds:.1f} s"
    )
    if begun.dry_run:
        print_text('Nothing was changed. To do it, add: --reason "..."')


def _tell_unread(subscription: str, printed: int, unread: Sequence[UnreadLane]) -> None:
    """Writes to stderr how many messages were printed, and why lanes have more."""
    for lane in unread:
        where = f"subscription {subscription}: lane {lane.lane}"
        if lane.worker is not None:
            said = f"{where} is leased to worker {lane.worker} until {lane.leased_until}; its messages were not printed"
        else:
            said = (
                f"{where} returned no message: a refused message or a replay waits for its time, "
                "an open transaction blocks the lane, or messages arrived just now"
            )
        print_text(f"{said} (stream positions behind: {lane.stream_positions})", stderr=True)
    print_text(
        f"{amount(printed, 'message was printed', 'messages were printed')}; "
        f"{amount(len(unread), 'lane has more', 'lanes have more')}. Run the command again later, or with --follow.",
        stderr=True,
    )


def _print_message(message: Message) -> None:
    """One JSON line, written out before the message is acknowledged."""
    from relaybox.documents.consumers import MessageDocument
    from relaybox.documents.document import json_line

    print(json_line(MessageDocument.model_validate(message)), flush=True)
