"""Verification of order: each store's stream against its logs, and the streams of a total route against each other. Reads only."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple, TypeVar

if TYPE_CHECKING:
    from relaybox.routes import Route, Store
    from relaybox.stores.sessions.store_session import StoreSession
    from relaybox.verification.reading import Sessions

Value = TypeVar("Value")

VIOLATIONS: Mapping[str, str] = {
    "stream_positions_not_dense": "stream positions are 1, 2, 3 ...",
    "position_lost": "each decided position has a stream position, or a reason for having none",
    "position_decided_twice": "and just one of these",
    "position_unknown": "nothing is decided about positions that were not reached",
    "index_repeated": "an index of a sender is delivered once",
    "message_id_repeated": "an id of a sender is delivered once within message_id_window",
    "sender_out_of_order": "a sender's indexes rise by one, save what was given up (fifo, causal; positions of a total log rise)",
    "before_its_cause": "no message comes before one that its clock names (causal)",
    "decision_missing": "each batch that was decided on has its decision",
    "decision_contradicts": "decisions count what has arrived, one after the other, and what was delivered",
    "sender_contradicts": "a sender is done through an index that has come, or was given up; what is beyond it waits",
    "stream_position_called_dropped": "no stream position is called dropped whose message is kept",
    "cursor_contradicts": "a subscription reads what it subscribed to, and passes over nothing that it has not fetched",
    "stores_disagree": "two stores have the same position at the same stream position (total)",
}
"""Kind of violation -> the rule that it breaks."""

BLOCK_PLACES = 10_000
"""As relaybox_internal.stream_digests has them."""

NAMED = 5


@dataclass(frozen=True)
class Violation:
    """How often a rule is broken, with a few of the stream positions."""

    count: int
    examples: tuple[str, ...]


@dataclass(frozen=True)
class StreamVerification:
    """What a store's stream says of its order.

    Attributes:
        first_kept_stream_position: where its history begins; of what retention has dropped nothing is asked.
        last_stream_position: stream positions delivered.
        waiting_count: received messages that it has not decided on: held, in a log behind a stalled sender, or of
            batches that are published and not decided on.
        violations: by kind, only those that were found.
        set_aside: dead letters of the stream that are open, by reason. Their messages are in the log, and no consumer gets them.
    """

    store: str
    stream: str
    order: str
    first_kept_stream_position: int
    last_stream_position: int
    waiting_count: int
    violations: Mapping[str, Violation]
    set_aside: Mapping[str, int] = field(default_factory=dict)

    @property
    def set_aside_count(self) -> int:
        return sum(self.set_aside.values())

    @property
    def violation_count(self) -> int:
        return sum(violation.count for violation in self.violations.values())


def prove_streams(sessions: Sessions, route: Route) -> list[StreamVerification]:
    """Checks the route's stream at every store that it arrives in, side by side.

    Raises:
        StoreUnreachable, StoreFailed: a store did not answer; nothing can be said then.
    """
    stores = list(dict.fromkeys(hop.destination for hop in route.hops))
    asked = [sessions.ask(store, f"checking the order of stream {route.stream}", _check(store, route)) for store in stores]
    verifications = [verification for one in asked if (verification := one.result()) is not None]
    if route.order != "total" or len(verifications) != len(stores):
        return verifications
    return _compare_all(sessions, stores, verifications)


class _Checked(NamedTuple):
    """A stream as its store checked it; `found` are a count and examples for each kind of violation."""

    delivery_order: str
    first_kept_stream_position: int
    last_stream_position: int
    waiting_count: int
    set_aside: dict[str, int]
    found: dict[str, tuple[int, list[str]]]


_CHECK = """
    select s.delivery_order, s.first_kept_stream_position, s.last_stream_position,
        (select count(*) from relaybox_internal.held h where h.stream_id = s.stream_id)
        + (select coalesce(sum(i.published_position - l.decided_position), 0)
            from relaybox_internal.stream_log l join relaybox_internal.hop_in i using (log_id) where l.stream_id = s.stream_id)
        + (select coalesce(sum(w.waiting_count), 0) from relaybox_internal.held_senders(s.stream) w) as waiting_count,
        coalesce((
            select jsonb_object_agg(a.reason, a.message_count)
            from (
                select d.reason, count(*) as message_count
                from relaybox_internal.stream_log l join relaybox_internal.dead_letter d using (log_id)
                where l.stream_id = s.stream_id and d.subscription_id is null and d.state = 'open'
                group by d.reason
            ) a
        ), '{}') as set_aside,
        coalesce((
            select jsonb_object_agg(c.kind, jsonb_build_array(c.violation_count, c.examples))
            from (
                select * from relaybox_internal.check_stream(s.stream)
                union all
                select * from relaybox_internal.check_decisions(s.stream)
            ) c
        ), '{}') as found
    from relaybox_internal.stream s where s.stream = %s
