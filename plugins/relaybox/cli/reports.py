"""The commands that only read: status, where, verify."""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import TYPE_CHECKING

import typer

from relaybox.cli.exits import ExitCode, Settings, exit_code, tell, worst
from relaybox.cli.spark import spark_comparison
from relaybox.monitoring import documents
from relaybox.monitoring.status import Status, read_status
from relaybox.monitoring.tracing import trace_message
from relaybox.proofs.comparison_runners import ComparisonTooLarge
from relaybox.proofs.proof import RouteProof
from relaybox.proofs.verification import proof_session, verify_route
from relaybox.routes import Route, Routes, load_routes

if TYPE_CHECKING:
    from collections.abc import Callable
    from uuid import UUID

    from relaybox.proofs.verification import VerifyProgress


def run_status(settings: Settings, *, as_json: bool) -> None:
    """Shows all hops. Exit 4 or 5 if a store did not answer or lost history, 2 if messages wait that no hop will move."""
    status = read_status(load_routes(settings.config))
    if as_json:
        documents.write(documents.status_document(status))
    else:
        from relaybox.cli.show import show_status

        show_status(status)
    raise typer.Exit(_tell_problems(status, debug=settings.debug))


def _tell_problems(status: Status, *, debug: bool) -> ExitCode:
    found = {str(error): error for hop in status.hops for error in hop.errors}
    for error in found.values():
        tell(error, debug=debug)
    for topic in status.unrouted:
        print(
            f"warning: store {topic.store}: {topic.message_count} messages of topic {topic.topic}, which no hop reads, "
            f"the oldest from {topic.first_sent_at:%Y-%m-%d %H:%M:%S}. {topic.next_step}",
            file=sys.stderr,
        )
    for hop in status.left_behind:
        print(
            f"warning: hop {hop.hop} is in no route of relaybox.yaml: {hop.store} keeps {hop.waiting_count} messages that no batch has and "
            f"{hop.unsettled_count} that are not settled. To move them, bring the route back and run: relaybox init. "
            f"To give them up: relaybox retire {hop.hop}",
            file=sys.stderr,
        )
    waiting = [*status.unrouted, *status.left_behind]
    return worst([*map(exit_code, found.values()), *(ExitCode.CONFIGURATION for _ in waiting)])


def run_where(settings: Settings, message_id: UUID, route: str | None, *, as_json: bool) -> None:
    """Shows the way of one message; UnknownMessage if there is none."""
    traces = trace_message(_searched(load_routes(settings.config), route), message_id)
    if as_json:
        documents.write(documents.traces_document(traces))
        return
    from relaybox.cli.show import show_traces

    show_traces(traces)


def _searched(routes: Routes, route: str | None) -> list[Route]:
    return list(routes.routes.values()) if route is None else [routes.route(route)]


def run_verify(settings: Settings, name: str, *, runner: str, as_json: bool) -> None:
    """Proves delivery. Exit 1 if anything is wrong, 3 if messages are in flight and nothing is wrong."""
    route = load_routes(settings.config).route(name)
    if as_json:
        proof = _prove(route, runner)
        documents.write(documents.proof_document(proof))
    else:
        from relaybox.cli.show import show_proof, verify_bar

        with verify_bar() as progress:
            proof = _prove(route, runner, progress)
        show_proof(proof)
    raise typer.Exit(_verdict_code(proof))


def _prove(route: Route, runner: str, progress: Callable[[VerifyProgress], None] = lambda _: None) -> RouteProof:
    """By threads of this process, or by Spark: `auto` leaves to it what is much."""
    if runner != "spark":
        with suppress(ComparisonTooLarge):
            return verify_route(route, below_rows=route.limits.spark_from_rows if runner == "auto" else None, progress=progress)
    with spark_comparison(proof_session(route.name)) as comparison:
        return verify_route(route, runner=comparison, progress=progress)


def _verdict_code(proof: RouteProof) -> ExitCode:
    return {"delivered": ExitCode.FINE, "in flight": ExitCode.IN_FLIGHT, "defects": ExitCode.DEFECT_FOUND}[proof.verdict]
