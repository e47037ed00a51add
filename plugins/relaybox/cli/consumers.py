"""`relaybox subscriptions`, `consume`, `replay` and `dead-letters`: the commands, and what they do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from relaybox.cli.exits import CommandGroup, ExitCode, Failures, Settings
from relaybox.cli.options import AsJson, answer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from relaybox.consumers.subscriptions import DeadLetter, Subscribed
    from relaybox.consuming import Message, UnreadLane
    from relaybox.routes import Routes, Store

SubscriptionName = Annotated[str, typer.Argument(metavar="SUBSCRIPTION", help="The subscription's name.")]
AtStore = Annotated[
    str | None, typer.Option("--store", help="The store that has it. Default: the one that has.", show_default=False)
]
Reason = Annotated[str, typer.Option("--reason", help="Why; it is recorded.", show_default=False)]

LISTED_CHARACTERS = 300
"""Of each payload in the JSON of a list; `show` has the whole one."""

dead_letters = typer.Typer(
    cls=CommandGroup, help="List, show, redrive and drop messages that were set aside.", no_args_is_help=True
)


def subscriptions(
    context: typer.Context,
    store: Annotated[str | None, typer.Argument(metavar="[STORE]", help="Only this store.", show_default=False)] = None,
    as_json: AsJson = False,
) -> None:
    """List the subscriptions of every store: how far they are, how far behind, who has their lanes, dead letters.

    \b
    Examples:
      relaybox subscriptions
      relaybox subscriptions analytics --json
    """
    from relaybox.consumers.subscriptions import list_subscriptions

    _list(context.obj, store, list_subscriptions, "subscriptions", _print_subscriptions, as_json=as_json)


def consume(
    context: typer.Context,
    subscription: SubscriptionName,
    store: AtStore = None,
    follow: Annotated[bool, typer.Option("--follow", help="Wait for more, until Ctrl-C or SIGTERM.")] = False,
    count: Annotated[int | None, typer.Option("--count", min=1, help="Stop after so many.", show_default=False)] = None,
    source: Annotated[
        str | None,
        typer.Option("--subscribe", metavar="STREAM", help="Subscribe first: to a stream or a topic.", show_default=False),
    ] = None,
    start: Annotated[str, typer.Option("--from", help="With --subscribe: earliest, latest, a place, or a time.")] = "earliest",
    lane: Annotated[int | None, typer.Option("--lane", min=1, help="Only this lane.", show_default=False)] = None,
) -> None:
    """Print the messages of a subscription as JSON lines, and acknowledge each once it is written.

    Without --follow it ends when a fetch gives nothing. Exit code 3: other lanes have more (leased to other workers, say); stderr says
    which, until when.

    \b
    Examples:
      relaybox consume billing
      relaybox consume billing --follow | jq .payload
      relaybox consume look --store analytics --subscribe flights --from latest --count 10
    """
    from relaybox.consumers.subscriptions import subscribe
    from relaybox.consuming import Consumer

    at = _store_of(_routes(context), subscription, store, must_exist=source is None)
    if source is not None:
        subscribe(at, subscription, source, start)
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


def replay(
    context: typer.Context,
    subscription: SubscriptionName,
    start: Annotated[
        str | None, typer.Option("--from", help="earliest, a place, or a time of delivery.", show_default=False)
    ] = None,
    through: Annotated[
        str | None, typer.Option("--through", help="With --second-cursor: the last place, or a time.", show_default=False)
    ] = None,
    second_cursor: Annotated[
        bool, typer.Option("--second-cursor", help="Open a second cursor; the live cursor is not moved.")
    ] = False,
    rows_per_second: Annotated[
        int | None, typer.Option("--rows-per-second", min=1, help="No faster than this.", show_default=False)
    ] = None,
    reason: Annotated[
        str | None, typer.Option("--reason", help="Do it, and record why. Without it: only count.", show_default=False)
    ] = None,
    cancel: Annotated[bool, typer.Option("--cancel", help="End the replay that is going on.")] = False,
    store: AtStore = None,
    as_json: AsJson = False,
) -> None:
    """Read again: move a subscription's cursor back, or open a second cursor. Without --reason only count messages, bytes and time.

    \b
    Examples:
      relaybox replay billing --from earliest
      relaybox replay billing --from 2026-07-01T00:00Z --rows-per-second 500 --reason "invoices were wrong"
      relaybox replay billing --from 1000 --through 2000 --second-cursor --reason "compare"
      relaybox replay billing --cancel --reason "wrong month"
    """
    from dataclasses import asdict

    from relaybox import errors
    from relaybox.consumers import subscriptions as steer
    from relaybox.monitoring import documents

    at = _store_of(_routes(context), subscription, store)
    if cancel:
        if not reason:
            raise errors.ConfigurationError(
                "replay --cancel needs --reason.", next_step=f'Run: relaybox replay {subscription} --cancel --reason "..."'
            )
        steer.cancel_replay(at, subscription, reason=reason)
        answer(f"{subscription}: the replay is cancelled", {"subscription": subscription, "cancelled": True}, as_json=as_json)
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
        documents.write(asdict(begun))
        return
    if begun.is_empty:
        reach = "through" if second_cursor else f"on: {subscription} is done through"
        print(
            f"{subscription}: 0 messages: there is none from place {begun.first_place} {reach} place {begun.last_place}. "
            "Nothing was changed."
        )
        return
    print(
        f"{begun.replayed_as}: places {begun.first_place} to {begun.last_place}, {begun.message_count:,} messages, "
        f"{begun.byte_count:,} bytes, about {begun.estimated_seconds:.1f} s"
    )
    if begun.dry_run:
        print('Nothing was changed. To do it, add: --reason "..."')


@dead_letters.command("list")
def list_(
    context: typer.Context,
    store: Annotated[str | None, typer.Argument(metavar="[STORE]", help="Only this store.", show_default=False)] = None,
    subscription: Annotated[
        str | None, typer.Option("--subscription", help="Only of this subscription.", show_default=False)
    ] = None,
    settled: Annotated[bool, typer.Option("--all", help="Those redriven and dropped too.")] = False,
    as_json: AsJson = False,
) -> None:
    """List dead letters: of consumers, and of streams. With --json, of each payload the first 300 characters; `show` has all of it.

    \b
    Examples:
      relaybox dead-letters list
      relaybox dead-letters list analytics --subscription billing --all --json
    """
    from relaybox.consumers.subscriptions import OPEN_STATES, list_dead_letters

    states = (*OPEN_STATES, "redriven", "dropped") if settled else OPEN_STATES
    _list(
        context.obj,
        store,
        lambda at: list_dead_letters(at, subscription=subscription, states=states, payload_characters=LISTED_CHARACTERS),
        "dead_letters",
        _print_letters,
        as_json=as_json,
    )


@dead_letters.command()
def show(
    context: typer.Context,
    store: Annotated[str, typer.Argument(metavar="STORE", help="The store that has it.")],
    letter: Annotated[int, typer.Argument(metavar="LETTER", help="Its number, as in the list.")],
    as_json: AsJson = False,
) -> None:
    """Show one dead letter with its message.

    \b
    Examples:
      relaybox dead-letters show analytics 17
    """
    from dataclasses import asdict

    from relaybox import errors
    from relaybox.consumers.subscriptions import list_dead_letters
    from relaybox.monitoring import documents

    found = list_dead_letters(_routes(context).store(store), letter=letter)
    if not found:
        raise errors.DeadLetterNotOpen(f"store {store} has no dead letter {letter}.", next_step="See: relaybox dead-letters list")
    if as_json:
        documents.write(asdict(found[0]))
        return
    for name, value in asdict(found[0]).items():
        print(f"{name:15} {'' if value is None else value}")


@dead_letters.command()
def redrive(
    context: typer.Context,
    subscription: SubscriptionName,
    reason: Reason,
    letter: Annotated[int | None, typer.Option("--letter", help="Only this one.", show_default=False)] = None,
    store: AtStore = None,
    as_json: AsJson = False,
) -> None:
    """Give dead letters to the subscription's consumers again, in the order of their places.

    \b
    Examples:
      relaybox dead-letters redrive billing --reason "customer made"
      relaybox dead-letters redrive billing --letter 17 --reason "fixed in 1.4"
    """
    from relaybox.consumers import subscriptions as steer

    count = steer.redrive(_store_of(_routes(context), subscription, store), subscription, reason=reason, letter=letter)
    answer(f"{subscription}: {count} redriven", {"subscription": subscription, "redriven": count}, as_json=as_json)


@dead_letters.command()
def drop(
    context: typer.Context,
    store: Annotated[str, typer.Argument(metavar="STORE", help="The store that has it.")],
    letter: Annotated[int, typer.Argument(metavar="LETTER", help="Its number, as in the list.")],
    reason: Reason,
    as_json: AsJson = False,
) -> None:
    """Give up a dead letter; its message stays in the log.

    \b
    Examples:
      relaybox dead-letters drop analytics 17 --reason "test data"
    """
    from relaybox.consumers import subscriptions as steer

    steer.drop_dead_letter(_routes(context).store(store), letter, reason=reason)
    answer(f"{store}: dead letter {letter} is dropped", {"store": store, "letter": letter, "dropped": True}, as_json=as_json)


def _routes(context: typer.Context) -> Routes:
    from relaybox.routes import load_routes

    return load_routes(context.obj.config)


def _store_of(routes: Routes, subscription: str, named: str | None, *, must_exist: bool = True) -> Store:
    """The store that --store names, or the one that has the subscription."""
    from relaybox import errors
    from relaybox.consumers.subscriptions import find_subscription

    if named is not None:
        return routes.store(named)
    if not must_exist:
        raise errors.ConfigurationError("--subscribe needs --store.", next_step=f"Stores: {', '.join(routes.stores)}.")
    return find_subscription(routes.stores.values(), subscription)


def _list(
    settings: Settings,
    named: str | None,
    read: Callable[[Store], list[Any]],
    key: str,
    show_rows: Callable[[list[Any]], None],
    *,
    as_json: bool,
) -> None:
    """Rows of every store or of one. A store that fails hides no other; its error is told at the end."""
    from dataclasses import asdict

    from relaybox.monitoring import documents
    from relaybox.routes import load_routes

    routes = load_routes(settings.config)
    found: list[Any] = []
    failures = Failures()
    for one in [routes.store(named)] if named else routes.stores.values():
        with failures.kept(one.name):
            found += read(one)
    if as_json:
        documents.write({key: [asdict(row) for row in found], "errors": failures.document()})
    else:
        show_rows(found)
    failures.end(debug=settings.debug)


def _print_subscriptions(found: list[Subscribed]) -> None:
    from relaybox.cli.show import show_subscriptions

    show_subscriptions(found)


def _print_letters(found: list[DeadLetter]) -> None:
    from relaybox.cli.show import show_dead_letters

    show_dead_letters(found)


def _tell_unread(subscription: str, printed: int, unread: Sequence[UnreadLane]) -> None:
    """On stderr: how many messages were printed, and what was not, since other workers have it or it waits."""
    for lane in unread:
        where = f"subscription {subscription}: lane {lane.lane}"
        if lane.worker is not None:
            said = f"{where} is leased to worker {lane.worker} until {lane.leased_until}; its messages were not printed"
        else:
            said = f"{where} gave nothing: a refused message or a replay waits, an open transaction holds it, or messages came just now"
        typer.echo(f"{said} (places behind: {lane.places})", err=True)
    typer.echo(f"{printed} messages were printed; {len(unread)} lanes have more. Run it again later, or with --follow.", err=True)


def _print_message(message: Message) -> None:
    """One JSON line, written out before the message is acknowledged."""
    import base64
    import json
    from dataclasses import fields

    document = {field.name: getattr(message, field.name) for field in fields(message)}
    if message.payload_bytes is not None:
        document["payload_bytes"] = base64.b64encode(message.payload_bytes).decode()
    print(json.dumps(document, default=str, ensure_ascii=False), flush=True)
