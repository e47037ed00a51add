"""How many attempts a task needs for a target reliability, and how long it waits between them. Nothing here asks a store.

With reliability R of one attempt, n retries give R_n = 1 - (1 - R)^(n + 1) (A0.21): 0.5 -> 0.75 -> 0.875. That holds for failures that
do not depend on each other. In an outage they do: there only the waiting counts, which has to be longer than the outage.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from relaybox.errors import ConfigurationError

if TYPE_CHECKING:
    from relaybox.routes import Retries

MAX_ATTEMPTS = 100
"""As in relaybox.yaml."""


@dataclass(frozen=True)
class Delay:
    """Between two attempts: at least and at most so long. Airflow draws one in between, so that hops that failed together part."""

    at_least_seconds: float
    at_most_seconds: float


@dataclass(frozen=True)
class RetryPlan:
    """What meets the target.

    Attributes:
        failure_rate: 1 - R of one attempt.
        attempts: how often it runs, the first one included.
        reliability: that one of them succeeds.
        delays: before the second attempt, the third, ...
    """

    failure_rate: Fraction
    target: Fraction
    outage_seconds: float
    attempts: int
    reliability: Fraction
    delays: tuple[Delay, ...]

    @property
    def waits_at_least_seconds(self) -> float:
        """What an outage may last at least."""
        return sum(delay.at_least_seconds for delay in self.delays)

    @property
    def waits_at_most_seconds(self) -> float:
        return sum(delay.at_most_seconds for delay in self.delays)


@dataclass(frozen=True)
class MeasuredFailures:
    """How often attempts at a batch failed, from the ledgers."""

    attempts: int
    failures: int

    @property
    def failure_rate(self) -> Fraction:
        """As measured; where nothing failed, what it is at most with 95 % certainty (3 / attempts). At most 1/2 is known of one attempt."""
        if self.failures:
            return Fraction(self.failures, self.attempts)
        return min(Fraction(3, self.attempts), Fraction(1, 2))


def reliability_of(failure_rate: Fraction, attempts: int) -> Fraction:
    """R_n of n = attempts - 1 retries (A0.21)."""
    return 1 - failure_rate**attempts


def plan_retries(*, failure_rate: Fraction, target: Fraction, outage_seconds: float, retries: Retries) -> RetryPlan:
    """The fewest attempts that give the target and outlast the outage, with the delays of `retries`.

    Raises:
        ConfigurationError: an argument is out of range, or no number of attempts that relaybox.yaml allows is enough.
    """
    _check(failure_rate, target, outage_seconds)
    for attempts in range(1, MAX_ATTEMPTS + 1):
        delays = tuple(_delays(retries, attempts))
        if reliability_of(failure_rate, attempts) >= target and sum(delay.at_least_seconds for delay in delays) >= outage_seconds:
            reliability = reliability_of(failure_rate, attempts)
            return RetryPlan(failure_rate, target, outage_seconds, attempts, reliability, delays)
    raise ConfigurationError(
        f"{MAX_ATTEMPTS} attempts give {float(reliability_of(failure_rate, MAX_ATTEMPTS)):.6g} and wait "
        f"{sum(delay.at_least_seconds for delay in _delays(retries, MAX_ATTEMPTS)):.0f} s; "
        f"asked for were {float(target):.12g} and {outage_seconds:g} s.",
        next_step="Find out what fails so often, or wait longer: larger delay_seconds and max_delay_seconds.",
    )


def _check(failure_rate: Fraction, target: Fraction, outage_seconds: float) -> None:
    problems = {
        f"the failure rate is {float(failure_rate):g}, it must be from 0 to below 1": not 0 <= failure_rate < 1,
        f"the target is {float(target):g}, it must be from 0 to below 1: retries come near to 1 and never reach it": not 0
        <= target
        < 1,
        f"the outage is {outage_seconds:g} s, it must not be negative": outage_seconds < 0,
    }
    found = [problem for problem, holds in problems.items() if holds]
    if found:
        raise ConfigurationError(f"plan-retries: {'; '.join(found)}.", next_step="Run: relaybox plan-retries --help")


def _delays(retries: Retries, attempts: int) -> Iterator[Delay]:
    """Airflow's: before retry n between d * m^(n - 1) and twice that, never above the longest."""
    for number in range(attempts - 1):
        shortest = min(retries.delay_seconds * retries.backoff**number, retries.max_delay_seconds)
        yield Delay(shortest, min(2 * shortest, retries.max_delay_seconds))
