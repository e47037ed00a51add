"""The commands that only read: status, where, verify."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import typer

from relaybox.cli import documents
from relaybox.cli.exits import ExitCode, Settings, exit_code, tell, worst
from relaybox.proofs import RouteProof
from relaybox.routes import Route, Routes, load_routes
from relaybox.status import Status, read_status
from relaybox.tracing import trace_message
from relaybox.verification import verify_route

if TYPE_CHECKING:
    from uuid import UUID


def run_status(settings: Settings, *, as_json: bool) -> None:
    """Shows all hops. Exit 4 or 5 if a store did not answer or lost history, 2 if messages have a topic that no hop reads."""
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
    return worst([*map(exit_code, found.values()), *(ExitCode.CONFIGURATION for _ in status.unrouted)])


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


def run_verify(settings: Settings, route: str, *, as_json: bool) -> None:
    """Proves delivery. Exit 1 if anything is wrong, 3 if messages are in flight and nothing is wrong."""
    known = load_routes(settings.config).route(route)
    if as_json:
        proof = verify_route(known)
        documents.write(documents.proof_document(proof))
    else:
        from relaybox.cli.show import show_proof, verify_bar

        with verify_bar() as progress:
            proof = verify_route(known, progress=progress)
        show_proof(proof)
    raise typer.Exit(_verdict_code(proof))


def _verdict_code(proof: RouteProof) -> ExitCode:
    return {"delivered": ExitCode.FINE, "in flight": ExitCode.IN_FLIGHT, "defects": ExitCode.DEFECT_FOUND}[proof.verdict]
