"""The findings of one hop, from what its stores said: decisions without I/O."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

from relaybox.monitoring.finding import Finding, Severity
from relaybox.monitoring.store_findings import end_commands

if TYPE_CHECKING:
    from relaybox.hops.continuity import HistoryGap
    from relaybox.monitoring.blockers import StoreBlockers, Wait
    from relaybox.monitoring.status import HopStatus, Status
    from relaybox.routes import Hop, Routes
    from relaybox.streams.topics import UnknownTopics

UNDRIVEN_SECONDS = 60.0
"""Messages that wait longer than this without a running transfer are stuck: starting Spark takes ten seconds."""

UNSETTLED_SECONDS = 900.0
"""Confirmations run at least every five minutes; three of these missed is a stall."""


def find_in_hop(routes: Routes, status: Status, hop: HopStatus, blockers: Mapping[str, StoreBlockers]) -> Iterator[Finding]:
    """What keeps the messages of a hop, and topics that its store does not move yet."""
    if hop.unknown_topics is not None:
        yield _topics_unknown(routes, hop, hop.unknown_topics)
    if hop.history_gap is not None:
        yield _history_lost(routes, hop, hop.history_gap)
        return
    if hop.retired is not None:
        yield Finding(
            kind="hop_retired",
            severity=Severity.STUCK,
            hop=hop.hop.name,
            store=hop.hop.source.name,
            since=hop.retired.retired_at,
            what=hop.retired.what,
            affected=_downstream(routes, hop.hop),
            message_count=hop.lag_messages,
            next_step=hop.retired.next_step,
        )
        return
    waits = [
        (store, wait)
        for store in (hop.hop.source.name, hop.hop.destination.name)
        for wait in (blockers[store].waits if store in blockers else ())
        if wait.session.startswith(f"relaybox {hop.hop.name} ")
    ]
    if waits:
        store = waits[0][0]
        yield Finding(
            kind="hop_blocked",
            severity=Severity.HELD,
            hop=hop.hop.name,
            store=store,
            since=min((blocker.began_at for _, each in waits for blocker in each.blockers), default=None),
            what=f"A transfer of hop {hop.hop.name} waits for a lock at {store} that another session holds.",
            blockers=tuple(dict.fromkeys(blocker for _, each in waits for blocker in each.blockers)),
            affected=_downstream(routes, hop.hop),
            message_count=hop.lag_messages,
            next_step=_end_or_wait(waits),
        )
    elif hop.open_batch is not None and not hop.driven and (finding := _batch_left(routes, status, hop)):
        yield finding
    elif hop.open_batch is None and not hop.driven and (hop.lag_seconds or 0.0) > UNDRIVEN_SECONDS:
        yield Finding(
            kind="not_running",
            severity=Severity.STUCK,
            hop=hop.hop.name,
            store=hop.hop.source.name,
            since=status.measured_at - timedelta(seconds=hop.lag_seconds or 0.0),
            what=f"Messages wait at {hop.hop.source.name} and no transfer of hop {hop.hop.name} runs.",
            affected=_downstream(routes, hop.hop),
            message_count=hop.lag_messages,
            run_helps=True,
            next_step="Run the hop now. If it does not start, check that its DAG is not paused, and that scheduler and triggerer run.",
        )
    elif hop.lag_seconds is not None and hop.lag_seconds > hop.hop.limits.target_lag_seconds:
        yield _late(routes, status, hop, hop.lag_seconds)
    if finding := _unsettled(status, hop):
        yield finding


def _end_or_wait(waits: Sequence[tuple[str, Wait]]) -> str:
    return "Wait: the transfer times out and is retried. Or end the session that holds the lock. " + end_commands(
        (store, blocker) for store, wait in waits for blocker in wait.blockers
    )


def _late(routes: Routes, status: Status, hop: HopStatus, lag_seconds: float) -> Finding:
    return Finding(
        kind="late",
        severity=Severity.HELD,
        hop=hop.hop.name,
        store=hop.hop.source.name,
        since=status.measured_at - timedelta(seconds=lag_seconds - hop.hop.limits.target_lag_seconds),
        what=f"Messages of hop {hop.hop.name} wait longer than its target of {hop.hop.limits.target_lag_seconds} s.",
        affected=_downstream(routes, hop.hop),
        message_count=hop.lag_messages,
        next_step="See the forecast of the backlog on the page of the hop.",
    )


def _history_lost(routes: Routes, hop: HopStatus, gap: HistoryGap) -> Finding:
    return Finding(
        kind="history_lost",
        severity=Severity.STUCK,
        hop=hop.hop.name,
        store=gap.store,
        what=f"Hop {hop.hop.name}: {gap.what}. Nothing is skipped or overwritten.",
        affected=_downstream(routes, hop.hop),
        message_count=hop.lag_messages,
        next_step=gap.next_step,
    )


def _batch_left(routes: Routes, status: Status, hop: HopStatus) -> Finding | None:
    batch, last = hop.open_batch, hop.last_batch
    if batch is None or last is None or (status.measured_at - last.planned_at).total_seconds() <= UNDRIVEN_SECONDS:
        return None
    missing = ", ".join(map(str, batch.missing_slices[:10])) + (" ..." if len(batch.missing_slices) > 10 else "")
    copied = (
        f"slices {missing} of {batch.slice_count} are not copied"
        if missing
        else "all slices are copied, but the batch is not published"
    )
    return Finding(
        kind="batch_left",
        severity=Severity.STUCK,
        hop=hop.hop.name,
        store=hop.hop.destination.name,
        since=last.planned_at,
        what=f"Batch {batch.batch} of hop {hop.hop.name} is unfinished: {copied}, and no transfer runs.",
        affected=_downstream(routes, hop.hop),
        message_count=hop.lag_messages,
        run_helps=True,
        next_step="Run the hop now: it resumes this batch. No slice is copied twice.",
    )


def _unsettled(status: Status, hop: HopStatus) -> Finding | None:
    if hop.received is None or hop.settled_through is None or hop.settled_through >= hop.received or hop.lag_messages is None:
        return None
    arrived = hop.last_batch.published_at if hop.last_batch else None
    if arrived is None or (status.measured_at - arrived).total_seconds() <= UNSETTLED_SECONDS:
        return None
    by = hop.hop.policy != "received" and hop.hop.downstream
    waits_for = "the next hop settles them" if by else f"{hop.hop.source.name} has the confirmation"
    held_up = "the next hop" if by else "its confirm DAG"
    if hop.hop.processed_by:
        waits_for = f"{', '.join(hop.hop.processed_by)} have acknowledged them there"
        held_up = "these subscriptions (relaybox subscriptions; a dead letter waits for redrive or drop)"
    return Finding(
        kind="unsettled",
        severity=Severity.HELD,
        hop=hop.hop.name,
        store=hop.hop.source.name,
        since=arrived,
        what=f"Messages that arrived at {hop.hop.destination.name} are not settled until {waits_for}.",
        message_count=hop.received - hop.settled_through,
        affected=(hop.hop.name,),
        next_step=f"Find out what delays {held_up}. No message is lost; retention waits.",
    )


def _topics_unknown(routes: Routes, hop: HopStatus, unknown: UnknownTopics) -> Finding:
    source, named = hop.hop.source.name, "topic " if len(unknown.topics) == 1 else "topics "
    return Finding(
        kind="topics_unknown",
        severity=Severity.STUCK,
        hop=hop.hop.name,
        store=source,
        since=unknown.first_sent_at,
        what=(
            f"relaybox.yaml gives hop {hop.hop.name} {named}{', '.join(unknown.topics)}, but {source} does not move "
            f"{'it' if len(unknown.topics) == 1 else 'them'} yet: relaybox.yaml was changed after the last relaybox init."
        ),
        affected=_downstream(routes, hop.hop),
        message_count=unknown.message_count,
        next_step="Run: relaybox init",
    )


def _downstream(routes: Routes, hop: Hop) -> tuple[str, ...]:
    """Returns the hop and all hops downstream of it."""
    return tuple(each.name for each in routes.routes[hop.route].hops if each.number >= hop.number)
