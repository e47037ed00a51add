"""Decides from the clients' histories and the stores alone whether the guarantees held: nothing of Relaybox is believed.

One small function per invariant, in a registry: what is added to the protocol later adds its own.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby, pairwise, product

from tests.faults.derived import derived_id, derived_payloads
from tests.faults.history import History, Read, Transaction, Tried
from tests.faults.stores import AttemptRow, BatchRow, DerivationState, HopState, LogRow, OutboxRow, Stores, read_stores

__all__ = ["INVARIANTS", "Facts", "Reliability", "Violation", "check", "read_stores", "reliability", "unsettled"]

EXAMPLES = 5


@dataclass(frozen=True)
class Violation:
    """An invariant that did not hold: its name, what is wrong with numbers, a few examples."""

    invariant: str
    text: str
    examples: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.invariant}: {self.text}{' e.g. ' + '; '.join(self.examples) if self.examples else ''}"


@dataclass(frozen=True)
class Finding:
    """One function's complaint, before its invariant's name is put to it."""

    text: str
    examples: tuple[str, ...]


Invariant = Callable[["Facts"], Iterator[Finding]]
INVARIANTS: dict[str, Invariant] = {}


def invariant(function: Invariant) -> Invariant:
    """Registers an invariant under its function's name. Its docstring is the sentence that must hold."""
    INVARIANTS[function.__name__] = function
    return function


def check(history: History, stores: Stores, *, invariants: Iterable[str] | None = None) -> list[Violation]:
    """All violations. Call it when every hop is quiet: all batches published and confirmed, nothing held open.

    Args:
        history: what the clients did and saw.
        stores: what the stores hold now.
        invariants: names of those to decide; all by default.
    """
    facts = Facts(history, stores)
    names = INVARIANTS if invariants is None else invariants
    return [Violation(name, found.text, found.examples) for name in names for found in INVARIANTS[name](facts)]


@dataclass(frozen=True)
class Reliability:
    """R and UR of one hop, or of a whole route when `hop` is a route's name: unique received / sent, unique / all received."""

    hop: str
    sent: int
    received: int
    unique: int

    @property
    def r(self) -> float:
        return self.unique / self.sent if self.sent else 1.0

    @property
    def ur(self) -> float:
        return self.unique / self.received if self.received else 1.0


def reliability(stores: Stores) -> list[Reliability]:
    """R and UR of every hop, in order, and after a route's last hop of the route from end to end."""
    measured = []
    for hop in stores.hops:
        received = [row.message.message_id for row in hop.log]
        sent = {row.message.message_id for row in _input(stores, hop)}
        measured.append(Reliability(hop.name, len(sent), len(received), len(sent & set(received))))
        if hop.downstream is None:
            origin = {row.message.message_id for row in _input(stores, _path(stores, hop)[0])}
            route = hop.name.rsplit("/", 1)[0]
            measured.append(Reliability(route, len(origin), len(received), len(origin & set(received))))
    return measured


def _path(stores: Stores, hop: HopState) -> list[HopState]:
    """The hops from the origin down to this one."""
    return [hop] if hop.upstream is None else [*_path(stores, stores.hop(hop.upstream)), hop]


def _input(stores: Stores, hop: HopState) -> Sequence[OutboxRow | LogRow]:
    """What a hop has to move: its topics' rows of the outbox, or the log that it reads."""
    if hop.upstream is not None:
        return stores.hop(hop.upstream).log
    return [row for row in stores.outboxes[hop.source] if row.message.topic in hop.topics]


