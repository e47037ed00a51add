"""Proof of delivery: compares the stores of a route, message by message, by count and by content. Reads only.

Each slice that a batch ledger names is read again at its source, exactly as it was copied, and hashed there and at its
destination; only slices whose digests differ are fetched and compared row by row. The origin is compared with the last
store in the same way, past all stores between. Messages that are not published yet are in flight, and no defect.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, as_completed
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal
from uuid import UUID

from relaybox import errors
from relaybox.adoption import NOTHING_ADOPTED, Adopted, compare_adopted, read_at_destination, read_at_source
from relaybox.comparisons import Ledgers, Leg, Piece, hop_leg, whole_leg
from relaybox.defects import LOSSES, Defect, DefectKind, compare_slice, reconcile
from relaybox.ledgers import read_destination, read_source
from relaybox.reading import Digest, Sessions, SliceRead, read_digest, read_rows
from relaybox.reliability import Delivery, measure_delivery
from relaybox.stream_proofs import StreamProof, prove_streams

if TYPE_CHECKING:
    from relaybox.routes import Hop, Route, Store

MAX_STRANGERS_NAMED = 10_000
"""Rows of a log beyond everything that was planned: all are counted, so many are named."""


@dataclass(frozen=True)
class LegProof:
    """What two stores say of a hop, or the first and the last of a whole route.

    Attributes:
        name: the hop, or the route for its whole way.
        sent: messages that are due: in batches that are published at the destination.
        received: rows that are there for them, copies and strangers included.
        in_flight: committed messages that are not published at the destination yet.
        delivery: R and UR by content.
        contradictions: what is wrong in or between the ledgers.
        adopted_count: messages that were delivered under a ledger which the source lost; they are not in `sent`.
        ghosts: ids of those of them that the source lost as well.
        no_longer_kept: messages that retention has dropped in one of the two stores: nothing is said of them.
    """

    name: str
    source: str
    destination: str
    sent: int
    received: int
    in_flight: int
    batch_count: int
    slice_count: int
    delivery: Delivery
    defects: tuple[Defect, ...]
    contradictions: tuple[str, ...]
    adopted_count: int = 0
    ghosts: tuple[UUID, ...] = ()
    no_longer_kept: int = 0

    @property
    def defect_count(self) -> int:
        return len(self.defects) + len(self.contradictions)


@dataclass(frozen=True)
class RouteProof:
    """The proof of a route.

    Attributes:
        end_to_end: the origin compared with the last store directly.
        sender_count: senders at the last store.
        disordered_senders: those with a message out of its place there; of all others every message is where it was put.
        streams: what each store delivered, checked against the order of the route.
        repeated_ids: ids that producers gave to several messages: each of these was delivered, under one id.
    """

    route: str
    verified_at: datetime
    duration_seconds: float
    hops: tuple[LegProof, ...]
    end_to_end: LegProof
    sender_count: int
    disordered_senders: tuple[str, ...]
    repeated_ids: tuple[UUID, ...]
    streams: tuple[StreamProof, ...]

    @property
    def verdict(self) -> Literal["delivered", "in flight", "defects"]:
        legs = (*self.hops, self.end_to_end)
        if any(leg.defect_count for leg in legs) or any(stream.violation_count for stream in self.streams):
            return "defects"
        is_waiting = any(leg.in_flight for leg in legs) or any(stream.waiting_count for stream in self.streams)
        return "in flight" if is_waiting else "delivered"


@dataclass(frozen=True)
class VerifyProgress:
    """Rows hashed so far, of so many: each message once per store and hop."""

    row_count: int
    of_count: int


def verify_route(route: Route, *, progress: Callable[[VerifyProgress], None] = lambda _: None) -> RouteProof:
    """Compares all stores of a route. One session per store, all at work side by side.

    Args:
        route: the route.
        progress: called from this thread, as often as a slice is hashed.

    Raises:
        UnknownHop: a hop is not registered in its stores.
        StoreUnreachable, StoreUnusable, StoreNotInitialised: a store can't be asked; nothing can be said then.
    """
    started = time.monotonic()
    with Sessions(route.path, application_name=f"relaybox {route.name} verify") as sessions:
        # the last hop first, and each destination before its source: what was read first is known to what is read later
        ledgers = [_read_ledgers(sessions, hop) for hop in reversed(route.hops)][::-1]
        legs = [hop_leg(one) for one in ledgers]
        whole = legs[0] if len(legs) == 1 else whole_leg(route, ledgers)
        digests = _Digests(sessions, [*legs, whole], progress)
        findings = _ask_findings(sessions, route, legs, whole)
        digests.wait()
        proofs = [
            _prove(sessions, leg, digests, findings, _compare_adopted(sessions, one))
            for leg, one in zip(legs, ledgers, strict=True)
        ]
        streams = prove_streams(sessions, route)
        end_to_end = proofs[0] if whole is legs[0] else _prove(sessions, whole, digests, findings)
    named = {defect.message_id for proof in (*proofs, end_to_end) for defect in proof.defects}
    return RouteProof(
        route=route.name,
        verified_at=datetime.now(UTC),
        duration_seconds=time.monotonic() - started,
        hops=tuple(proofs),
        end_to_end=replace(end_to_end, name=route.name),
        sender_count=findings.sender_count.result(),
        disordered_senders=_disordered(end_to_end.defects),
        repeated_ids=tuple(sorted(findings.doubled[whole.name].result() - named)),
        streams=tuple(streams),
    )


@dataclass(frozen=True)
class _Findings:
    """Questions to whole stores, asked once: doubled ids per leg, messages in no batch per leg, senders at the last store."""

    doubled: Mapping[str, Future[set[UUID]]]
    unbatched: Mapping[str, Future[tuple[Defect, ...]]]
    sender_count: Future[int]


def _ask_findings(sessions: Sessions, route: Route, legs: Sequence[Leg], whole: Leg) -> _Findings:
    doubled = {leg.name: sessions.ask(leg.destination, "looking for doubled messages", _doubled(leg)) for leg in legs}
    unbatched = sessions.ask(route.path[0], "looking for messages in no batch", _unbatched(legs[0].name))
    return _Findings(
        doubled={**doubled, whole.name: doubled[legs[-1].name]},
        unbatched={legs[0].name: unbatched, whole.name: unbatched},
        sender_count=sessions.ask(route.path[-1], "counting senders", _count_senders(whole)),
    )


def _read_ledgers(sessions: Sessions, hop: Hop) -> Ledgers:
    doing = f"reading the ledger of hop {hop.name}"
    destination = sessions.ask(hop.destination, doing, lambda connection: read_destination(connection, hop.name)).result()
    source = sessions.ask(hop.source, doing, lambda connection: read_source(connection, hop.name)).result()
    if source is None or destination is None:
        store, way = (hop.source, "leave") if source is None else (hop.destination, "arrive in")
        raise errors.UnknownHop(f"hop {hop.name} does not {way} store {store.name}.", next_step="Run: relaybox init")
    return Ledgers(hop, source, destination)


class _Digests:
    """All digests that the legs need, each asked for once, by store and slice."""

    def __init__(self, sessions: Sessions, legs: Iterable[Leg], progress: Callable[[VerifyProgress], None]) -> None:
        self._progress = progress
        self._row_counts: dict[tuple[str, SliceRead], int] = {}
        self._asked: dict[tuple[str, SliceRead], Future[Digest]] = {}
        for leg in legs:
            for piece in leg.pieces:
                self._ask(sessions, leg.source, piece.source, piece.row_count)
                self._ask(sessions, leg.destination, piece.destination, piece.row_count)

    def _ask(self, sessions: Sessions, store: Store, read: SliceRead, row_count: int) -> None:
        if (store.name, read) not in self._asked:
            self._row_counts[store.name, read] = row_count
            self._asked[store.name, read] = sessions.ask(store, "hashing a slice", read_digest(read))

    def wait(self) -> None:
        done, total = 0, sum(self._row_counts.values())
        self._progress(VerifyProgress(done, total))
        row_counts = {asked: self._row_counts[key] for key, asked in self._asked.items()}
        for asked in as_completed(row_counts):
            asked.result()
            done += row_counts[asked]
            self._progress(VerifyProgress(done, total))

    def of(self, store: Store, read: SliceRead) -> Digest:
        return self._asked[store.name, read].result()


def _compare_adopted(sessions: Sessions, ledgers: Ledgers) -> Adopted:
    planned, hop = ledgers.source.planned, ledgers.hop
    if not any(batch.adopted for batch in planned):
        return NOTHING_ADOPTED
    doing = f"comparing what hop {hop.name} adopted"
    rows = sessions.ask(hop.destination, doing, read_at_destination(ledgers.destination.log_id, planned)).result()
    hashes, listed = sessions.ask(hop.source, doing, read_at_source(hop.name, rows)).result()
    return compare_adopted(rows, hashes, listed, source_is_whole=ledgers.source.first_kept_read == 1)


def _prove(sessions: Sessions, leg: Leg, digests: _Digests, findings: _Findings, adopted: Adopted = NOTHING_ADOPTED) -> LegProof:
    differing = [
        piece for piece in leg.pieces if digests.of(leg.source, piece.source) != digests.of(leg.destination, piece.destination)
    ]
    stranger_count, strangers = sessions.ask(leg.destination, "looking for rows beyond the ledger", _beyond(leg)).result()
    named = [defect for piece in differing for defect in _compare(sessions, leg, piece)]
    unbatched = findings.unbatched[leg.name].result() if leg.name in findings.unbatched else ()
    doubled = findings.doubled[leg.name].result()
    defects = (*unbatched, *reconcile([*named, *strangers, *adopted.defects], doubled=doubled))
    sent = sum(digests.of(leg.source, piece.source).row_count for piece in leg.pieces) + len(unbatched)
    received = sum(digests.of(leg.destination, piece.destination).row_count for piece in leg.pieces) + stranger_count
    lost = len({(defect.message_id, defect.position) for defect in defects if defect.kind in LOSSES})
    return LegProof(
        name=leg.name,
        source=leg.source.name,
        destination=leg.destination.name,
        sent=sent,
        received=received,
        in_flight=leg.in_flight,
        batch_count=len({piece.batch for piece in leg.pieces}),
        slice_count=len(leg.pieces),
        delivery=measure_delivery(sent=sent, unique_received=sent - lost, received=received),
        defects=defects,
        contradictions=(*leg.contradictions, *_miscounted(leg, digests)),
        adopted_count=adopted.message_count,
        ghosts=tuple(row.message_id for row in adopted.ghosts),
        no_longer_kept=leg.no_longer_kept,
    )


def _compare(sessions: Sessions, leg: Leg, piece: Piece) -> Iterator[Defect]:
    expected = sessions.ask(leg.source, "reading a slice that differs", read_rows(piece.source))
    found = sessions.ask(leg.destination, "reading a slice that differs", read_rows(piece.destination))
    return compare_slice(expected.result(), found.result())


def _miscounted(leg: Leg, digests: _Digests) -> Iterator[str]:
    for piece in leg.pieces:
        row_count = digests.of(leg.source, piece.source).row_count
        if row_count != piece.row_count:
            yield (
                f"slice {piece.slice} of batch {piece.batch} has {row_count} rows at {leg.source.name}, "
                f"planned were {piece.row_count}: rows of the source were removed or added after planning"
            )


def _disordered(defects: Iterable[Defect]) -> tuple[str, ...]:
    return tuple(sorted({defect.sender for defect in defects if defect.kind is DefectKind.MISPLACED}))


def _doubled(leg: Leg) -> Callable[[Any], set[UUID]]:
    def ask(connection: Any) -> set[UUID]:
        with connection.cursor() as cursor:
            cursor.execute("select message_id from relaybox.doubled_messages(%s, %s)", (leg.log_id, leg.highest_position))
            return {UUID(message_id) for (message_id,) in cursor.fetchall()}

    return ask


def _unbatched(hop: str) -> Callable[[Any], tuple[Defect, ...]]:
    def ask(connection: Any) -> tuple[Defect, ...]:
        with connection.cursor() as cursor:
            cursor.execute("select message_id, sender from relaybox.unbatched_messages(%s)", (hop,))
            rows = cursor.fetchall()
        return tuple(Defect(DefectKind.UNBATCHED, UUID(message_id), sender, None, None) for message_id, sender in rows)

    return ask


def _count_senders(leg: Leg) -> Callable[[Any], int]:
    def ask(connection: Any) -> int:
        with connection.cursor() as cursor:
            cursor.execute(
                "select count(distinct l.sender) from relaybox.log l where l.hop_id = %s and l.position <= %s",
                (leg.log_id, leg.through_position),
            )
            return int(cursor.fetchone()[0])

    return ask


def _beyond(leg: Leg) -> Callable[[Any], tuple[int, list[Defect]]]:
    """Rows that no batch put there: before position 1, or after the last one planned. Staged rows of an open batch are none.

    Only among the positions seen before the source's ledger was read: what came later may be of a later batch.
    """

    def ask(connection: Any) -> tuple[int, list[Defect]]:
        with connection.cursor() as cursor:
            cursor.execute(
                """
                select l.message_id, l.sender, l.position, count(*) over () from relaybox.log l
                where l.hop_id = %s and (l.position < 1 or l.position > %s) and l.position <= %s
                order by l.position limit %s
                """,
                (leg.log_id, leg.planned_position, leg.highest_position, MAX_STRANGERS_NAMED),
            )
            rows = cursor.fetchall()
        strangers = [Defect(DefectKind.UNEXPECTED, UUID(row[0]), row[1], None, row[2]) for row in rows]
        return (rows[0][3] if rows else 0), strangers

    return ask
