"""The findings of a store, its streams and its subscriptions: decisions without I/O."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from relaybox import errors
from relaybox.amounts import amount
from relaybox.monitoring.finding import Finding, Severity

if TYPE_CHECKING:
    from relaybox.monitoring.blockers import Blocker, StoreBlockers
    from relaybox.monitoring.status import Status
    from relaybox.retention.detached_segments import DetachedLog
    from relaybox.routes import Routes
    from relaybox.stores.readers.orphaned_hops import OrphanedHop
    from relaybox.stores.readers.reader_problems import ReaderProblem
    from relaybox.streams.holdback import Gap, StoreHoldback
    from relaybox.subscriptions.subscriptions import SubscriptionStatus

SHOWN_COMMANDS = 3
"""To end a session, of one finding; the table of its blockers has all pids."""


def find_held(holdbacks: Iterable[StoreHoldback]) -> Iterator[Finding]:
    """What streams hold back, of the stores that answered; a silent store is a finding already."""
    for here in holdbacks:
        for sender in here.senders:
            missing = ", ".join(_indexes(gap) for gap in sender.missing[:3]) + (" ..." if len(sender.missing) > 3 else "")
            waits = (
                f"index {missing} is missing"
                if missing
                else "messages of other senders that its clock names are missing or held too"
            )
            yield Finding(
                kind="sender_stalled" if sender.stalled_reason else "sender_held",
                severity=Severity.STUCK if sender.stalled_reason else Severity.HELD,
                store=here.store,
                since=sender.held_since,
                what=(
                    f"Stream {here.stream} at {here.store} holds back messages of sender {sender.sender}, epoch {sender.epoch}: {waits}."
                    + (" Its holdback is full: later messages wait in the log." if sender.stalled_reason else "")
                ),
                message_count=sender.held_count + sender.waiting_count,
                next_step="Let the sender send the missing messages again. If they will never come: "
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
                next_step=f'Repair the consumer. Then run: relaybox dead-letters redrive {shlex.quote(one.subscription)} --reason "..."',
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
    errors.OutboxChanged: (
        "its sequence was set back, or the default of relaybox.outbox.xid, or a view or function that finds waiting messages, was changed; "
        "what it hides is never moved"
    ),
    errors.UnknownHop: "it does not know a hop of relaybox.yaml",
    errors.UnknownTopic: "it does not move a topic that relaybox.yaml gives the hop",
    errors.ConfigurationError: "its connection is missing, or wrong",
    errors.HistoryLost: "it went back in time: messages that it had confirmed are gone",
}

_NEXT_STEPS: dict[type[errors.RelayboxError], str] = {
    errors.StoreUnreachable: "Check its server and its connection. Then hops continue without an action.",
    errors.StoreNotInitialised: "Run: relaybox init",
    errors.OutboxChanged: "Run: relaybox init",
    errors.UnknownHop: "Run: relaybox init",
    errors.SchemaTooNew: "Install the newer version of Relaybox.",
    errors.StoreUnusable: "Correct the connection or the server; the log of the task has the message of the server.",
    errors.ConfigurationError: "Correct the store's connection in Airflow, or the service file.",
}


_UNREADABLE = "can't be read"
_STATES: dict[type[errors.RelayboxError], str] = {errors.OutboxChanged: "moves nothing out of its outbox"}


def next_step_after(error: errors.RelayboxError) -> str:
    """What to do about a store that answered with this error, in words that name no host, user or file of it."""
    return next((step for kind, step in _NEXT_STEPS.items() if isinstance(error, kind)), "See the log of the server.")


def find_silent_stores(routes: Routes, status: Status) -> Iterator[Finding]:
    """Stores that did not answer."""
    for store, error in status.errors.items():
        yield Finding(
            kind="store_silent",
            severity=Severity.STUCK,
            store=store,
            what=f"Store {store} {_STATES.get(type(error), _UNREADABLE)}: {plain_words(error)}.",
            next_step=next_step_after(error),
            affected=tuple(hop.name for hop in routes.hops if store in (hop.source.name, hop.destination.name)),
        )


def find_in_store(routes: Routes, store: str, here: StoreBlockers) -> Iterator[Finding]:
    """Open transactions with messages, and sessions that wait for a standby."""
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
                f"{number} sent messages at {store} and not ended. These messages are invisible until it commits; "
                f"messages of other transactions are not delayed."
            ),
            blockers=here.senders,
            affected=leaving,
            next_step=(
                "Let the application commit or roll back. Ending its session rolls its messages back. "
                + end_commands((store, blocker) for blocker in here.senders)
            ),
        )
    if here.standby_waits:
        sessions = amount(here.standby_waits, "session waits", "sessions wait")
        yield Finding(
            kind="standby_silent",
            severity=Severity.STUCK,
            store=store,
            since=here.standby_waits_since,
            what=f"{sessions} at {store} for a synchronous standby that does not answer.",
            affected=tuple(hop.name for hop in routes.hops if store in (hop.source.name, hop.destination.name)),
            next_step="Start the standby. Then the sessions continue.",
        )


def end_commands(blockers: Iterable[tuple[str, Blocker]]) -> str:
    """The rights that it takes to end the first of these transactions, given with their stores; then the commands, and nothing else."""
    shown = list(dict.fromkeys((blocker.end_command(store), blocker.right_to_end) for store, blocker in blockers))[
        :SHOWN_COMMANDS
    ]
    rights = dict.fromkeys(right for _, right in shown)
    return f"{' '.join(rights)} Run: {'; '.join(command for command, _ in shown)}"


def find_unrouted(status: Status) -> Iterator[Finding]:
    """Topics that no hop reads. A topic that a hop lacks is a finding of that hop."""
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


def find_detached(logs: Iterable[DetachedLog]) -> Iterator[Finding]:
    """Messages of logs that are in files."""
    for log in logs:
        segments = amount(log.segment_count, "segment")
        yield Finding(
            kind="messages_detached",
            severity=Severity.NOTE,
            hop=log.hop,
            store=log.store,
            since=log.since,
            what=(
                f"Messages of the log of hop {log.hop} at {log.store} are detached, {segments} in files: "
                f"only {', '.join(log.needed_by)} needed them, and had stopped."
            ),
            message_count=log.message_count,
            next_step=f"Repair the consumer. Then run: relaybox attach {log.store} {log.hop}",
        )


def find_failing_endpoints(status: Status) -> Iterator[Finding]:
    """Webhooks, and sinks of Kafka, whose endpoint takes no message."""
    for endpoint in status.failing_endpoints:
        yield Finding(
            kind="endpoint_fails",
            severity=Severity.STUCK,
            store=endpoint.store,
            since=endpoint.failing_since,
            what=(
                f"The endpoint of subscription {endpoint.subscription} at {endpoint.store} takes no message: "
                f"{amount(endpoint.failure_count, 'attempt')} failed. Its messages wait, and none is refused."
            ),
            message_count=endpoint.waiting_count,
            next_step=endpoint.next_step,
        )


def find_reader_problems(problems: Iterable[ReaderProblem]) -> Iterator[Finding]:
    """Readers that get nothing, or less than relaybox.yaml and their subscription say."""
    for problem in problems:
        yield Finding(
            kind="reader_problem",
            severity=Severity.STUCK if problem.needs_decision else Severity.NOTE,
            store=problem.store,
            stream=problem.stream,
            what=problem.what,
            message_count=problem.waiting_count,
            next_step=problem.next_step,
        )


def find_orphaned(hops: Iterable[OrphanedHop]) -> Iterator[Finding]:
    """Hops that relaybox.yaml no longer contains, with messages that are kept for them."""
    for hop in hops:
        if hop.retired_at is None:
            yield Finding(
                kind="orphaned_hop",
                severity=Severity.NOTE,
                hop=hop.hop,
                store=hop.store,
                what=(
                    f"relaybox.yaml no longer contains hop {hop.hop} from {hop.store} to {hop.destination}. "
                    "Messages that it has not moved are kept."
                ),
                next_step=(
                    f'See how many: relaybox retire {hop.hop}. With --reason "..." it discards them and records why.'
                    if hop.in_use is None
                    else f"It is in use: {hop.in_use}. {hop.in_use_next_step}"
                ),
            )