@dataclass(frozen=True)
class Facts:
    """The history and the stores, with what several invariants look up."""

    history: History
    stores: Stores

    @cached_property
    def payloads(self) -> dict[str, set[str]]:
        """Of each hop's log."""
        return {hop.name: {row.message.payload or "" for row in hop.log} for hop in self.stores.hops}

    @cached_property
    def log_positions(self) -> dict[str, dict[str, int]]:
        """Of each hop: where a payload first is in its log."""
        return {hop.name: {row.message.payload or "": row.log_position for row in reversed(hop.log)} for hop in self.stores.hops}

    @cached_property
    def tried(self) -> set[str]:
        derived = {one.payload for each in self.derived_messages.values() for one in each}
        return derived | {message.payload for one in self.history.transactions for message in one.messages}

    @cached_property
    def derived_messages(self) -> dict[str, list[Derived]]:
        """Of each derivation: what its stream's messages should have become, in the order of the stream."""
        return {one.route: list(_derived_messages(self.stores, one)) for one in self.stores.derivations}

    def derived_rows(self, derivation: DerivationState) -> list[OutboxRow]:
        """What a derivation has put into the outbox, in its order."""
        return [row for row in self.stores.outboxes[derivation.store] if row.message.sender == derivation.route]

    @cached_property
    def rolled_back(self) -> set[str]:
        """Payloads that surely never committed."""
        failed = {message.payload for _, message in self.history.messages("fail")}
        return failed | {message.payload for one in self.history.transactions for message in one.messages if message.undone}

    @cached_property
    def seen(self) -> dict[str, set[str]]:
        """Payloads that any consumer of a hop ever saw."""
        seen: dict[str, set[str]] = defaultdict(set)
        for read in self.history.reads:
            seen[read.hop].update(payload for _, _, payload in read.messages)
        return seen

    def sent_through(self, hop: HopState, *outcomes: str) -> Iterator[tuple[Transaction, Tried]]:
        """Messages whose way leads through a hop."""
        origin = _path(self.stores, hop)[0]
        return (
            (one, message)
            for one, message in self.history.messages(*outcomes)
            if one.store == origin.source and one.topic in origin.topics
        )

    def input(self, hop: HopState) -> Sequence[OutboxRow | LogRow]:
        return _input(self.stores, hop)

    @cached_property
    def members(self) -> dict[str, dict[int, list[OutboxRow | LogRow]]]:
        """Of each hop: the rows of each batch, recomputed from its snapshots and bounds, in reading order."""
        return {
            hop.name: dict(_log_members(hop, self.input(hop)) if hop.upstream else _outbox_members(hop, self.input(hop)))  # type: ignore[arg-type]
            for hop in self.stores.hops
        }


@dataclass(frozen=True)
class Derived:
    """A message that is to be derived: its id has the version of the attempt that published its cause; 0: none has."""

    message_id: str
    cause: int
    number: int
    key: str | None
    payload: str
    version: int


def _derived_messages(stores: Stores, derivation: DerivationState) -> Iterator[Derived]:
    hop = stores.hop(derivation.of_hop)
    log = {row.log_position: row.message for row in hop.log}
    versions = {position: one.version for one in _published(derivation) for position in one.stream_positions}
    for cause, log_position in sorted(hop.stream_positions):
        if (message := log.get(log_position)) is not None:
            version = versions.get(cause, 0)
            for number, payload in enumerate(derived_payloads(message.payload or ""), 1):
                yield Derived(derived_id(version, cause, number), cause, number, message.key, payload, version)


def _published(derivation: DerivationState) -> list[AttemptRow]:
    return [attempt for attempt in derivation.attempts if attempt.state == "published"]


@dataclass(frozen=True)
class Snapshot:
    """A pg_snapshot: all below xmin have ended, none from xmax on, and of those between the open ones have not."""

    xmin: int
    xmax: int
    open: frozenset[int]

    def sees(self, xid: int) -> bool:
        return xid < self.xmax and xid not in self.open

    def sees_all_of(self, earlier: Snapshot) -> bool:
        """Nothing that the earlier one saw is hidden from this one."""
        hidden = {xid for xid in self.open if xid < earlier.xmax}
        return self.xmax >= earlier.xmax and hidden <= earlier.open


def parse_snapshot(text: str) -> Snapshot:
    """Reads `xmin:xmax:open,open`."""
    xmin, xmax, open_ = text.split(":")
    return Snapshot(int(xmin), int(xmax), frozenset(map(int, filter(None, open_.split(",")))))


