"""How often attempts at a route's batches failed, from the ledgers of its stores. Reads only."""

from __future__ import annotations

from typing import NamedTuple

from relaybox.errors import ConfigurationError
from relaybox.monitoring.retry_plan import MeasuredFailures
from relaybox.routes import Hop, Route
from relaybox.stores.opening import store_session


def measure_failures(route: Route) -> MeasuredFailures:
    """Attempts and failures of all hops of a route. An attempt that never got as far as a batch left no trace.

    Raises:
        ConfigurationError: nothing was attempted yet, so nothing is known.
        StoreUnreachable, StoreUnusable: see relaybox.errors.
    """
    counted = [_count(hop) for hop in route.hops]
    measured = MeasuredFailures(sum(attempts for attempts, _ in counted), sum(failures for _, failures in counted))
    if not measured.attempts:
        raise ConfigurationError(
            f"route {route.name}: no batch was attempted yet, so no failure rate is known.",
            next_step="Give one with --failure-rate.",
        )
    return measured


class _Attempts(NamedTuple):
    """Attempts of a hop, the batches that they were for, and whether the newest batch has not arrived."""

    attempts: int
    batches: int
    is_unfinished: bool


def _count(hop: Hop) -> tuple[int, int]:
    """Each attempt has begun a new batch or resumed one; all but the last attempt at a batch have failed, or were superseded.

    The newest attempt at a batch that has not arrived is not over: it does not count.
    """
    with store_session(hop.source, f"counting attempts of hop {hop.name}", application_name="relaybox plan-retries") as source:
        counted = source.row_if_any(
            _Attempts,
            """
            select h.attempt as attempts,
                h.compacted_batch + (select count(*) from relaybox_internal.batch b where b.hop = h.hop and not b.adopted) as batches,
                h.batch > coalesce((select c.through_batch from relaybox_internal.newest_confirmation(h.hop, 'received') c), 0)
                    as is_unfinished
            from relaybox_internal.hop_out h where h.hop = %s
            """,
            hop.name,
        )
    attempts, batches, is_unfinished = counted or _Attempts(0, 0, is_unfinished=False)
    ended = attempts - is_unfinished
    return ended, max(0, ended - (batches - is_unfinished))
