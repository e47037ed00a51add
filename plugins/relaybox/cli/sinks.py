"""What `relaybox webhook` and `relaybox kafka` have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from relaybox.amounts import amount
from relaybox.cli.exits import ExitCode, Failures, Settings
from relaybox.cli.options import answer
from relaybox.cli.printable import print_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from relaybox.routes import Sink
    from relaybox.sinks.running import SinkRun
    from relaybox.sinks.secrets import FindSecret

UntilEmpty = Annotated[
    bool, typer.Option("--until-empty", help="End when nothing waits, or when the endpoint's circuit breaker is open.")
]
BeginAnew = Annotated[bool, typer.Option("--begin-anew", help="Subscribe again, from `start` on, if the subscription was ended.")]


def run_sink(settings: Settings, sink: Sink, *, until_empty: bool, begin_anew: bool, as_json: bool) -> None:
    """Delivers, and tells how it ended."""
    from relaybox.documents.document import write
    from relaybox.documents.sinks import SinkRunDocument
    from relaybox.sinks.running import SinkRunner

    ended = SinkRunner(sink, find_secrets(settings), until_empty=until_empty).run(begin_anew=begin_anew)
    if as_json:
        write(SinkRunDocument.model_validate(ended))
    else:
        _show_run(sink, ended)
    if ended.unread:
        raise typer.Exit(ExitCode.IN_FLIGHT)


def find_secrets(settings: Settings) -> FindSecret:
    """Where this command reads secrets: in its environment, and with --airflow in Airflow's connections."""
    if settings.airflow:
        from relaybox.airflow.command_line import find_secret

        return find_secret
    from relaybox.sinks.secrets import find_in_environment

    return find_in_environment


def list_sinks(settings: Settings, sinks: Sequence[Sink], *, as_json: bool) -> None:
    """Lists sinks. A store that fails hides no other."""
    from relaybox.cli.terminal.sinks import show_sinks
    from relaybox.documents.document import write
    from relaybox.documents.sinks import SinksDocument
    from relaybox.sinks.states import read_sinks

    routes, failures, found = settings.load_routes(), Failures(), []
    for store in dict.fromkeys(sink.store.name for sink in sinks):
        own = [sink for sink in sinks if sink.store.name == store]
        with failures.kept(store):
            found += read_sinks(own[0].store, own, routes)
    if as_json:
        write(SinksDocument.of(found, failures.document()))
    elif found or not failures.by_store:
        show_sinks(found)
    failures.end(debug=settings.debug)


def retry_sink(sink: Sink, *, as_json: bool) -> None:
    """Ends the pause of an endpoint."""
    from relaybox.documents.sinks import SinkRetriedDocument
    from relaybox.sinks.states import retry_sink as retry

    was_failing = retry(sink)
    text = (
        f"{sink.name}: the pause is over. A run that waits tries within 5 s, the next run tries at once"
        if was_failing
        else f"{sink.name}: its endpoint {sink.endpoint} was not failing. Nothing was changed"
    )
    document = SinkRetriedDocument(sink=sink.name, subscription=sink.subscription, was_failing=was_failing)
    answer(text, document, as_json=as_json)


def _show_run(sink: Sink, ended: SinkRun) -> None:
    delivered = amount(ended.delivered_count, "message was delivered", "messages were delivered")
    print_text(f"{sink.name}: {delivered} to {sink.endpoint}, {amount(ended.refused_count, 'refusal')}")
    if ended.dead_letter_count:
        print_text(
            f"{amount(ended.dead_letter_count, 'message became a dead letter', 'messages became dead letters')}. "
            f"See: relaybox dead-letters list {sink.store.name} --subscription {sink.subscription}",
            stderr=True,
        )
    for lane in ended.unread:
        said = f"leased to {lane.worker} until {lane.leased_until}" if lane.worker else "not due yet, or arrived just now"
        print_text(f"lane {lane.lane} has more (stream positions behind: {lane.stream_positions}): {said}", stderr=True)