def _outbox_members(hop: HopState, rows: Sequence[OutboxRow]) -> Iterator[tuple[int, list[OutboxRow]]]:
    by_xid = sorted(rows, key=lambda row: row.xid)
    xids = [row.xid for row in by_xid]
    for (lower_text, upper_text), batches in groupby(hop.batches, key=lambda batch: (batch.lower, batch.upper)):
        lower, upper = parse_snapshot(lower_text or "1:1:"), parse_snapshot(upper_text or "1:1:")
        candidates = by_xid[bisect_left(xids, lower.xmin) : bisect_left(xids, upper.xmax)]
        pair = sorted((row for row in candidates if upper.sees(row.xid) and not lower.sees(row.xid)), key=lambda row: row.seq)
        for batch in batches:
            yield (
                batch.batch,
                [row for row in pair if batch.reads_after < row.seq <= batch.reads_through and row.message.topic in batch.topics],
            )


def _log_position_of(row: OutboxRow | LogRow) -> int:
    """Where a hop reads a row: seq or position."""
    return row.seq if isinstance(row, OutboxRow) else row.log_position


def _log_members(hop: HopState, rows: Sequence[LogRow]) -> Iterator[tuple[int, list[LogRow]]]:
    for batch in hop.batches:
        yield batch.batch, [row for row in rows if batch.reads_after < row.log_position <= batch.reads_through]


def _some(items: Iterable[object]) -> tuple[str, ...]:
    return tuple(str(item) for item, _ in zip(items, range(EXAMPLES), strict=False))


def _found(items: Iterable[object], text: str) -> Iterator[Finding]:
    """A finding with the number of items in place of {}, if there is any."""
    listed = list(items)
    if listed:
        yield Finding(text.format(len(listed)), _some(listed))


# --- what arrived ---------------------------------------------------------------------------------------------------------


@invariant
def lost(facts: Facts) -> Iterator[Finding]:
    """Every acknowledged message is in the log of every hop on its way."""
    for hop in facts.stores.hops:
        acknowledged = [message.payload for _, message in facts.sent_through(hop, "ok")]
        missing = [payload for payload in acknowledged if payload not in facts.payloads[hop.name]]
        yield from _found(missing, f"{{}} of {len(acknowledged)} acknowledged messages are not in the log of {hop.name}")


@invariant
def conserved(facts: Facts) -> Iterator[Finding]:
    """Every acknowledged message is kept in its outbox, or is in the log of a first hop of that store (G12): also of topics without a route."""
    for store, rows in facts.stores.outboxes.items():
        there = {row.message.payload for row in rows}
        for hop in facts.stores.hops:
            if hop.upstream is None and hop.source == store:
                there |= facts.payloads[hop.name]
        sent = [message.payload for one, message in facts.history.messages("ok") if one.store == store]
        gone = [payload for payload in sent if payload not in there]
        yield from _found(gone, f"{{}} of {len(sent)} acknowledged messages are neither in the outbox of {store} nor in a log")


@invariant
def orphaned_hops(facts: Facts) -> Iterator[Finding]:
    """Every row that a hop has to move is in its log: also of transactions whose outcome their producer does not know."""
    for hop in facts.stores.hops:
        here = {row.message.message_id for row in hop.log}
        missing = [row.message.payload for row in facts.input(hop) if row.message.message_id not in here]
        yield from _found(missing, f"{{}} of {len(facts.input(hop))} rows that {hop.name} reads are not in its log")


@invariant
def invented(facts: Facts) -> Iterator[Finding]:
    """Nothing is in a log, or was seen there, that no producer ever tried to send."""
    for hop in facts.stores.hops:
        yield from _found(
            sorted((facts.payloads[hop.name] | facts.seen[hop.name]) - facts.tried),
            f"{{}} messages at {hop.name} that nobody sent",
        )


@invariant
def aborted_read(facts: Facts) -> Iterator[Finding]:
    """Nothing is in a log, or was seen there, whose transaction or savepoint was rolled back."""
    for hop in facts.stores.hops:
        yield from _found(
            sorted((facts.payloads[hop.name] | facts.seen[hop.name]) & facts.rolled_back),
            f"{{}} rolled-back messages at {hop.name}",
        )


@invariant
def doubled(facts: Facts) -> Iterator[Finding]:
    """No message is in a log twice."""
    for hop in facts.stores.hops:
        for counts in (
            Counter(row.message.message_id for row in hop.log),
            Counter(row.message.payload for row in hop.log),
        ):
            twice = [f"{what} {count} times" for what, count in counts.items() if count > 1]
            if twice:
                yield from _found(twice, f"{{}} messages are in the log of {hop.name} more than once")
                break


