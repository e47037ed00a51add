"""Verification of delivery: compares the stores of a route, message by message, by count and by content. Reads only.

Each slice that a batch ledger names is read again at its source, exactly as it was copied, and hashed there and at its
destination; only slices whose digests differ are fetched and compared row by row. The origin is compared with the last
store in the same way, past all stores between. Messages that are not published yet are in flight, and no defect.
Who hashes and compares the slices is a runner's: the sessions of this process, or Spark tasks. All else is asked here.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

from relaybox import errors
from relaybox.hops.ledgers import LedgerConfirmation, read_confirmed, read_destination, read_source
from relaybox.log_events import emit
from relaybox.verification.adoption import NOTHING_ADOPTED, AdoptedContent, compare_adopted, read_at_destination, read_at_source
from relaybox.verification.comparison_runners import ComparisonTooLarge, SessionComparisonRunner
from relaybox.verification.comparisons import Ledgers, Leg, Piece, hop_leg, whole_leg
from relaybox.verification.conservation import NOTHING_SENT, Conservation, read_conservation
from relaybox.verification.defects import LOSSES, Defect, DefectKind, reconcile, twice_read
from relaybox.verification.reading import Digest, Sessions, StoreRead
from relaybox.verification.reliability import measure_delivery
from relaybox.verification.results import LegVerification, RepeatedIdCounts, RouteVerification, verification_line
from relaybox.verification.stream_verification import prove_streams

if TYPE_CHECKING:
    from relaybox.routes import Hop, Route
    from relaybox.stores.sessions.store_session import StoreSession
    from relaybox.verification.comparison_runners import ComparisonRunner
    from relaybox.verification.reading import Pair

MAX_STRANGERS_NAMED = 10_000
"""Rows of a log beyond all planned batches: all are counted, this many are named."""


@dataclass(frozen=True)
class VerifyProgress:
    """Rows hashed so far, and their total: each message once per store and hop."""

    row_count: int
    of_count: int


def verify_route(
    route: Route,
    *,
    runner: ComparisonRunner | None = None,
    below_rows: int | None = None,
    progress: Callable[[VerifyProgress], None] = lambda _: None,
) -> RouteVerification:
    """Compares all stores of a route. One session per store, all at work side by side, besides those of the runner.

    Args:
        route: the route.
        runner: hashes and compares the slices; by default the sessions of this call.
        below_rows: routes with this many messages or more, counted on the leg that has most of them, are left to another runner.
        progress: called from this thread, as often as a slice is hashed.

    Raises:
        ComparisonTooLarge: as `below_rows` says; nothing was compared.
        UnknownHop: a hop is not registered in its stores.
        StoreUnreachable, StoreUnusable, StoreNotInitialised: a store can't be asked; nothing can be said then.
    """
    started = time.monotonic()
    with Sessions(route.path, application_name=verification_session(route.name)) as sessions:
        # what is confirmed first, from the origin on: it is there, at every store that is asked later. Then the last hop first, and each
        # destination before its source: what was read first is known to what is read later
        confirmed = {hop.name: _read_confirmed(sessions, route, hop) for hop in route.hops}
        ledgers = [_read_ledgers(sessions, hop, confirmed[hop.name]) for hop in reversed(route.hops)][::-1]
        legs = [hop_leg(one) for one in ledgers]
        whole = legs[0] if len(legs) == 1 else whole_leg(route, ledgers)
        row_count = max(leg.row_count for leg in legs)
        if below_rows is not None and row_count >= below_rows:
            raise ComparisonTooLarge(f"{row_count} messages to compare")
        compared = _Compared(runner or SessionComparisonRunner(sessions), [*legs, whole], progress)
        findings = _ask_findings(sessions, route, legs, whole)
        compared.wait()
        verifications = [
            _verify_leg(sessions, leg, compared, findings, _compare_adopted(sessions, one))
            for leg, one in zip(legs, ledgers, strict=True)
        ]
        streams = prove_streams(sessions, route)
        end_to_end = verifications[0] if whole is legs[0] else _verify_leg(sessions, whole, compared, findings)
        named = {defect.message_id for verification in (*verifications, end_to_end) for defect in verification.defects}
        repeated_ids = tuple(sorted(findings.repeated[whole.name].result().ids - named))
        repeated_id_counts = _count_repeated(sessions, route, whole, repeated_ids) if repeated_ids else None
    verification = RouteVerification(
        route=route.name,
        verified_at=datetime.now(UTC),
        duration_seconds=time.monotonic() - started,
        hops=tuple(verifications),
        end_to_end=replace(end_to_end, name=route.name),
        sender_count=findings.sender_count.result(),
        disordered_senders=_disordered(end_to_end.defects),
        repeated_ids=repeated_ids,
        streams=tuple(streams),
        repeated_id_counts=repeated_id_counts,
    )
    emit("route_verified", **verification_line(verification))
    return verification


def verification_session(route: str) -> str:
    """The name of every session that works on a route's verification, here and on executors."""
    return f"relaybox {route} verify"


