"""The number of attempts and its computation, on a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from relaybox.amounts import amount
from relaybox.cli.printable import print_text
from relaybox.monitoring.retry_plan import reliability_of
from relaybox.verification.reliability import show_ratio

if TYPE_CHECKING:
    from relaybox.monitoring.retry_plan import MeasuredFailures, RetryPlan
    from relaybox.routes import Retries


def show_retry_plan(plan: RetryPlan, measured: MeasuredFailures | None, retries: Retries, route: str | None) -> None:
    if measured:
        print_text(
            f"route {route}: {measured.failures:,} of {amount(measured.attempts, 'attempt')} at batches failed.{_at_most(measured)}"
        )
    print_text(
        f"One attempt succeeds with probability {show_ratio(1 - plan.failure_rate)}; "
        f"the target is {show_ratio(plan.target, digits=15).rstrip('0')}."
    )
    print_text(
        f"{amount(plan.attempts, 'attempt gives', 'attempts, the first included, give')} "
        f"{show_ratio(plan.reliability, digits=15)}: 1 - (1 - R)^{plan.attempts}."
    )
    for number, delay in enumerate(plan.delays, start=2):
        print_text(f"  before attempt {number}: {delay.at_least_seconds:g} to {delay.at_most_seconds:g} s")
    print_text(f"These attempts outlast an outage of {plan.waits_at_least_seconds:g} s.")
    if route:
        now = show_ratio(reliability_of(plan.failure_rate, retries.attempts), digits=15)
        print_text(f"relaybox.yaml has attempts: {retries.attempts}. Its reliability is {now}.")
    print_text(
        f"retries: {{attempts: {plan.attempts}, delay_seconds: {retries.delay_seconds}, backoff: {retries.backoff:g}, "
        f"max_delay_seconds: {retries.max_delay_seconds}}}"
    )


def _at_most(measured: MeasuredFailures) -> str:
    return "" if measured.failures else f" The failure rate is at most {float(measured.failure_rate):.3g}, with 95 % confidence."