@invariant
def altered(facts: Facts) -> Iterator[Finding]:
    """A message is the same at every hop: payload, headers, sender, clock, times, and its epoch and index once it has them."""
    for hop in facts.stores.hops:
        sent = defaultdict(list)
        for row in facts.input(hop):
            sent[row.message.message_id].append(row)
        other = [
            f"{row.message.payload!r} at position {row.log_position}"
            for row in hop.log
            if (origins := sent[row.message.message_id]) and not any(_same(origin, row) for origin in origins)
        ]
        yield from _found(other, f"{{}} messages changed on {hop.name}")


def _same(origin: OutboxRow | LogRow, row: LogRow) -> bool:
    if origin.index is None:
        return (replace(origin.message, epoch=0), row.log_position) == (row.message, row.index)
    return (origin.message, origin.index) == (row.message, row.index)


@invariant
def dense_positions(facts: Facts) -> Iterator[Finding]:
    """A hop's positions are 1..N."""
    for hop in facts.stores.hops:
        log_positions = [row.log_position for row in hop.log]
        missing = sorted(set(range(1, hop.published + 1)) ^ set(log_positions))
        yield from _found(missing, f"{{}} positions missing or beyond the published {hop.published} at {hop.name}")


# --- order ----------------------------------------------------------------------------------------------------------------


@invariant
def order(facts: Facts) -> Iterator[Finding]:
    """If m1's commit was acknowledged before m2 was inserted, m1's position is lower (G5), at every hop."""
    groups = sorted({one.order_group for one in facts.history.transactions})
    for hop, group in product(facts.stores.hops, groups):
        log_positions = facts.log_positions[hop.name]
        reached = _highest_position_through(facts, hop, group)
        inverted = [
            f"{message.payload!r} at {log_positions[message.payload]} came after acknowledgement {message.after}, which is at {reached[message.after]}"
            for one, message in facts.sent_through(hop, "ok", "info")
            if one.order_group == group
            and message.payload in log_positions
            and log_positions[message.payload] < reached[message.after]
        ]
        yield from _found(inverted, f"{{}} messages of {hop.name} stand before one that had committed before them")


def _highest_position_through(facts: Facts, hop: HopState, group: str) -> list[int]:
    """Indexed by acknowledgement: the highest position of the messages of the group that were acknowledged up to it."""
    highest = {one.acknowledged or 0: 0 for one in facts.history.transactions}
    for one, message in facts.sent_through(hop, "ok"):
        number, log_position = one.acknowledged or 0, facts.log_positions[hop.name].get(message.payload, 0)
        if one.order_group == group:
            highest[number] = max(highest[number], log_position)
    newest = max([0, *highest, *(message.after for one in facts.history.transactions for message in one.messages)])
    reached = [0]
    for number in range(1, newest + 1):
        reached.append(max(reached[-1], highest.get(number, 0)))
    return reached


@invariant
def transaction_order(facts: Facts) -> Iterator[Finding]:
    """The messages of one transaction stand in the order of their inserts, at every hop."""
    for hop in facts.stores.hops:
        log_positions = facts.log_positions[hop.name]
        inverted = [
            f"{one.sender} transaction {one.number}: {first.payload!r}, {second.payload!r}"
            for one in facts.history.transactions
            for first, second in pairwise(message for message in one.kept if message.payload in log_positions)
            if log_positions[first.payload] > log_positions[second.payload]
        ]
        yield from _found(inverted, f"{{}} pairs of one transaction stand the other way round at {hop.name}")


@invariant
def log_order(facts: Facts) -> Iterator[Finding]:
    """A hop that reads a log keeps its order."""
    for hop in facts.stores.hops:
        if hop.upstream is None:
            continue
        upstream = {row.message.message_id: _log_position_of(row) for row in reversed(facts.input(hop))}
        order = [upstream[row.message.message_id] for row in hop.log if row.message.message_id in upstream]
        inverted = [f"{first} before {second}" for first, second in pairwise(order) if first > second]
        yield from _found(inverted, f"{{}} times {hop.name} leaves the order of {hop.upstream}")


