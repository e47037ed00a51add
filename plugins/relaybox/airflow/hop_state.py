"""What the source of a hop says about it, for the task that is about to run it, has just done so, or looks after it."""

from __future__ import annotations

from dataclasses import dataclass

from relaybox.errors import UnknownHop
from relaybox.routes import Hop, Store
from relaybox.stores.opening import store_session
from relaybox.stores.sessions.settings import duration


@dataclass(frozen=True)
class HopState:
    """Whether anything waits to be moved, the newest planned batch (0: none) with its last position, and how many rows wait.

    Rows wait while no batch holds them, or while theirs is not confirmed.
    """

    has_work: bool
    batch: int
    log_position: int
    waiting_count: int


def read_hop_state(hop: Hop) -> HopState:
    """Asks the source once, in a session of its own.

    Raises:
        UnknownHop: the store was not initialised for this hop. It must not look like a hop without work.
        StoreNotInitialised, SchemaTooNew, StoreUnusable, StoreUnreachable, StoreBusy: see relaybox.errors.
    """
    with store_session(hop.source, f"looking at hop {hop.name}", application_name=f"relaybox {hop.name} look") as source:
        state = source.row_if_any(
            HopState,
            """
            select relaybox_internal.hop_has_work(h.hop) as has_work, h.batch, h.log_position,
                s.waiting_count + s.planned_position - s.received_position as waiting_count
            from relaybox_internal.hop_out h, relaybox_internal.sending_states(array[h.hop]) s where h.hop = %s
            """,
            hop.name,
        )
    if state is None:
        raise UnknownHop(f"store {hop.source.name}: it does not know hop {hop.name}.", next_step="Run: relaybox init")
    return state


LAGS_SECONDS = 30.0
"""How long a store may count for read_lags(): Airflow takes the events of a look when the task ends."""


@dataclass(frozen=True)
class HopLag:
    """The age of the oldest message that a hop has not moved, in seconds by the clock of its source, and how many wait."""

    hop: str
    lag_seconds: float
    waiting_count: int


def read_lags(store: Store) -> dict[str, HopLag]:
    """Asks a store once about every hop that leaves it and has work; by hop.

    Each hop counts what waits for it. Of 200 hops over seven stores, on two busy cores, the slowest store with 40 hops took 0.06 s
    with nothing waiting, 0.2 s with 100 messages for each of 20 hops, and 3.1 s with 10,100 for each (read_idle_hops: 0.3 s).

    Raises:
        StoreBusy: the store needed more than LAGS_SECONDS.
        as read_hop_state().
    """
    with store_session(store, "reading the lag of its hops", application_name="relaybox look") as session:
        session.set_local({"statement_timeout": duration(LAGS_SECONDS)})
        lags = session.rows(
            HopLag,
            """
            select s.hop, s.oldest_seconds as lag_seconds,
                s.waiting_count + s.planned_position - s.received_position as waiting_count
            from relaybox_internal.sending_states(
                array(select w.hop from relaybox_internal.hops_with_work() w where w.has_work)
            ) s
            where s.oldest_sent_at is not null
            """,
        )
    return {lag.hop: lag for lag in lags}


@dataclass(frozen=True)
class IdleHop:
    """A hop that needs a run: it has work without a driver, or messages that are confirmed as received and not as settled."""

    hop: str
    has_work: bool
    is_unsettled: bool


def read_idle_hops(store: Store) -> list[IdleHop]:
    """Asks a store once about every hop that leaves it; the errors are those of read_hop_state."""
    with store_session(store, "looking at its hops", application_name="relaybox look") as session:
        hops = session.rows(
            IdleHop,
            """
            select h.hop, h.has_work and not relaybox_internal.hop_is_driven(h.hop) as has_work, h.received > h.settled as is_unsettled
            from (
                select o.hop, o.has_work,
                    coalesce(received.through_position, 0) as received, coalesce(settled.through_position, 0) as settled
                from relaybox_internal.hops_with_work() o
                left join lateral relaybox_internal.newest_confirmation(o.hop, 'received') received on true
                left join lateral relaybox_internal.newest_confirmation(o.hop, 'settled') settled on true
                offset 0
            ) h
            """,
        )
    return [hop for hop in hops if hop.has_work or hop.is_unsettled]
