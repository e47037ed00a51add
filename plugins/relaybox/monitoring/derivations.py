"""How far the derivations of a store are, and which trials are open, as its ledger says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime

    from relaybox.stores.sessions.store_session import StoreSession

_NEWEST = """
    select
        d.route, d.version, a.attempt, a.state, lower(a.stream_positions) as first_stream_position,
        upper(a.stream_positions) - 1 as last_stream_position, a.message_count, a.derived_count, a.begun_at, a.begun_by, a.ended_at,
        a.reason
    from unnest(%s::text[]) wanted (route)
    cross join lateral (
        select * from relaybox_internal.derivation d where d.route = wanted.route order by d.version desc limit 1
    ) d
    left join lateral (
        select * from relaybox_internal.derivation_attempt a where a.derivation_id = d.derivation_id order by a.attempt desc limit 1
    ) a on true
"""

_OPEN_TRIALS = """
    select
        d.route, t.trial_id, t.version, d.version as old_version, t.first_stream_position, t.last_stream_position,
        t.done_stream_position, t.begun_at, t.begun_by, extract(epoch from clock_timestamp() - t.begun_at)::float8 as open_seconds,
        (
            select coalesce(sum(a.derived_count), 0)::bigint from relaybox_internal.derivation_trial_attempt a
            where a.trial_id = t.trial_id and a.state = 'done'
        ) as message_count
    from unnest(%s::text[]) wanted (route)
    join relaybox_internal.derivation d on d.route = wanted.route
    join relaybox_internal.derivation_trial t on t.derivation_id = d.derivation_id and t.state = 'open'
"""


@dataclass(frozen=True)
class DerivationStatus:
    """The newest version of a derivation that the store has, and its newest attempt.

    Attributes:
        attempt: its number; None, as all that follows: there was none yet.
        state: open, published, failed or superseded.
        first_stream_position, last_stream_position: of the messages that it got; others may lie between.
        message_count: how many these are.
        derived_count: messages that it put into the outbox; None: it has published nothing.
        reason: why it failed; may quote a value of a message.
    """

    route: str
    version: int
    attempt: int | None
    state: str | None
    first_stream_position: int | None
    last_stream_position: int | None
    message_count: int | None
    derived_count: int | None
    begun_at: datetime | None
    begun_by: str | None
    ended_at: datetime | None
    reason: str | None


def read_derivations(session: StoreSession, routes: Sequence[str]) -> list[DerivationStatus]:
    """The derivations of these routes that the store has. Changes nothing; a login with relaybox_viewer may.

    Args:
        session: in the store where they run.
        routes: names.
    """
    return session.rows(DerivationStatus, _NEWEST, list(routes))


@dataclass(frozen=True)
class OpenTrial:
    """A trial that nobody has promoted or dropped yet.

    Attributes:
        version: that is tried, and `old_version`: that goes on meanwhile.
        first_stream_position, last_stream_position: the range, both ends included.
        done_stream_position: through which it has derived.
        open_seconds: since it began.
        message_count: what the store keeps of it.
    """

    route: str
    trial_id: int
    version: int
    old_version: int
    first_stream_position: int
    last_stream_position: int
    done_stream_position: int
    begun_at: datetime
    begun_by: str
    open_seconds: float
    message_count: int


def read_open_trials(session: StoreSession, routes: Sequence[str]) -> list[OpenTrial]:
    """The open trials of these routes, at most one of each. Changes nothing; a login with relaybox_viewer may."""
    return session.rows(OpenTrial, _OPEN_TRIALS, list(routes))