# --- the ledger -----------------------------------------------------------------------------------------------------------


@invariant
def batch_chain(facts: Facts) -> Iterator[Finding]:
    """Batches are 1, 2, 3 ..., their positions dense, and each starts where the one before it ended."""
    for hop in facts.stores.hops:
        first = BatchRow(0, "", (), "1:1:", "1:1:", True, 0, 0, 0, 0, 0, ())
        broken = [
            f"batch {batch.batch}: {fault}"
            for before, batch in pairwise([first, *hop.batches])
            for fault in _chain_faults(hop, before, batch)
        ]
        yield from _found(broken, f"{{}} breaks in the ledger of {hop.name}")


def _chain_faults(hop: HopState, before: BatchRow, batch: BatchRow) -> Iterator[str]:
    if batch.batch != before.batch + 1:
        yield f"follows batch {before.batch}"
    if batch.first_position != before.last_position + 1:
        yield f"starts at {batch.first_position} after {before.last_position}"
    if batch.last_position - batch.first_position + 1 != batch.row_count:
        yield f"has {batch.row_count} rows at {batch.first_position}-{batch.last_position}"
    if hop.upstream is not None:
        if batch.reads_after != before.reads_through:
            yield f"reads after {batch.reads_after}, the one before read through {before.reads_through}"
    elif not before.pair_exhausted:
        if (batch.lower, batch.upper, batch.reads_after) != (before.lower, before.upper, before.reads_through):
            yield "does not go on in the pair that the one before left"
    elif not parse_snapshot(batch.lower or "").sees_all_of(parse_snapshot(before.upper or "")):
        yield f"lower {batch.lower} is older than upper {before.upper} of the one before"


@invariant
def one_batch_each(facts: Facts) -> Iterator[Finding]:
    """Every row that a hop has to move is in exactly one batch, by snapshots evaluated here and not in Postgres."""
    for hop in facts.stores.hops:
        batches = Counter(_log_position_of(row) for rows in facts.members[hop.name].values() for row in rows)
        wrong = [
            f"{row.message.payload!r} in {batches[_log_position_of(row)]}"
            for row in facts.input(hop)
            if batches[_log_position_of(row)] != 1
        ]
        yield from _found(wrong, f"{{}} rows are in no batch of {hop.name}, or in several")


@invariant
def batch_content(facts: Facts) -> Iterator[Finding]:
    """The rows of a batch, in reading order, are what the log holds at the batch's positions."""
    for hop in facts.stores.hops:
        here = {row.log_position: row.message.message_id for row in hop.log}
        wrong = [
            f"batch {batch.batch}: {len(rows)} rows by its snapshots, {batch.row_count} planned"
            for batch in hop.batches
            if (rows := [row.message.message_id for row in facts.members[hop.name][batch.batch]])
            != [here.get(log_position) for log_position in range(batch.first_position, batch.last_position + 1)]
        ]
        yield from _found(wrong, f"{{}} batches of {hop.name} are not what the log holds")


@invariant
def arrivals(facts: Facts) -> Iterator[Finding]:
    """Every batch has one arrival of its own plan and positions, backed by the receipts of all its slices."""
    for hop in facts.stores.hops:
        planned = {(b.batch, b.plan_id, b.first_position, b.last_position, b.row_count) for b in hop.batches}
        arrived = {(a.batch, a.plan_id, a.first_position, a.last_position, a.row_count) for a in hop.arrivals}
        yield from _found(
            sorted(planned ^ arrived), f"{{}} batches of {hop.name} planned and not arrived, or the other way round"
        )
        wanted = {(b.batch, s[0], b.plan_id, s[4]) for b in hop.batches for s in b.slices}
        found = {(r.batch, r.slice, r.plan_id, r.row_count) for r in hop.receipts}
        yield from _found(sorted(wanted ^ found), f"{{}} slices of {hop.name} and receipts do not match")