@dataclass(frozen=True)
class RepeatedIds:
    """Ids that stand in a log more than once, and each position where the same message stands once more."""

    ids: frozenset[UUID]
    copies: tuple[Defect, ...]


@dataclass(frozen=True)
class _Findings:
    """Questions to whole stores, asked once: repeated ids per leg, the outbox's account (G12), senders at the last store."""

    repeated: Mapping[str, Future[RepeatedIds]]
    conservation: Mapping[str, Future[Conservation]]
    sender_count: Future[int]


def _ask_findings(sessions: Sessions, route: Route, legs: Sequence[Leg], whole: Leg) -> _Findings:
    repeated = {leg.name: sessions.ask(leg.destination, "looking for doubled messages", _repeated(leg)) for leg in legs}
    first_hop = legs[0].name
    conservation = sessions.ask(
        route.path[0],
        f"accounting for the outbox of hop {first_hop}",
        lambda session: read_conservation(session, first_hop),
    )
    return _Findings(
        repeated={**repeated, whole.name: repeated[legs[-1].name]},
        conservation={first_hop: conservation, whole.name: conservation},
        sender_count=sessions.ask(route.path[-1], "counting senders", _count_senders(whole)),
    )


def _read_confirmed(sessions: Sessions, route: Route, hop: Hop) -> Mapping[str, LedgerConfirmation]:
    later = [other.name for other in route.hops if other.number >= hop.number]
    doing = f"reading what is confirmed of hop {hop.name}"
    return sessions.ask(hop.source, doing, lambda session: read_confirmed(session, later)).result()


def _read_ledgers(sessions: Sessions, hop: Hop, confirmed: Mapping[str, LedgerConfirmation]) -> Ledgers:
    doing = f"reading the ledger of hop {hop.name}"
    destination = sessions.ask(hop.destination, doing, lambda session: read_destination(session, hop.name)).result()
    source = sessions.ask(hop.source, doing, lambda session: read_source(session, hop.name)).result()
    if source is None or destination is None:
        store, way = (hop.source, "leave") if source is None else (hop.destination, "arrive in")
        raise errors.UnknownHop(f"hop {hop.name} does not {way} store {store.name}.", next_step="Run: relaybox init")
    return Ledgers(hop, source, destination, confirmed)


class _Compared:
    """What a runner says of all legs. Each slice of each store is hashed once, for however many legs."""

    def __init__(self, runner: ComparisonRunner, legs: Iterable[Leg], progress: Callable[[VerifyProgress], None]) -> None:
        self._runner, self._progress = runner, progress
        reads = dict.fromkeys(one for leg in legs for piece in leg.pieces for one in leg.pair(piece))
        self._row_count = sum(one.read.row_count for one in reads)
        self._asked = runner.read_digests(list(reads))
        self._digests: dict[StoreRead, Digest] = {}

    def wait(self) -> None:
        done = 0
        self._progress(VerifyProgress(done, self._row_count))
        for one, digest in self._asked:
            self._digests[one] = digest
            done += one.read.row_count
            self._progress(VerifyProgress(done, self._row_count))

    def row_counts(self, leg: Leg, piece: Piece) -> tuple[int, int]:
        """How many rows of a piece its source has, and its destination."""
        source, destination = (self._digests[one].row_count for one in leg.pair(piece))
        return source, destination

    def defects(self, leg: Leg) -> list[Defect]:
        """What differs within the pieces whose digests do; what a hop adopted is compared by content there, not at both ends."""
        found = self._runner.compare_rows([pair for piece in leg.pieces if self._differ(pair := leg.pair(piece))])
        return [one for one in found if not (one.kind is DefectKind.CHANGED and leg.is_adopted(one.log_position))]

    def _differ(self, pair: Pair) -> bool:
        return self._digests[pair[0]] != self._digests[pair[1]]


def _compare_adopted(sessions: Sessions, ledgers: Ledgers) -> AdoptedContent:
    planned, hop = ledgers.source.planned, ledgers.hop
    if not any(batch.adopted for batch in planned):
        return NOTHING_ADOPTED
    doing = f"comparing what hop {hop.name} adopted"
    of_log = ledgers.source.reads_log is not None
    rows = sessions.ask(hop.destination, doing, read_at_destination(ledgers.destination.log_id, planned, of_log=of_log)).result()
    adopted = [batch for batch in planned if batch.adopted]
    starts = [batch.first_position for batch in adopted]
    reads = [adopted[bisect_right(starts, row.log_position) - 1].read_at(row.log_position) for row in rows]
    hashes, listed = sessions.ask(hop.source, doing, read_at_source(hop.name, rows, reads)).result()
    return compare_adopted(rows, hashes, listed, source_is_whole=ledgers.source.first_kept_read == 1)


