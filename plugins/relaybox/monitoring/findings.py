"""What is stuck, since when, what blocks it, who is affected and what to do: decisions from what the stores said, without I/O.

Every text here is shown to people who may see the page and not the servers: no host, path or statement is in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING

from relaybox import errors

if TYPE_CHECKING:
    from relaybox.hops.continuity import HistoryGap
    from relaybox.monitoring.blockers import Blocker, StoreBlockers, Wait
    from relaybox.monitoring.status import HopStatus, Status
    from relaybox.retention.detaching import DetachedLog
    from relaybox.routes import Hop, Routes
    from relaybox.stores.orphaned_hops import OrphanedHop
    from relaybox.streams.holdback import Gap, StoreHoldback
    from relaybox.streams.topics import UnknownTopics
    from relaybox.subscriptions.subscriptions import SubscriptionStatus

OPEN_SECONDS = 30.0
"""A transaction that has sent messages and is open for longer is shown."""

UNDRIVEN_SECONDS = 60.0
"""Messages that wait longer than this without a running transfer are stuck: starting Spark takes ten seconds."""

UNSETTLED_SECONDS = 900.0
"""Confirmations run at least every five minutes; three of these missed is a stall."""


SHOWN_COMMANDS = 3
"""To end a session, of one finding; the table of its blockers has all pids."""

RUNBOOKS = {
    "store_silent": "store-down",
    "history_lost": "lossy-failover",
    "standby_silent": "stopped-standby",
    "open_transaction": "open-transaction",
    "hop_blocked": "stopped-hop",
    "not_running": "stopped-hop",
    "batch_left": "unfinished-batch",
    "late": "late-hop",
    "unsettled": "missing-confirmations",
    "sender_held": "sender-gap",
    "sender_stalled": "stalled-sender",
    "dead_letters": "dead-letters",
    "topic_unrouted": "unrouted-topic",
    "topics_unknown": "unrouted-topic",
    "messages_detached": "detached-messages",
    "hop_left_behind": "growing-store",
}
"""By kind of finding."""


class Severity(StrEnum):
    """How bad a finding is."""

    STUCK = "stuck"  # does not go on by itself
    HELD = "held"  # goes on once another session is done
    NOTE = "note"


@dataclass(frozen=True)
class Finding:
    """One thing that keeps messages from going on.

    Attributes:
        kind: a stable word, `open_transaction` and the like.
        store: where it is.
        hop: the hop that stops, if it is one; `affected` are it and those that read what it moves.
        since: None if no store knows.
        what: a sentence, or two.
        message_count: how many messages wait; None if that is not known.
        blockers: the transactions that block it.
        run_helps: whether running the hop is the thing to do.
        next_step: what to do, in words.
    """

    kind: str
    severity: Severity
    store: str
    what: str
    next_step: str
    hop: str | None = None
    affected: tuple[str, ...] = ()
    since: datetime | None = None
    message_count: int | None = None
    blockers: tuple[Blocker, ...] = ()
    run_helps: bool = False

    @property
    def runbook(self) -> str:
        """The page of docs/runbooks that says more."""
        return RUNBOOKS[self.kind]


def find_blockers(
    routes: Routes,
    status: Status,
    blockers: Mapping[str, StoreBlockers],
    *,
    detached: Iterable[DetachedLog] = (),
    orphaned_hops: Iterable[OrphanedHop] = (),
) -> tuple[Finding, ...]:
    """Everything that is stuck, held up or worth a look, the worst and oldest first.

    Args:
        routes: what relaybox.yaml says.
        status: what all stores said about their hops.
        blockers: by store; one that did not answer is missing.
        detached: of all stores.
        orphaned_hops: of all stores, retired hops included.
    """
    found = [
        *_silent_stores(routes, status),
        *(finding for store, here in blockers.items() for finding in _held_in_store(routes, store, here)),
        *(finding for hop in status.hops for finding in _hop_findings(routes, status, hop, blockers)),
        *(_topics_unknown(routes, hop, hop.unknown_topics) for hop in status.hops if hop.unknown_topics is not None),
        *_unrouted(status),
        *_detached(detached),
        *_left_behind(orphaned_hops),
    ]
    order = list(Severity)
    return tuple(sorted(found, key=lambda one: (order.index(one.severity), one.since is None, one.since)))


def find_held(holdbacks: Iterable[StoreHoldback]) -> Iterator[Finding]:
    """What streams hold back, of the stores that answered; a silent store is a finding already."""
    for here in holdbacks:
        for sender in here.senders:
            missing = ", ".join(_indexes(gap) for gap in sender.missing[:3]) + (" ..." if len(sender.missing) > 3 else "")
            waits = f"index {missing} is missing" if missing else "messages of other senders, which it had seen, are missing"
            yield Finding(
                kind="sender_stalled" if sender.stalled_reason else "sender_held",
                severity=Severity.STUCK if sender.stalled_reason else Severity.HELD,
                store=here.store,
                since=sender.held_since,
                what=(
                    f"Stream {here.stream} at {here.store} holds back messages of sender {sender.sender}, epoch {sender.epoch}: {waits}."
                    + (" No more of them fit; the others wait in the log." if sender.stalled_reason else "")
                ),
                message_count=sender.held_count + sender.waiting_count,
                next_step="Have the sender send what is missing. If it never comes: "
                + ("; ".join(sender.repairs) or "see the runbook"),
            )


def _indexes(gap: Gap) -> str:
    return f"{gap.first_index:,}" if gap.first_index == gap.last_index else f"{gap.first_index:,} to {gap.last_index:,}"


def find_dead_letters(subscriptions: Iterable[SubscriptionStatus]) -> Iterator[Finding]:
    """Subscriptions with messages that their consumer refused."""
    for one in subscriptions:
        if one.dead_letters:
            yield Finding(
                kind="dead_letters",
                severity=Severity.NOTE,
                store=one.store,
                what=f"Messages of subscription {one.subscription} at {one.store} were set aside as dead letters.",
                message_count=one.dead_letters,
                next_step=f'Mend the consumer, then: relaybox dead-letters redrive {one.subscription} --reason "..."',
            )


def plain_words(error: errors.RelayboxError) -> str:
    """What an error means, without the server's own words: they may name hosts, users, files and statements."""
    return next((words for kind, words in _WORDS.items() if isinstance(error, kind)), "it answered with an error")