@invariant
def undecided(facts: Facts) -> Iterator[Finding]:
    """The destination's stream has decided on every published batch, once."""
    for hop in facts.stores.hops:
        decided = Counter(hop.decided)
        arrived = {arrival.batch for arrival in hop.arrivals}
        wrong = [
            f"batch {batch} {decided[batch]} times"
            for batch in sorted(arrived | set(decided))
            if decided[batch] != (batch in arrived)
        ]
        yield from _found(wrong, f"{{}} batches that the stream at {hop.destination} did not decide on just once")


@invariant
def stream(facts: Facts) -> Iterator[Finding]:
    """Stream positions are 1, 2, 3 ..., and every log position is at one of them: these producers repeat nothing and give no index."""
    for hop in facts.stores.hops:
        found, wanted = Counter(hop.stream_positions), Counter(enumerate((row.log_position for row in hop.log), start=1))
        wrong = sorted(((found - wanted) + (wanted - found)).elements())
        yield from _found(
            wrong, f"{{}} stream positions of the stream at {hop.destination} that are not filled in the order of {hop.name}"
        )


# --- what consumers saw ---------------------------------------------------------------------------------------------------


@invariant
def poll_skip(facts: Facts) -> Iterator[Finding]:
    """A read gives the positions that follow the one asked for, without a gap."""
    yield from _found(
        (
            f"{read.consumer} after {read.after}: {[log_position for log_position, _, _ in read.messages][:8]}"
            for read in facts.history.reads
            if [log_position for log_position, _, _ in read.messages]
            != list(range(read.after + 1, read.after + len(read.messages) + 1))
        ),
        "{} reads passed over positions",
    )


@invariant
def nonmonotonic_poll(facts: Facts) -> Iterator[Finding]:
    """What a consumer saw once it finds again: a later read does not end before it."""
    highest: dict[tuple[str, str], int] = {}
    backwards = []
    for read in facts.history.reads:
        reader = (read.consumer, read.hop)
        reaches = _reaches(read)
        if len(read.messages) < read.at_most and reaches < highest.get(reader, 0):
            backwards.append(f"{read.consumer} had seen {highest[reader]}, then the log ended at {reaches}")
        highest[reader] = max(highest.get(reader, 0), reaches)
    yield from _found(backwards, "{} reads found less than the same consumer had seen")


def _reaches(read: Read) -> int:
    return max([read.after, *(log_position for log_position, _, _ in read.messages)])


@invariant
def disagreement(facts: Facts) -> Iterator[Finding]:
    """A position has one content: for every consumer, at every time, and in the log in the end."""
    for hop in facts.stores.hops:
        content = {row.log_position: {(row.message.message_id, row.message.payload or "")} for row in hop.log}
        for read in facts.history.reads:
            if read.hop == hop.name:
                for log_position, message_id, payload in read.messages:
                    content.setdefault(log_position, {("", "nothing in the end")}).add((message_id, payload))
        different = [
            f"position {log_position}: {sorted(seen)}" for log_position, seen in sorted(content.items()) if len(seen) > 1
        ]
        yield from _found(different, f"{{}} positions of {hop.name} were not always the same")


# --- confirmations --------------------------------------------------------------------------------------------------------


@invariant
def false_received(facts: Facts) -> Iterator[Finding]:
    """`received` is confirmed only of what the destination has published."""
    early = [
        f"{seen.hop}: received {seen.received}, published {seen.published}"
        for seen in facts.history.observations
        if seen.received > seen.published
    ]
    yield from _found(early, "{} times a batch was confirmed as received that had not arrived")
    for hop in facts.stores.hops:
        arrived = {(arrival.batch, arrival.last_position) for arrival in hop.arrivals}
        received = {(row.through_batch, row.through_position) for row in hop.confirmations if row.state == "received"}
        yield from _found(sorted(received - arrived), f"{{}} confirmations of {hop.name} for batches that never arrived")


@invariant
def false_settled(facts: Facts) -> Iterator[Finding]:
    """`settled` is confirmed only through where the route's policy holds further down."""
    early = [
        f"{seen.hop}: settled {seen.settled}, received {seen.received}, holds further down through {seen.settled_there}"
        for seen in facts.history.observations
        if seen.settled > seen.settled_there or seen.settled > seen.received
    ]
    yield from _found(early, "{} times something was settled before its policy held")
    for hop in facts.stores.hops:
        settled = _confirmed(hop, "settled")
        holds = _policy_holds_through(facts.stores, hop)
        if settled > holds:
            yield Finding(f"{hop.name} is settled through {settled}, its policy holds through {holds}", ())


