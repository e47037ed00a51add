"""The command that proves delivery: verify."""

from __future__ import annotations

from contextlib import suppress
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from relaybox.cli.exits import ExitCode, Settings
from relaybox.cli.options import AsJson

if TYPE_CHECKING:
    from collections.abc import Callable

    from relaybox.proofs.proof import RouteProof
    from relaybox.proofs.verification import VerifyProgress
    from relaybox.routes import Route

commands = typer.Typer()


class Runner(StrEnum):
    """Who does the work of a route, in the words of relaybox.yaml."""

    AUTO = "auto"
    SPARK = "spark"
    THREADS = "threads"


@commands.command()
def verify(
    context: typer.Context,
    route: Annotated[str, typer.Argument(metavar="ROUTE", help="The route, as in relaybox.yaml.")],
    runner: Annotated[
        Runner,
        typer.Option("--runner", help="Who compares: threads of this process, Spark, or as limits.spark_from_rows says (auto)."),
    ] = Runner.THREADS,
    as_json: AsJson = False,
) -> None:
    """Prove delivery: compare the stores of a route message by message, by count and by content.

    Names every message that is missing, changed, misplaced, doubled, unexpected, or in no batch; proves the order of every store's
    stream. Reads only.
    Spark runs on this machine, or where its configuration (SPARK_CONF_DIR) says; the proof is the same.

    \b
    Examples:
      relaybox verify flights
      relaybox verify flights --json > proof.json
      relaybox verify flights --runner spark
    """
    from relaybox.cli.terminal.proofs import show_proof, verify_bar
    from relaybox.documents.document import write
    from relaybox.documents.proofs import ProofDocument

    settings: Settings = context.obj
    proved = settings.load_routes().route(route)
    if as_json:
        proof = _prove(proved, runner)
        write(ProofDocument.of(proof))
    else:
        with verify_bar() as progress:
            proof = _prove(proved, runner, progress)
        show_proof(proof)
    raise typer.Exit(_verdict_code(proof))


def _prove(route: Route, runner: str, progress: Callable[[VerifyProgress], None] = lambda _: None) -> RouteProof:
    """By threads of this process, or by Spark: `auto` leaves to it what is much."""
    from relaybox.cli.spark import spark_comparison
    from relaybox.proofs.comparison_runners import ComparisonTooLarge
    from relaybox.proofs.verification import proof_session, verify_route

    if runner != "spark":
        with suppress(ComparisonTooLarge):
            return verify_route(route, below_rows=route.limits.spark_from_rows if runner == "auto" else None, progress=progress)
    with spark_comparison(proof_session(route.name)) as comparison:
        return verify_route(route, runner=comparison, progress=progress)


def _verdict_code(proof: RouteProof) -> ExitCode:
    return {"delivered": ExitCode.FINE, "in flight": ExitCode.IN_FLIGHT, "defects": ExitCode.DEFECT_FOUND}[proof.verdict]