"""


def _check(store: Store, route: Route) -> Callable[[StoreSession], StreamVerification | None]:
    def ask(session: StoreSession) -> StreamVerification | None:
        checked = session.row_if_any(_Checked, _CHECK, route.stream)
        if checked is None:
            return None
        order, first_kept_stream_position, last_stream_position, waiting_count, set_aside, found = checked
        violations = {kind: Violation(count, tuple(examples)) for kind, (count, examples) in sorted(found.items())}
        return StreamVerification(
            *(store.name, route.stream, order, first_kept_stream_position, last_stream_position),
            *(int(waiting_count), violations, set_aside),
        )

    return ask


def _compare_all(
    sessions: Sessions, stores: Sequence[Store], verifications: Sequence[StreamVerification]
) -> list[StreamVerification]:
    """Each store's stream with the one before it on the way, as far as both have come."""
    compared = [verifications[0]]
    for (store, verification), (next_store, next_verification) in pairwise(zip(stores, verifications, strict=True)):
        first, through = (
            max(verification.first_kept_stream_position, next_verification.first_kept_stream_position),
            min(verification.last_stream_position, next_verification.last_stream_position),
        )
        examples, count = _compare(sessions, (store, next_store), verification.stream, first, through)
        disagree = {"stores_disagree": Violation(count, examples)} if count else {}
        compared.append(replace(next_verification, violations={**next_verification.violations, **disagree}))
    return compared


def _compare(
    sessions: Sessions, stores: tuple[Store, Store], stream: str, first: int, through: int
) -> tuple[tuple[str, ...], int]:
    digests = _both(sessions, stores, "digesting a stream", _digests(stream, first, through))
    count = 0
    examples: list[str] = []
    for block in sorted({*digests[0], *digests[1]}):
        if digests[0].get(block) == digests[1].get(block):
            continue
        here, there = _both(sessions, stores, "reading stream positions that differ", _positions(stream, block, first, through))
        differing = [
            stream_position
            for stream_position in sorted({*here, *there})
            if here.get(stream_position) != there.get(stream_position)
        ]
        count += len(differing)
        examples += [
            f"stream position {stream_position}: position {here.get(stream_position, 'none')} at {stores[0].name}, "
            f"{there.get(stream_position, 'none')} at {stores[1].name}"
            for stream_position in differing[: NAMED - len(examples)]
        ]
    return tuple(examples), count


def _both(
    sessions: Sessions, stores: tuple[Store, Store], doing: str, ask: Callable[[StoreSession], dict[int, Value]]
) -> tuple[dict[int, Value], dict[int, Value]]:
    first, second = (sessions.ask(store, doing, ask) for store in stores)
    return first.result(), second.result()


class _BlockDigest(NamedTuple):
    block: int
    digest: str


def _digests(stream: str, first: int, through: int) -> Callable[[StoreSession], dict[int, str]]:
    query = "select block, digest from relaybox_internal.stream_digests(%s, %s, %s)"
    return lambda session: dict(session.rows(_BlockDigest, query, stream, first, through))


class _PositionPair(NamedTuple):
    stream_position: int
    log_position: int


def _positions(stream: str, block: int, first: int, through: int) -> Callable[[StoreSession], dict[int, int]]:
    query = """
        select p.stream_position, p.log_position from relaybox_internal.stream s, relaybox_internal.list_stream_positions(s.stream_id, %s) p
        where s.stream = %s and (p.stream_position - 1) / %s = %s and p.stream_position >= %s
    """
    return lambda session: dict(session.rows(_PositionPair, query, through, stream, BLOCK_PLACES, block, first))