def unsettled(stores: Stores) -> list[str]:
    """Hops that are not settled through their last message. When everything is healed and acknowledged, there must be none."""
    return [
        f"{hop.name} is settled through {settled} of {hop.published}"
        for hop in stores.hops
        if (settled := _confirmed(hop, "settled")) != hop.published
    ]


def _confirmed(hop: HopState, state: str) -> int:
    """Through where the hop's own source has a confirmation."""
    return max((row.through_position for row in hop.confirmations if row.store == hop.source and row.state == state), default=0)


def _policy_holds_through(stores: Stores, hop: HopState) -> int:
    if hop.processed_by:
        return min(_confirmed(hop, "received"), hop.published, hop.acknowledged)
    if hop.policy == "received" or hop.downstream is None:
        return min(_confirmed(hop, "received"), hop.published)
    downstream = stores.hop(hop.downstream)
    settled = _confirmed(downstream, "settled")
    return max((batch.reads_through for batch in downstream.batches if batch.last_position <= settled), default=0)


@invariant
def confirmation_taken_back(facts: Facts) -> Iterator[Finding]:
    """What was seen confirmed stays confirmed."""
    highest: dict[tuple[str, str], int] = {}
    final = [(hop.name, state, _confirmed(hop, state)) for hop in facts.stores.hops for state in ("received", "settled")]
    seen = [
        (one.hop, state, value)
        for one in facts.history.observations
        for state, value in (("received", one.received), ("settled", one.settled))
    ]
    taken_back = []
    for hop, state, value in [*seen, *final]:
        if value < highest.get((hop, state), 0):
            taken_back.append(f"{hop} {state} {highest[hop, state]}, then {value}")
        highest[hop, state] = max(highest.get((hop, state), 0), value)
    yield from _found(taken_back, "{} confirmations were taken back")


@invariant
def false_hearsay(facts: Facts) -> Iterator[Finding]:
    """What a store further up was told of a hop is what the hop's own source has."""
    for hop in facts.stores.hops:
        own = {(row.state, row.through_position, row.through_batch) for row in hop.confirmations if row.store == hop.source}
        told = {(row.state, row.through_position, row.through_batch) for row in hop.confirmations if row.store != hop.source}
        yield from _found(sorted(told - own), f"{{}} confirmations of {hop.name} further up that its source does not have")


@invariant
def unfinished(facts: Facts) -> Iterator[Finding]:
    """At quiet every batch is published, and its source knows that."""
    for hop in facts.stores.hops:
        planned = max((batch.last_position for batch in hop.batches), default=0)
        received = _confirmed(hop, "received")
        if not planned == hop.published == received:
            yield Finding(f"{hop.name}: planned through {planned}, published {hop.published}, received {received}", ())


# --- derived messages -----------------------------------------------------------------------------------------------------


@invariant
def derived_lost(facts: Facts) -> Iterator[Finding]:
    """Each message of the stream is one of an attempt that published, and all that the function makes of it is in the outbox."""
    for one in facts.stores.derivations:
        stream = {position for position, _ in facts.stores.hop(one.of_hop).stream_positions}
        derived_from = {position for attempt in _published(one) for position in attempt.stream_positions}
        yield from _found(
            sorted(stream - derived_from),
            f"{{}} of {len(stream)} stream positions are of no attempt of {one.route} that published",
        )
        sent = {row.message.message_id for row in facts.derived_rows(one)}
        missing = [made.payload for made in facts.derived_messages[one.route] if made.version and made.message_id not in sent]
        yield from _found(missing, f"{{}} messages that {one.route} had to derive are not in the outbox of {one.store}")
        if one.acknowledged != max(stream, default=0):
            yield Finding(f"{one.route} has acknowledged {one.acknowledged}, its stream ends at {max(stream, default=0)}", ())


