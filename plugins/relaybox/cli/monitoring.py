"""Commands that tell how hops, stores and messages are: status, where, metrics."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated
from uuid import UUID

import typer

from relaybox.amounts import amount
from relaybox.cli.exits import ExitCode, Settings, exit_code, tell, warn_unanswered, worst
from relaybox.cli.options import AsJson
from relaybox.cli.printable import print_text
from relaybox.cli.readers import warn_of_readers
from relaybox.cli.usage import CommandList

if TYPE_CHECKING:
    from relaybox.errors import RelayboxError
    from relaybox.monitoring.status import Status
    from relaybox.retention.retiring import Backlog

commands = CommandList()


@commands.command()
def status(
    context: typer.Context,
    name: Annotated[
        str | None, typer.Argument(metavar="[ROUTE|HOP]", help="Only this route, or only this hop.", show_default=False)
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show every hop: sent, received, lag, last batch, settled, R, UR and delivery mode; per route the product.

    lag is the number of messages that are sent and not received, and the age of the oldest. settled is the position through
    which the policy of the route holds. R and UR are the rates of the messages that are due: unique received / sent, and unique
    received / all received. The last table is what the destination delivers of the log of each hop.

    A store that does not answer hides no other hop. Warnings are of all stores, also with ROUTE or HOP.

    Exit codes: 0 nothing is wrong; 2 something needs a decision, as the warnings say; 4 a store does not answer; 5 a store lost
    history, a hop was retired, or messages are in no batch or in two.

    \b
    Examples:
      relaybox status
      relaybox status flights
      relaybox --config /etc/relaybox.yaml status --json
    """
    from relaybox.monitoring.status import read_status

    settings: Settings = context.obj
    routes = settings.load_routes()
    chosen = routes.hops if name is None else routes.hops_of(name)
    found = read_status(routes).only(chosen)
    if as_json:
        from relaybox.documents.document import write
        from relaybox.documents.status import StatusDocument

        write(StatusDocument.of(found))
    else:
        from relaybox.cli.terminal.monitoring import show_status

        show_status(found)
    raise typer.Exit(_tell_problems(found, debug=settings.debug))


def _tell_problems(status: Status, *, debug: bool) -> ExitCode:
    from relaybox.cli.terminal.tables import show_time

    found = {str(error): error for hop in status.hops for error in hop.errors}
    for error in found.values():
        tell(error, debug=debug)
    for topic in status.unrouted:
        print_text(
            f"warning: store {topic.store}: {amount(topic.message_count, 'message')} of topic {topic.topic}, which no hop reads, "
            f"the oldest from {show_time(topic.first_sent_at)}. {topic.next_step}",
            stderr=True,
        )
    for hop in status.orphaned_hops:
        print_text(
            f"warning: hop {hop.hop} is in no route of relaybox.yaml: {hop.store} keeps "
            f"{amount(hop.waiting_count, 'message')} that no batch has and "
            f"{amount(hop.unsettled_count, 'that is not settled', 'that are not settled')}. {_what_to_do(hop)}",
            stderr=True,
        )
    for endpoint in status.failing_endpoints:
        waiting_count = amount(endpoint.waiting_count, "message waits", "messages wait")
        print_text(
            f"warning: store {endpoint.store}: endpoint {endpoint.endpoint} of subscription {endpoint.subscription} has taken no message "
            f"since {show_time(endpoint.failing_since)} ({amount(endpoint.failure_count, 'failed attempt')}, the newest: "
            f"{endpoint.reason}). {waiting_count}, and none is refused. {endpoint.next_step}",
            stderr=True,
        )
    warn_of_readers(status.reader_problems)
    waiting = [*status.unrouted, *status.orphaned_hops, *(one for one in status.reader_problems if one.needs_decision)]
    return worst([*map(exit_code, found.values()), *(ExitCode.CONFIGURATION for _ in waiting)])


def _what_to_do(hop: Backlog) -> str:
    if hop.in_use is not None:
        return f"It is in use: {hop.in_use}. {hop.in_use_next_step}"
    return f"To move them, bring the route back and run: relaybox init. To discard them: relaybox retire {hop.hop}"


@commands.command()
def where(
    context: typer.Context,
    message_id: Annotated[UUID, typer.Argument(metavar="MESSAGE_ID", help="The message's id, a uuid.")],
    route: Annotated[str | None, typer.Option("--route", help="Only along this route.", show_default=False)] = None,
    as_json: AsJson = False,
) -> None:
    """Show the whole way of one message: outbox, and at each hop batch, slice, position, arrival and confirmations.

    \b
    Examples:
      relaybox where 01a1fc57-61bd-7659-92d2-53639fb0a769
      relaybox where 01a1fc57-61bd-7659-92d2-53639fb0a769 --route flights --json
    """
    from relaybox.cli.terminal.monitoring import show_traces
    from relaybox.documents.document import write
    from relaybox.documents.traces import TracesDocument
    from relaybox.monitoring.message_trace import trace_message

    settings: Settings = context.obj
    routes = settings.load_routes()
    followed = list(routes.routes.values()) if route is None else [routes.route(route)]
    unanswered: dict[str, RelayboxError] = {}
    traces = trace_message(followed, message_id, unanswered=unanswered)
    if as_json:
        write(TracesDocument.of(traces, unanswered))
    else:
        show_traces(traces)
    for store, error in unanswered.items():
        warn_unanswered(error, f"Whether {store} has a message of this id too is unknown.")


@commands.command()
def metrics(context: typer.Context, as_json: AsJson = False) -> None:
    """Write the metrics of all hops and stores as OpenMetrics text, for a monitoring system.

    Alert rules: docs/alerts.yml. Dashboard: docs/grafana-dashboard.json. A store that does not answer is a metric too.

    \b
    Examples:
      relaybox metrics
      relaybox metrics | grep relaybox_hop_lag
    """
    from relaybox.documents.document import write
    from relaybox.documents.metrics import MetricSample, MetricsDocument
    from relaybox.monitoring.metrics import collect, read_store_metrics, render
    from relaybox.monitoring.status import read_status

    settings: Settings = context.obj
    routes = settings.load_routes()
    found, store_metrics = read_status(routes), read_store_metrics(routes)
    samples = collect(found, store_metrics)
    if not as_json:
        sys.stdout.write(render(samples))
        return
    write(MetricsDocument(measured_at=found.measured_at, samples=[MetricSample.model_validate(sample) for sample in samples]))