_WORDS: dict[type[errors.RelayboxError], str] = {
    errors.StoreUnreachable: "it does not answer",
    errors.StoreBusy: "it is too busy to answer: a lock, or no space left",
    errors.StoreUnusable: "it refuses the connection or the work: a wrong password, missing rights, a standby, or unsafe settings",
    errors.StoreNotInitialised: "it has no Relaybox schema, or an older one",
    errors.SchemaTooNew: "a newer Relaybox has initialised it",
    errors.UnknownHop: "it does not know a hop of relaybox.yaml",
    errors.UnknownTopic: "it does not move a topic that relaybox.yaml gives the hop",
    errors.ConfigurationError: "its connection is missing, or wrong",
    errors.HistoryLost: "it went back in time: what it had confirmed is not there any more",
}

_NEXT_STEPS: dict[type[errors.RelayboxError], str] = {
    errors.StoreUnreachable: "See whether its server runs and its connection is right. Hops go on by themselves.",
    errors.StoreNotInitialised: "Run: relaybox init",
    errors.UnknownHop: "Run: relaybox init",
    errors.SchemaTooNew: "Install the newer Relaybox here too.",
    errors.StoreUnusable: "Correct the connection or the server; the task's log has the server's words.",
    errors.ConfigurationError: "Correct the store's connection in Airflow, or the service file.",
}


def _silent_stores(routes: Routes, status: Status) -> Iterator[Finding]:
    for store, error in status.errors.items():
        yield Finding(
            kind="store_silent",
            severity=Severity.STUCK,
            store=store,
            what=f"Store {store} can't be asked: {plain_words(error)}.",
            next_step=next(
                (step for kind, step in _NEXT_STEPS.items() if isinstance(error, kind)), "The server's own log says more."
            ),
            affected=tuple(hop.name for hop in routes.hops if store in (hop.source.name, hop.destination.name)),
        )


def _held_in_store(routes: Routes, store: str, here: StoreBlockers) -> Iterator[Finding]:
    leaving = tuple(hop.name for hop in routes.hops if hop.source.name == store and hop.upstream is None)
    if here.senders:
        oldest = here.senders[0]
        number = f"{len(here.senders)} transactions have" if len(here.senders) > 1 else "One transaction has"
        yield Finding(
            kind="open_transaction",
            severity=Severity.HELD,
            store=store,
            since=oldest.began_at,
            what=(
                f"{number} sent messages at {store} and not ended. These messages are not there before it commits; "
                f"messages of other transactions go past them."
            ),
            blockers=here.senders,
            affected=leaving,
            next_step=(
                "Have the application commit or roll back. Ending it rolls back what it sent. "
                + _end_commands((store, blocker) for blocker in here.senders)
            ),
        )
    if here.standby_waits:
        yield Finding(
            kind="standby_silent",
            severity=Severity.STUCK,
            store=store,
            since=here.standby_waits_since,
            what=f"{here.standby_waits} sessions at {store} wait for a synchronous standby that does not answer.",
            affected=tuple(hop.name for hop in routes.hops if store in (hop.source.name, hop.destination.name)),
            next_step="Start the standby; everything goes on by itself.",
        )


def _hop_findings(routes: Routes, status: Status, hop: HopStatus, blockers: Mapping[str, StoreBlockers]) -> Iterator[Finding]:
    if hop.history_gap is not None:
        yield _history_lost(routes, hop, hop.history_gap)
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
            what=f"A transfer of hop {hop.hop.name} waits for a lock at {store} that another session has.",
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
            next_step="Run the hop now. If that ends at once: is its DAG paused, do scheduler and triggerer run?",
        )
    elif hop.lag_seconds is not None and hop.lag_seconds > hop.hop.limits.target_lag_seconds:
        yield _late(routes, status, hop, hop.lag_seconds)
    if finding := _unsettled(status, hop):
        yield finding


