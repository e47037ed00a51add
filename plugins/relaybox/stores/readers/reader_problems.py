"""Readers of a store that get nothing, or less than relaybox.yaml and their subscription say: the one reading for all places that show it.

`init` says more where it is (stores.init.one_store): what a sink with a new name will do.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from relaybox.stores.readers.awaited_readers import NamedReader, UnsubscribedReader, list_unsubscribed, named_readers
from relaybox.stores.readers.changed_sinks import ChangedSink, change_settings, choose_changed, choose_unequal
from relaybox.stores.readers.orphaned_sinks import SinkSubscription, choose_orphaned, describe_moved, list_sink_subscriptions
from relaybox.stores.readers.orphaned_subscriptions import OrphanedSubscription, list_orphaned_subscriptions
from relaybox.stores.readers.reduced_subscriptions import ReducedSubscription, list_reduced_subscriptions

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from relaybox.routes import Routes, Sink, Store
    from relaybox.stores.sessions.store_session import StoreSession


READ_RELATIONS = ("subscription", "dead_letter", "stream", "known_topics", "consumer_action")
"""Of relaybox_internal, that this reading needs: a login that only consumes may not read them."""


class ProblemKind(StrEnum):
    """What is wrong with a reader. Of a sink with several the first is shown: what ends it ends the others."""

    CHANGED = "changed"  # the file gives a sink another stream, topic or setting than its subscription has: its runs are refused
    ORPHANED = "orphaned"  # no route of the file brings what a subscription reads
    REDUCED = "reduced"  # a subscription to all of a stream lost topics to another stream
    WITHOUT_SINK = "without_sink"  # the subscription of a sink that the file does not have in this store
    ENDED = "ended"  # the file names it, and its subscription was ended
    AWAITED = "awaited"  # the file names it, and it has not subscribed yet


@dataclass(frozen=True)
class ReaderProblem:
    """One reader, what is wrong with it, and what repairs it.

    Attributes:
        reader: as people call it: subscription billing, webhook orders, kafka warehouse, export lake, derivation delays.
        subscription: its name in the store; of a derivation that is awaited, with a star at its end for its version.
        stream: that the subscription reads; of one that is awaited or ended, that the file names.
        waiting_count: stream positions that are not acknowledged, of all topics of the stream; None: there is no subscription.
        state: in two or three words, for a table.
        what: sentences, with numbers.
        next_step: the commands and statements that repair it.
        stops_settling: nothing more of a route is settled meanwhile (processed_by).
    """

    kind: ProblemKind
    store: str
    reader: str
    subscription: str
    stream: str
    waiting_count: int | None
    state: str
    what: str
    next_step: str
    stops_settling: bool = False

    @property
    def needs_decision(self) -> bool:
        """Whether it stays until a person changes the file or the store. One that is awaited ends with the reader's first run."""
        return self.kind is not ProblemKind.AWAITED

    @property
    def is_of_sink(self) -> bool:
        """Whether it is about a webhook or a sink of Kafka, and not about what its stream brings."""
        return self.reader.partition(" ")[0] in ("webhook", "kafka")

    def __str__(self) -> str:
        return f"store {self.store}: {self.what} {self.next_step}"


def list_reader_problems(session: StoreSession, store: Store, routes: Routes) -> tuple[ReaderProblem, ...]:
    """The readers of a store with a problem, one problem each, by subscription. Reads no message. In the session's transaction."""
    found: dict[tuple[str, str], ReaderProblem] = {}
    order = list(ProblemKind)
    for problem in sorted(list_all_problems(session, store, routes), key=lambda one: order.index(one.kind)):
        # a subscription of processed_by that is missing in one stream may be open in another
        found.setdefault((problem.subscription, problem.stream if problem.stops_settling else ""), problem)
    steps = {one.subscription: one.next_step for one in found.values() if one.stops_settling}
    for key, problem in found.items():
        if problem.kind is ProblemKind.ORPHANED and problem.subscription in steps:
            # retention keeps the other stream for it under its own name: two ways to go on would contradict each other
            found[key] = replace(problem, next_step=steps[problem.subscription])
    return tuple(sorted(found.values(), key=lambda one: (one.subscription, one.stream)))


def list_all_problems(session: StoreSession, store: Store, routes: Routes) -> list[ReaderProblem]:
    """The same with all problems of each reader."""
    sinks = list_sink_subscriptions(session, store)
    return [
        *map(_of_changed, choose_changed(sinks, store, routes)),
        *(_of_unequal(*one) for one in choose_unequal(sinks, store, routes)),
        *map(_of_orphaned, list_orphaned_subscriptions(session, store, routes)),
        *map(_of_reduced, list_reduced_subscriptions(session, store, routes)),
        *(_of_sink(one, routes) for one in choose_orphaned(sinks, store, routes)),
        *(
            _after_former(problem, sinks, store, routes)
            for problem in _of_unsubscribed(store.name, list_unsubscribed(session, named_readers(routes, store)))
        ),
    ]


