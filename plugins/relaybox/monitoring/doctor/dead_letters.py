"""Dead letters of subscriptions that were ended."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from relaybox.amounts import amount
from relaybox.monitoring.doctor.check import Diagnosis, Examined, hidden, ok, warning
from relaybox.monitoring.doctor.record import may_read

RUNBOOK = "docs/runbooks/dead-letters.md, Repair after an end"

_OF_ENDED = """
select n.subscription, n.ended_at, count(*) as letter_count, min(d.dead_letter_id) as first_dead_letter_id
from relaybox_internal.dead_letter d
join relaybox_internal.subscription n on n.subscription_id = d.subscription_id
where n.ended_at is not null and d.state in ('open', 'redriving') and d.reason <> 'delayed'
group by n.subscription_id, n.subscription, n.ended_at
order by n.subscription, n.ended_at
"""


@dataclass(frozen=True)
class _LettersOfEnded:
    """The dead letters of one ended subscription that need a decision. Another one may have the same name."""

    subscription: str
    ended_at: datetime
    letter_count: int
    first_dead_letter_id: int


def check_dead_letters(examined: Examined) -> Iterator[Diagnosis]:
    """No ended subscription has open dead letters: `relaybox subscriptions` lists only open ones, and no consumer gets them."""
    if not examined.server.has_schema:
        return
    if (table := next((one for one in ("dead_letter", "subscription") if not may_read(examined.session, one)), None)) is not None:
        yield hidden(examined, f"relaybox_internal.{table}")
        return
    found = examined.session.rows(_LettersOfEnded, _OF_ENDED)
    for one in found:
        ended_at = f"{one.ended_at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
        yield warning(
            f"Subscription {one.subscription} ended at {ended_at} with {amount(one.letter_count, 'open dead letter')}, the first is "
            f"{one.first_dead_letter_id}: no consumer gets them, and retention keeps their segments.",
            f"To see them, run: relaybox dead-letters list {examined.store.name} --subscription {shlex.quote(one.subscription)}. Process "
            "what is still wanted by hand, for redrive refuses them. Then run for each: relaybox dead-letters drop "
            f'{examined.store.name} {one.first_dead_letter_id} --reason "..." All at once: {RUNBOOK}.',
        )
    if not found:
        yield ok("No ended subscription has open dead letters.")
