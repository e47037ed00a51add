"""Proof of order: each store's stream against its logs, and the streams of a total route against each other. Reads only."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple, TypeVar

if TYPE_CHECKING:
    from relaybox.proofs.reading import Sessions
    from relaybox.routes import Route, Store
    from relaybox.stores.sessions import StoreSession

Value = TypeVar("Value")

VIOLATIONS: Mapping[str, str] = {
    "places_not_dense": "places are 1, 2, 3 ...",
    "position_lost": "each decided position has a place, or a reason for having none",
    "position_decided_twice": "and just one of these",
    "position_unknown": "nothing is decided about positions that were not reached",
    "index_repeated": "an index of a sender is delivered once",
    "message_id_repeated": "an id is delivered once within message_id_window",
    "sender_out_of_order": "a sender's indexes rise by one, save what was given up (fifo, causal; positions of a total log rise)",
    "before_its_cause": "no message comes before one that its clock names (causal)",
    "decision_missing": "each batch that was decided on has its decision",
    "decision_contradicts": "decisions count what has arrived, one after the other, and what was delivered",
    "sender_contradicts": "a sender is done through an index that has come, or was given up; what is beyond it waits",
    "place_called_dropped": "no place is called dropped whose message is kept",
    "cursor_contradicts": "a subscription reads what it subscribed to, and passes over nothing that it has not fetched",
    "stores_disagree": "two stores have the same position at the same place (total)",
}
"""Kind of violation -> the rule that it breaks."""

BLOCK_PLACES = 10_000
"""As relaybox.stream_digests has them."""

NAMED = 5


@dataclass(frozen=True)
class Violation:
    """How often a rule is broken, with a few of the places."""

    count: int
    examples: tuple[str, ...]


@dataclass(frozen=True)
class StreamProof:
    """What a store's stream says of its order.

    Attributes:
        first_kept_place: where its history begins; of what retention has dropped nothing is asked.
        last_place: places delivered.
        waiting_count: received messages that it neither delivered nor refused yet: held, in a log behind a stalled sender, or of
            batches that are published and not decided on.
        violations: by kind, only those that were found.
    """

    store: str
    stream: str
    order: str
    first_kept_place: int
    last_place: int
    waiting_count: int
    violations: Mapping[str, Violation]

    @property
    def violation_count(self) -> int:
        return sum(violation.count for violation in self.violations.values())


def prove_streams(sessions: Sessions, route: Route) -> list[StreamProof]:
    """Checks the route's stream at every store that it arrives in, side by side.

    Raises:
        StoreUnreachable, StoreFailed: a store did not answer; nothing can be said then.
    """
    stores = list(dict.fromkeys(hop.destination for hop in route.hops))
    asked = [sessions.ask(store, f"checking the order of stream {route.stream}", _check(store, route)) for store in stores]
    proofs = [proof for one in asked if (proof := one.result()) is not None]
    if route.order != "total" or len(proofs) != len(stores):
        return proofs
    return _compare_all(sessions, stores, proofs)


class _Checked(NamedTuple):
    """A stream as its store checked it; `found` are a count and examples for each kind of violation."""

    delivery_order: str
    first_kept_place: int
    last_place: int
    waiting_count: int
    found: dict[str, tuple[int, list[str]]]


_CHECK = """
    select s.delivery_order, s.first_kept_place, s.last_place,
        (select count(*) from relaybox.held h where h.stream_id = s.stream_id)
        + (select coalesce(sum(i.published_position - l.decided_position), 0)
            from relaybox.stream_log l join relaybox.hop_in i using (hop_id) where l.stream_id = s.stream_id)
        + (select coalesce(sum(w.waiting_count), 0) from relaybox.held_senders(s.stream) w) as waiting_count,
        coalesce((
            select jsonb_object_agg(c.kind, jsonb_build_array(c.violation_count, c.examples))
            from (
                select * from relaybox.check_stream(s.stream)
                union all
                select * from relaybox.check_decisions(s.stream)
            ) c
        ), '{}') as found
    from relaybox.stream s where s.stream = %s
"""


def _check(store: Store, route: Route) -> Callable[[StoreSession], StreamProof | None]:
    def ask(session: StoreSession) -> StreamProof | None:
        checked = session.row_if_any(_Checked, _CHECK, route.stream)
        if checked is None:
            return None
        order, first_kept_place, last_place, waiting_count, found = checked
        violations = {kind: Violation(count, tuple(examples)) for kind, (count, examples) in sorted(found.items())}
        return StreamProof(store.name, route.stream, order, first_kept_place, last_place, int(waiting_count), violations)

    return ask


def _compare_all(sessions: Sessions, stores: Sequence[Store], proofs: Sequence[StreamProof]) -> list[StreamProof]:
    """Each store's stream with the one before it on the way, as far as both have come."""
    compared = [proofs[0]]
    for (store, proof), (next_store, next_proof) in pairwise(zip(stores, proofs, strict=True)):
        first, through = max(proof.first_kept_place, next_proof.first_kept_place), min(proof.last_place, next_proof.last_place)
        examples, count = _compare(sessions, (store, next_store), proof.stream, first, through)
        disagree = {"stores_disagree": Violation(count, examples)} if count else {}
        compared.append(replace(next_proof, violations={**next_proof.violations, **disagree}))
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
        here, there = _both(sessions, stores, "reading places that differ", _positions(stream, block, first, through))
        differing = [place for place in sorted({*here, *there}) if here.get(place) != there.get(place)]
        count += len(differing)
        examples += [
            f"place {place}: position {here.get(place, 'none')} at {stores[0].name}, {there.get(place, 'none')} at {stores[1].name}"
            for place in differing[: NAMED - len(examples)]
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
    query = "select block, digest from relaybox.stream_digests(%s, %s, %s)"
    return lambda session: dict(session.rows(_BlockDigest, query, stream, first, through))


class _PlacePosition(NamedTuple):
    place: int
    position: int


def _positions(stream: str, block: int, first: int, through: int) -> Callable[[StoreSession], dict[int, int]]:
    query = """
        select p.place, p.position from relaybox.stream s, relaybox.stream_places(s.stream_id, %s) p
        where s.stream = %s and (p.place - 1) / %s = %s and p.place >= %s
    """
    return lambda session: dict(session.rows(_PlacePosition, query, through, stream, BLOCK_PLACES, block, first))