def may_list_problems(session: StoreSession) -> bool:
    """Whether the login may read what list_reader_problems() needs."""
    return bool(
        session.value(
            """
            select count(*) = cardinality(%(names)s::text[]) from pg_class c join pg_namespace n on n.oid = c.relnamespace
            where n.nspname = 'relaybox_internal' and c.relname = any(%(names)s)
                and has_schema_privilege(n.oid, 'usage') and has_table_privilege(c.oid, 'select')
            """,
            {"names": list(READ_RELATIONS)},
        )
    )


def _of_changed(one: ChangedSink) -> ReaderProblem:
    other, reader = one.subscription, f"{one.sink.kind} {one.sink.name}"
    return ReaderProblem(
        ProblemKind.CHANGED,
        other.store,
        reader,
        other.subscription,
        other.stream,
        other.waiting_count,
        "runs are refused",
        one.what,
        one.next_step,
    )


def _of_unequal(sink: Sink, one: SinkSubscription, differences: Sequence[str]) -> ReaderProblem:
    return ReaderProblem(
        ProblemKind.CHANGED,
        one.store,
        f"{sink.kind} {sink.name}",
        one.subscription,
        one.stream,
        one.waiting_count,
        "runs are refused",
        f"{sink.kind} {sink.name}: relaybox.yaml has {'; '.join(differences)}; {one.waiting}. While they differ, runs are refused and "
        "deliver nothing.",
        f"{one.dead_letters_first}{change_settings(sink, one.next_stream_position)}",
    )


def _of_orphaned(one: OrphanedSubscription) -> ReaderProblem:
    return ReaderProblem(
        ProblemKind.ORPHANED,
        one.store,
        f"subscription {one.subscription}",
        one.subscription,
        one.stream,
        one.waiting_count,
        "gets nothing new",
        one.what,
        one.next_step,
    )


def _of_reduced(one: ReducedSubscription) -> ReaderProblem:
    return ReaderProblem(
        ProblemKind.REDUCED,
        one.store,
        f"subscription {one.subscription}",
        one.subscription,
        one.stream,
        one.waiting_count,
        one.state,
        one.what,
        one.next_step,
    )


def _of_sink(one: SinkSubscription, routes: Routes) -> ReaderProblem:
    sink = one.moved_to(routes)
    return ReaderProblem(
        ProblemKind.WITHOUT_SINK,
        one.store,
        f"{one.kind} {one.name}",
        one.subscription,
        one.stream,
        one.waiting_count,
        "not in relaybox.yaml",
        f"Subscription {one.subscription} belongs to no sink: relaybox.yaml has no {one.section}.{one.name} in store {one.store}. "
        f"It is {one.waiting}, and the store keeps the messages that it has not acknowledged.",
        one.end_or_keep if sink is None else f"{describe_moved(one, sink)};",
    )


def _of_unsubscribed(store: str, found: Iterable[UnsubscribedReader]) -> Iterator[ReaderProblem]:
    for one in found:
        reader = one.reader
        is_refused = reader.is_sink and one.former in ("ended", "elsewhere_ended")
        if not one.is_awaited and not is_refused:
            continue
        is_ended = is_refused or one.former == "ended"
        yield ReaderProblem(
            ProblemKind.ENDED if is_ended else ProblemKind.AWAITED,
            store,
            reader.name,
            reader.subscription,
            reader.stream,
            None,
            "ended" if is_ended else "not subscribed yet",
            _describe_unsubscribed(reader, one, is_refused=is_refused),
            one.next_step,
            stops_settling=reader.processed_by is not None,
        )


def _after_former(problem: ReaderProblem, sinks: Sequence[SinkSubscription], store: Store, routes: Routes) -> ReaderProblem:
    """The same; of a new sink that may be one of these by another name, with the start that goes on where that one stands."""
    if problem.kind is not ProblemKind.AWAITED:
        return problem
    for sink in routes.sinks:
        if (sink.store, sink.subscription) == (store, problem.subscription):
            for former in choose_orphaned(sinks, store, routes):
                if former.may_become(sink) and sink.start != str(former.next_stream_position):
                    first = f'If it takes the place of {former.subscription}, first write start: "{former.next_stream_position}".'
                    return replace(problem, next_step=f"{first} {problem.next_step}")
    return problem


def _describe_unsubscribed(reader: NamedReader, one: UnsubscribedReader, *, is_refused: bool) -> str:
    kept = (
        f"Retention keeps all of stream {reader.stream} for it meanwhile."
        if one.is_awaited
        else "The store keeps nothing for it."
    )
    if reader.processed_by is not None:
        named = f"Subscription {reader.subscription}, which processed_by of route {reader.processed_by} names,"
        state = one.end if one.former == "ended" else f"has not subscribed to stream {reader.stream} yet"
        return f"{named} {state}: nothing more of the route is settled. {kept}"
    if is_refused:
        state = one.end if one.former == "ended" else "to another stream was ended"
        return f"The subscription of {reader.name} {state}: its runs are refused and deliver nothing. {kept}"
    return f"relaybox.yaml names {reader.name}, which has not subscribed to stream {reader.stream} yet. {kept}"
