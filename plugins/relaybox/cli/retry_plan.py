"""The command that computes the number of attempts: plan-retries."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Annotated

import typer

from relaybox.cli.exits import Settings
from relaybox.cli.options import AsJson
from relaybox.cli.usage import CommandList

if TYPE_CHECKING:
    from relaybox.documents.retry_plan import RetryPlanDocument
    from relaybox.monitoring.retry_plan import MeasuredFailures, RetryPlan
    from relaybox.routes import Retries, Route

commands = CommandList()


@commands.command("plan-retries")
def plan_retries(
    context: typer.Context,
    route: Annotated[
        str | None,
        typer.Argument(metavar="[ROUTE]", help="Use the delays and the measured failure rate of this route.", show_default=False),
    ] = None,
    *,
    target: Annotated[
        str, typer.Option("--target", help="The wanted probability of success, as in 0.99999.", show_default=False)
    ],
    failure_rate: Annotated[
        str | None,
        typer.Option(
            "--failure-rate", help="The failure rate of one attempt, as in 0.1. Default: measured on ROUTE.", show_default=False
        ),
    ] = None,
    outage_seconds: Annotated[
        float, typer.Option("--outage-seconds", min=0, help="The longest outage that the retries must outlast.")
    ] = 0.0,
    as_json: AsJson = False,
) -> None:
    """Compute attempts and delays for a target reliability: R_n = 1 - (1 - R)^(n + 1) for n retries.

    Only transient errors are retried, so only these count. In an outage all attempts fail: --outage-seconds
    says how long the delays must last in total.

    \b
    Examples:
      relaybox plan-retries --failure-rate 0.1 --target 0.99999
      relaybox plan-retries flights --target 0.999999 --outage-seconds 600
    """
    from relaybox.cli.terminal.retry_plan import show_retry_plan
    from relaybox.documents.document import write
    from relaybox.monitoring import retry_plan
    from relaybox.routes import Retries
    from relaybox.routes.rules import RetriesRules

    settings: Settings = context.obj
    planned_for = settings.load_routes().route(route) if route else None
    measured = _measure(planned_for) if failure_rate is None else None
    rate = measured.failure_rate if measured else _ratio("--failure-rate", str(failure_rate))
    retries = planned_for.retries if planned_for else Retries(**RetriesRules().model_dump())
    plan = retry_plan.plan_retries(
        failure_rate=rate, target=_ratio("--target", target), outage_seconds=outage_seconds, retries=retries
    )
    if as_json:
        write(_document(plan, measured, retries))
    else:
        show_retry_plan(plan, measured, retries, route)


def _measure(route: Route | None) -> MeasuredFailures:
    from relaybox.errors import ConfigurationError
    from relaybox.monitoring.failure_rates import measure_failures

    if route is None:
        raise ConfigurationError(
            "plan-retries needs a failure rate.",
            next_step="Give --failure-rate, or a ROUTE whose failure rate is measured.",
        )
    return measure_failures(route)


def _ratio(option: str, text: str) -> Fraction:
    """Read exactly: 0.99999999999 stays what it is. `10%` and `1/3` are read too."""
    from relaybox.errors import ConfigurationError

    try:
        return Fraction(text.removesuffix("%")) / 100 if text.endswith("%") else Fraction(text)
    except (ValueError, ZeroDivisionError):
        raise ConfigurationError(
            f"plan-retries: {option} is {text!r}; it must be a number such as 0.1, 10% or 1/10.",
            next_step="Run: relaybox plan-retries --help",
        ) from None


def _document(plan: RetryPlan, measured: MeasuredFailures | None, retries: Retries) -> RetryPlanDocument:
    from relaybox.documents import retry_plan as documents
    from relaybox.verification.reliability import show_ratio

    return documents.RetryPlanDocument(
        failure_rate=float(plan.failure_rate),
        measured=None if measured is None else documents.MeasuredFailuresDocument.model_validate(measured),
        target=float(plan.target),
        outage_seconds=plan.outage_seconds,
        attempts=plan.attempts,
        reliability=show_ratio(plan.reliability, digits=15),
        delays=[documents.DelayDocument.model_validate(delay) for delay in plan.delays],
        waits_at_least_seconds=plan.waits_at_least_seconds,
        waits_at_most_seconds=plan.waits_at_most_seconds,
        retries=documents.RetriesDocument.model_validate(retries).model_copy(update={"attempts": plan.attempts}),
    )
