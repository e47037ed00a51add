"""Hops whose messages wait longer than their target, and which of them a look reports: a decision without I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

REPEAT_AFTER = timedelta(hours=1)
"""How long a hop that stays late is not reported again."""


@dataclass(frozen=True)
class LateHop:
    """A hop whose oldest message waits longer than `limits.target_lag_seconds` of its route.

    `page`: the address of its page, relative to Airflow's.
    """

    name: str
    lag_seconds: float
    target_lag_seconds: int
    waiting_count: int
    page: str


def choose_reports(late: Sequence[LateHop], reported: Mapping[str, str], now: datetime) -> list[LateHop]:
    """Returns the late hops to report now: those that became late, and those whose last report is an hour old.

    Args:
        late: all hops that are late now.
        reported: the time of the last report of each hop that was late at the last look, in ISO 8601.
        now: the time of this look.
    """
    return [hop for hop in late if hop.name not in reported or now - datetime.fromisoformat(reported[hop.name]) >= REPEAT_AFTER]