def _end_or_wait(waits: Sequence[tuple[str, Wait]]) -> str:
    return "Wait: the transfer gives up and is tried again. Or end the session that has the lock. " + _end_commands(
        (store, blocker) for store, wait in waits for blocker in wait.blockers
    )


def _end_commands(blockers: Iterable[tuple[str, Blocker]]) -> str:
    """The rights that it takes to end the first of these transactions, given with their stores; then the commands, and nothing else."""
    shown = list(dict.fromkeys((blocker.end_command(store), blocker.right_to_end) for store, blocker in blockers))[
        :SHOWN_COMMANDS
    ]
    rights = dict.fromkeys(right for _, right in shown)
    return f"{' '.join(rights)} Run: {'; '.join(command for command, _ in shown)}"


def _late(routes: Routes, status: Status, hop: HopStatus, lag_seconds: float) -> Finding:
    return Finding(
        kind="late",
        severity=Severity.HELD,
        hop=hop.hop.name,
        store=hop.hop.source.name,
        since=status.measured_at - timedelta(seconds=lag_seconds - hop.hop.limits.target_lag_seconds),
        what=f"Messages of hop {hop.hop.name} wait for longer than its target of {hop.hop.limits.target_lag_seconds} s.",
        affected=_downstream(routes, hop.hop),
        message_count=hop.lag_messages,
        next_step="The page of the hop says when the backlog will be gone, and whether it moves at all.",
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
        f"slices {missing} of {batch.slice_count} are not copied" if missing else "all slices are copied, it is not published"
    )
    return Finding(
        kind="batch_left",
        severity=Severity.STUCK,
        hop=hop.hop.name,
        store=hop.hop.destination.name,
        since=last.planned_at,
        what=f"Batch {batch.batch} of hop {hop.hop.name} was left in the middle: {copied}, and no transfer runs.",
        affected=_downstream(routes, hop.hop),
        message_count=hop.lag_messages,
        run_helps=True,
        next_step="Run the hop now: it finishes this same batch. Nothing is copied twice.",
    )


def _unsettled(status: Status, hop: HopStatus) -> Finding | None:
    if hop.received is None or hop.settled_through is None or hop.settled_through >= hop.received or hop.lag_messages is None:
        return None
    arrived = hop.last_batch.published_at if hop.last_batch else None
    if arrived is None or (status.measured_at - arrived).total_seconds() <= UNSETTLED_SECONDS:
        return None
    by = hop.hop.policy != "received" and hop.hop.downstream
    waits_for = "the next hop settles them" if by else f"{hop.hop.source.name} is told"
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
        what=f"Messages that arrived at {hop.hop.destination.name} are not settled before {waits_for}.",
        message_count=hop.received - hop.settled_through,
        affected=(hop.hop.name,),
        next_step=f"See what holds {held_up} up. Nothing is lost; cleaning up waits.",
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


def _unrouted(status: Status) -> Iterator[Finding]:
    """But for those that a hop lacks: they are findings of that hop."""
    lacking = {(hop.hop.source.name, topic) for hop in status.hops if hop.unknown_topics for topic in hop.unknown_topics.topics}
    for topic in status.unrouted:
        if (topic.store, topic.topic) in lacking:
            continue
        yield Finding(
            kind="topic_unrouted",
            severity=Severity.NOTE,
            store=topic.store,
            since=topic.first_sent_at,
            what=f"Messages of topic {topic.topic} are sent at {topic.store}, and no hop reads it.",
            message_count=topic.message_count,
            next_step=topic.next_step,
        )


def _detached(logs: Iterable[DetachedLog]) -> Iterator[Finding]:
    for log in logs:
        segments = "1 segment" if log.segment_count == 1 else f"{log.segment_count:,} segments"
        yield Finding(
            kind="messages_detached",
            severity=Severity.NOTE,
            hop=log.hop,
            store=log.store,
            since=log.since,
            what=(
                f"Messages of the log of hop {log.hop} at {log.store} are detached, {segments} in files: "
                f"only {', '.join(log.needed_by)} needed them, and stood still."
            ),
            message_count=log.message_count,
            next_step=f"Mend the consumer, then: relaybox attach {log.store} {log.hop}",
        )


def _left_behind(hops: Iterable[OrphanedHop]) -> Iterator[Finding]:
    for hop in hops:
        if hop.retired_at is None:
            yield Finding(
                kind="hop_left_behind",
                severity=Severity.NOTE,
                hop=hop.hop,
                store=hop.store,
                what=f"Hop {hop.hop} from {hop.store} to {hop.destination} is in no route any more; what it has not moved is kept.",
                next_step=f'See how much: relaybox retire {hop.hop}. With --reason "..." it is given up.',
            )


def _downstream(routes: Routes, hop: Hop) -> tuple[str, ...]:
    """The hop and all that read, one after the other, what it moves."""
    return tuple(each.name for each in routes.routes[hop.route].hops if each.number >= hop.number)
