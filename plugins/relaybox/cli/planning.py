"""The command that works out how often to try."""

from __future__ import annotations

from dataclasses import asdict
from fractions import Fraction
from typing import TYPE_CHECKING

from relaybox.errors import ConfigurationError
from relaybox.hops.failure_rates import measure_failures
from relaybox.hops.retry_plan import plan_retries, reliability_of
from relaybox.monitoring import documents
from relaybox.proofs.reliability import show_ratio
from relaybox.routes import Retries, load_routes
from relaybox.routes.rules import RetriesRules

if TYPE_CHECKING:
    from relaybox.cli.exits import Settings
    from relaybox.hops.retry_plan import MeasuredFailures, RetryPlan


def run_plan_retries(
    settings: Settings, name: str | None, *, failure_rate: str | None, target: str, outage_seconds: float, as_json: bool
) -> None:
    """Plans from a failure rate that is given, or measured on a route."""
    route = load_routes(settings.config).route(name) if name else None
    measured = None
    if failure_rate is None:
        if route is None:
            raise ConfigurationError(
                "plan-retries needs a failure rate.", next_step="Give --failure-rate, or a ROUTE to measure it on."
            )
        measured = measure_failures(route)
    rate = measured.failure_rate if measured else _ratio("--failure-rate", str(failure_rate))
    retries = route.retries if route else Retries(**RetriesRules().model_dump())
    plan = plan_retries(failure_rate=rate, target=_ratio("--target", target), outage_seconds=outage_seconds, retries=retries)
    if as_json:
        documents.write(_document(plan, measured, retries))
    else:
        _show(plan, measured, retries, name)


def _ratio(option: str, text: str) -> Fraction:
    """Read exactly: 0.99999999999 stays what it is. `10%` and `1/3` are read too."""
    try:
        return Fraction(text.removesuffix("%")) / 100 if text.endswith("%") else Fraction(text)
    except (ValueError, ZeroDivisionError):
        raise ConfigurationError(
            f"plan-retries: {option} is {text!r}, it must be a number such as 0.1, 10% or 1/10.",
            next_step="Run: relaybox plan-retries --help",
        ) from None


def _document(plan: RetryPlan, measured: MeasuredFailures | None, retries: Retries) -> documents.Document:
    return {
        "failure_rate": float(plan.failure_rate),
        "measured": measured and asdict(measured),
        "target": float(plan.target),
        "outage_seconds": plan.outage_seconds,
        "attempts": plan.attempts,
        "reliability": show_ratio(plan.reliability, digits=15),
        "delays": [asdict(delay) for delay in plan.delays],
        "waits_at_least_seconds": plan.waits_at_least_seconds,
        "waits_at_most_seconds": plan.waits_at_most_seconds,
        "retries": {**asdict(retries), "attempts": plan.attempts},
    }


def _show(plan: RetryPlan, measured: MeasuredFailures | None, retries: Retries, route: str | None) -> None:
    if measured:
        print(f"route {route}: {measured.failures} of {measured.attempts} attempts at batches failed.{_at_most(measured)}")
    print(
        f"One try succeeds with {show_ratio(1 - plan.failure_rate)}; the target is {show_ratio(plan.target, digits=15).rstrip('0')}."
    )
    print(
        f"{plan.attempts} attempts, the first included, give {show_ratio(plan.reliability, digits=15)}: 1 - (1 - R)^{plan.attempts}."
    )
    for number, delay in enumerate(plan.delays, start=2):
        print(f"  before try {number}: {delay.at_least_seconds:g} to {delay.at_most_seconds:g} s")
    print(f"An outage of {plan.waits_at_least_seconds:g} s is outlasted.")
    if route:
        now = show_ratio(reliability_of(plan.failure_rate, retries.attempts), digits=15)
        print(f"relaybox.yaml has attempts: {retries.attempts}, which give {now}.")
    print(
        f"retries: {{attempts: {plan.attempts}, delay_seconds: {retries.delay_seconds}, backoff: {retries.backoff:g}, "
        f"max_delay_seconds: {retries.max_delay_seconds}}}"
    )


def _at_most(measured: MeasuredFailures) -> str:
    return "" if measured.failures else f" So at most {float(measured.failure_rate):.3g} do, with 95 % certainty."