def _verify_leg(
    sessions: Sessions, leg: Leg, compared: _Compared, findings: _Findings, adopted: AdoptedContent = NOTHING_ADOPTED
) -> LegVerification:
    stranger_count, strangers = sessions.ask(leg.destination, "looking for rows beyond the ledger", _beyond(leg)).result()
    kept = findings.conservation[leg.name].result() if leg.name in findings.conservation else NOTHING_SENT
    repeated = findings.repeated[leg.name].result()
    differing = reconcile([*compared.defects(leg), *strangers, *adopted.defects], doubled=repeated.ids)
    # two slices that read the same message find it at both positions: nothing differs there
    read_twice = twice_read(repeated.copies, differing) if leg.reads_outbox else ()
    in_log = {defect.message_id for defect in read_twice}
    in_two = [defect for defect in kept.doubled if defect.message_id not in in_log]
    of_batches = (*in_two, *read_twice, *differing)
    defects = (*kept.unbatched, *of_batches)
    row_counts = [compared.row_counts(leg, piece) for piece in leg.pieces]
    sent = sum(source for source, _ in row_counts) + len(kept.unbatched) - len(read_twice) + adopted.changed_count
    received = sum(destination for _, destination in row_counts) + stranger_count + adopted.changed_count
    # a message in no batch has no position, and may have the id of another one
    lost = len(kept.unbatched) + len({(defect.message_id, defect.log_position) for defect in of_batches if defect.kind in LOSSES})
    return LegVerification(
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
        contradictions=(*kept.contradictions, *leg.contradictions, *_miscounted(leg, compared)),
        adopted_count=adopted.message_count,
        ghosts=tuple(row.message_id for row in adopted.ghosts),
        no_longer_kept=leg.no_longer_kept,
        account=kept.account,
    )


def _miscounted(leg: Leg, compared: _Compared) -> Iterator[str]:
    for piece in leg.pieces:
        row_count, _ = compared.row_counts(leg, piece)
        if row_count != piece.row_count:
            yield (
                f"slice {piece.slice} of batch {piece.batch} has {row_count} rows at {leg.source.name}, "
                f"planned were {piece.row_count}: rows of the source were removed or added after planning"
            )


def _disordered(defects: Iterable[Defect]) -> tuple[str, ...]:
    return tuple(sorted({defect.sender for defect in defects if defect.kind is DefectKind.MISPLACED}))


class _RepeatedRow(NamedTuple):
    """A message id that stands in a log more than once, and the positions of its copies."""

    message_id: str
    sender: str
    copies: list[int]


def _repeated(leg: Leg) -> Callable[[StoreSession], RepeatedIds]:
    def ask(session: StoreSession) -> RepeatedIds:
        rows = session.rows(
            _RepeatedRow,
            "select message_id, sender, copies from relaybox_internal.repeated_messages(%s, %s)",
            *(leg.log_id, leg.highest_position),
        )
        return RepeatedIds(
            ids=frozenset(UUID(row.message_id) for row in rows),
            copies=tuple(
                Defect(DefectKind.DOUBLED, UUID(row.message_id), row.sender, None, log_position)
                for row in rows
                for log_position in row.copies
            ),
        )

    return ask


def _count_repeated(sessions: Sessions, route: Route, leg: Leg, message_ids: Sequence[UUID]) -> RepeatedIdCounts:
    def ask(session: StoreSession) -> RepeatedIdCounts:
        return session.row(
            RepeatedIdCounts,
            "select messages, delivered, dropped, set_aside from relaybox_internal.count_fates(%s, %s, %s, %s::uuid[])",
            *(route.stream, leg.log_id, leg.highest_position, [str(message_id) for message_id in message_ids]),
        )

    return sessions.ask(leg.destination, "counting what became of repeated ids", ask).result()


def _count_senders(leg: Leg) -> Callable[[StoreSession], int]:
    return lambda session: int(
        session.value(
            "select count(distinct l.sender) from relaybox_internal.log l where l.log_id = %s and l.log_position <= %s",
            *(leg.log_id, leg.through_position),
        )
    )


class _Stranger(NamedTuple):
    """A row that no batch put there; `row_count` is how many there are, named or not."""

    message_id: str
    sender: str
    log_position: int
    row_count: int


def _beyond(leg: Leg) -> Callable[[StoreSession], tuple[int, list[Defect]]]:
    """Rows that no batch put there: before position 1, or after the last one planned. Staged rows of an open batch are none.

    Only among the positions seen before the source's ledger was read: a later row may be of a later batch.
    """

    def ask(session: StoreSession) -> tuple[int, list[Defect]]:
        rows = session.rows(
            _Stranger,
            """
            select l.message_id, l.sender, l.log_position, count(*) over () as row_count from relaybox_internal.log l
            where l.log_id = %s and (l.log_position < 1 or l.log_position > %s) and l.log_position <= %s
            order by l.log_position limit %s
            """,
            *(leg.log_id, leg.planned_position, leg.highest_position, MAX_STRANGERS_NAMED),
        )
        strangers = [Defect(DefectKind.UNEXPECTED, UUID(row.message_id), row.sender, None, row.log_position) for row in rows]
        return (rows[0].row_count if rows else 0), strangers

    return ask