@invariant
def derived_doubled(facts: Facts) -> Iterator[Finding]:
    """No stream position is of two attempts that published, and no derived message is in the outbox twice."""
    for one in facts.stores.derivations:
        positions = Counter(position for attempt in _published(one) for position in attempt.stream_positions)
        yield from _found(
            [f"{position} in {count}" for position, count in positions.items() if count > 1],
            f"{{}} stream positions are of several attempts of {one.route} that published",
        )
        rows = facts.derived_rows(one)
        for counts in (Counter(row.message.message_id for row in rows), Counter(row.message.payload for row in rows)):
            twice = [f"{what} {count} times" for what, count in counts.items() if count > 1]
            if twice:
                yield from _found(twice, f"{{}} messages of {one.route} are in the outbox of {one.store} more than once")
                break


@invariant
def derived_order(facts: Facts) -> Iterator[Finding]:
    """Derived messages stand in the order of their causes, and those of one cause in that of the function: in the outbox and in logs."""
    for one in facts.stores.derivations:
        places = {made.message_id: (made.cause, made.number) for made in facts.derived_messages[one.route]}
        logs = {hop.name: hop.log for hop in facts.stores.hops if hop.name.rsplit("/", 1)[0] == one.route}
        sequences: dict[str, Sequence[OutboxRow | LogRow]] = {f"the outbox of {one.store}": facts.derived_rows(one), **logs}
        for where, rows in sequences.items():
            order = [places[row.message.message_id] for row in rows if row.message.message_id in places]
            inverted = [f"{before} before {after}" for before, after in pairwise(order) if before > after]
            yield from _found(inverted, f"{{}} messages of {one.route} stand the other way round in {where}")


@invariant
def derived_otherwise(facts: Facts) -> Iterator[Finding]:
    """What is in the outbox is what the function makes of its cause: id, key, payload, and a cause of the attempt that sent it."""
    for one in facts.stores.derivations:
        made = {each.message_id: each for each in facts.derived_messages[one.route]}
        wrong = [
            f"{row.message.payload!r} at {row.seq}"
            for row in facts.derived_rows(one)
            if (expected := made.get(row.message.message_id)) is None or not _is_as_made(row, expected, one)
        ]
        yield from _found(wrong, f"{{}} messages of {one.route} are not what its function makes of a message of the stream")


def _is_as_made(row: OutboxRow, expected: Derived, derivation: DerivationState) -> bool:
    told = {"stream": derivation.stream, "stream_position": expected.cause, "version": expected.version}
    headers = json.loads(row.message.headers or "{}")
    return (row.message.key, row.message.payload, headers) == (expected.key, expected.payload, {"derived_from": told})


@invariant
def derived_attempts(facts: Facts) -> Iterator[Finding]:
    """Attempts of a version are 1, 2, 3 ..., none is open, and one that published says what it sent, in one transaction."""
    for one in facts.stores.derivations:
        rows, numbers = facts.derived_rows(one), Counter[int]()
        wrong = []
        for attempt in one.attempts:
            numbers[attempt.version] += 1
            name = f"attempt {attempt.attempt} of version {attempt.version}"
            if attempt.attempt != numbers[attempt.version]:
                wrong.append(f"{name} is number {numbers[attempt.version]}")
            if attempt.state == "open":
                wrong.append(f"{name} is open")
            if attempt.state == "published" and (fault := _sending_fault(attempt, rows)):
                wrong.append(f"{name} {fault}")
        yield from _found(wrong, f"{{}} faults in the ledger of {one.route}")


def _sending_fault(attempt: AttemptRow, rows: Sequence[OutboxRow]) -> str:
    """What an attempt says of its messages, and is not so; empty: nothing."""
    first, last = attempt.first_seq or 0, attempt.last_seq or -1
    sent = [row for row in rows if first <= row.seq <= last]
    causes = {json.loads(row.message.headers or "{}").get("derived_from", {}).get("stream_position") for row in sent}
    if len(sent) != attempt.derived_count:
        return f"says {attempt.derived_count} messages, {len(sent)} are between its first and its last"
    if strays := causes - {*attempt.stream_positions}:
        return f"has messages of stream positions {sorted(map(str, strays))[:EXAMPLES]} that it has not read"
    if len({row.xid for row in sent}) > 1:
        return f"has sent in {len({row.xid for row in sent})} transactions"
    return ""
