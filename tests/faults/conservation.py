"""G12 by the producers' own log: whatever was committed is kept where it was sent, or has arrived; nothing else is asked.

No ledger of Relaybox is read. A message that an outbox does not hold any more must have been seen at the next store, and one
that a log does not hold any more at the one after. What a restore took from every store that had it, it took; all else must
be moved in the end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import psycopg2

from tests.faults.stores import UNDISTURBED


class Breach(AssertionError):
    """What the account found, each with the guarantee that it breaks: `G8: ...`."""

    def __init__(self, found: Sequence[str]) -> None:
        super().__init__("; ".join(found))
        self.found = tuple(found)


@dataclass(frozen=True)
class Sent:
    """A message of a transaction whose COMMIT was answered. `inserted`, `committed`: moments of one clock of the test.

    G5 is asked of the messages of a topic and an `order_group`: a backlog of an adopted table is passed by those of other tables.
    """

    payload: str
    topic: str
    inserted: int
    committed: int
    order_group: str = "outbox"


@dataclass(frozen=True)
class Seen:
    """What the tables show right now: payloads of the outbox, and of each hop's log by position."""

    outbox: tuple[str, ...]
    logs: Mapping[str, Mapping[int, str]]


@dataclass(frozen=True)
class Remembered:
    """What a store had at some time, whatever retention took away since; `sent` in the origin, a log elsewhere."""

    sent: Mapping[str, Sent] = field(default_factory=dict)
    log: Mapping[int, str] = field(default_factory=dict)


def look(origin: str, hops: Sequence[tuple[str, str]]) -> Seen:
    """Reads an outbox, and the published logs of hops as (hop, store)."""
    return Seen(
        tuple(payload for (payload,) in _rows(origin, "select payload from relaybox.outbox order by seq")),
        {
            hop: {log_position: payload for log_position, payload in _rows(store, _LOG, hop)}  # noqa: C416, rows are no pairs
            for hop, store in hops
        },
    )


_LOG = "select log_position, payload from relaybox.inbox where hop = %s order by log_position"


def _rows(service: str, query: str, *arguments: object) -> list[tuple[str, ...]]:
    connection = psycopg2.connect(service=service, options=UNDISTURBED)
    try:
        with connection.cursor() as cursor:
            cursor.execute(query, arguments)
            return cursor.fetchall()
    finally:
        connection.close()


class Conservation:
    """The account of one route of two hops, kept by who sends and looks; `breaches` is asked after every step."""

    def __init__(self, origin: str, hops: Sequence[tuple[str, str]]) -> None:
        self.origin = origin
        self.hops = tuple(hops)
        self.sent: dict[str, Sent] = {}
        self.logs: dict[str, dict[int, str]] = {hop: {} for hop, _ in hops}
        self.excused: dict[str, set[str]] = {hop: set() for hop, _ in hops}
        self.restored = 0
        self.waiting: set[str] = set()
        """Messages of a backlog that may not be in the outbox yet."""
        self.seen = Seen((), {hop: {} for hop, _ in hops})

    def committed(self, sent: Sent) -> None:
        """A producer's COMMIT was answered."""
        self.sent[sent.payload] = sent

    def give_up(self, hop: str, topic: str) -> None:
        """An operator gives up, on record, what the hop has not moved of a topic."""
        self.excused[hop] |= {one.payload for one in self.sent.values() if one.topic == topic}

    def look(self) -> list[str]:
        """What is wrong now; remembers what it saw."""
        sent = {**self.sent}  # before the tables are read: a producer may send meanwhile
        self.seen = look(self.origin, self.hops)
        found = [*self._log_faults(), *self._lost(sent)]
        for hop, log in self.seen.logs.items():
            self.logs[hop].update(log)
        return [*found, *self._out_of_order()]

    def _log_faults(self) -> Iterator[str]:
        for hop, log in self.seen.logs.items():
            before = self.logs[hop]
            if changed := [log_position for log_position, payload in log.items() if before.get(log_position, payload) != payload]:
                yield f"G3: {hop}: positions {changed} changed"
            known = before | log
            if twice := [payload for payload, count in Counter(known.values()).items() if count > 1]:
                yield f"G3: {hop}: {twice[:5]} are there twice, {len(twice)} in all"
            if missing := sorted({*range(1, max(known, default=0) + 1)} - known.keys()):
                yield f"G4: {hop}: positions {missing[:5]} were never there"

    def _lost(self, sent: Mapping[str, Sent]) -> Iterator[str]:
        """Dropped where it was, and never seen where it had to go."""
        kept = {*self.seen.outbox, *self.waiting}
        has = {payload: "the outbox" for payload in sent if payload not in kept}
        for hop, _ in self.hops:
            here = {*self.seen.logs[hop].values()}
            known = {*self.logs[hop].values(), *here, *self.excused[hop]}
            gone = [payload for payload in has if payload not in known]
            if gone:
                where = next(iter(has.values()))
                yield f"G8: {len(gone)} committed messages are gone from {where} and never came through {hop}: {gone[:5]}"
            has = {payload: f"the log of {hop}" for payload in self.logs[hop].values() if payload not in here}

    def _out_of_order(self) -> Iterator[str]:
        """G5 within a topic, whatever was added and removed meanwhile; repairs put what was lost behind what was not."""
        if self.restored:
            return
        for hop, _ in self.hops:
            earliest: dict[tuple[str, str], float] = {}
            for _, payload in sorted(self.logs[hop].items(), reverse=True):
                one = self.sent.get(payload)
                if one is None:
                    continue
                line = (one.topic, one.order_group)
                if one.inserted > earliest.get(line, float("inf")):
                    yield f"G5: {hop}: {payload} stands before one that had committed before it was inserted"
                earliest[line] = min(earliest.get(line, float("inf")), one.committed)

    def undelivered(self) -> Iterator[str]:
        """At the end, with all topics routed and everything moved."""
        has = {*self.sent}
        for hop, _ in self.hops:
            arrived = {*self.logs[hop].values()}
            if missing := sorted(has - arrived - self.excused[hop]):
                yield f"G12: {len(missing)} committed messages never came through {hop}: {missing[:5]}"
            has = arrived

    def remember(self, stores: Sequence[str]) -> dict[str, Remembered]:
        """What the stores have, for a copy that is taken now."""
        by_store = {store: hop for hop, store in self.hops}
        return {
            store: Remembered(dict(self.sent)) if store == self.origin else Remembered(log=dict(self.logs[by_store[store]]))
            for store in stores
        }

    def restore(self, copies: Mapping[str, Remembered]) -> None:
        """Stores went back; a message that no store above has any more, and a store below lost, nobody can send again."""
        self.restored += 1
        by_store = {store: hop for hop, store in self.hops}
        for store, copy in copies.items():
            if store == self.origin:
                self.sent = dict(copy.sent)
            else:
                self.logs[by_store[store]] = dict(copy.log)
        self.seen = look(self.origin, self.hops)
        has, rows = {*self.sent}, {*self.seen.outbox}
        for hop, _ in self.hops:
            self.excused[hop] |= has - rows - {*self.logs[hop].values()}
            has, rows = {*self.logs[hop].values()}, {*self.seen.logs[hop].values()}

    def would_be_lost(self, copies: Mapping[str, Remembered]) -> bool:
        """Whether a restore would take what only the restored stores have: for that there is no repair."""
        other = replace_state(self, copies)
        return any(other.excused[hop] - self.excused[hop] for hop, _ in self.hops)


def replace_state(account: Conservation, copies: Mapping[str, Remembered]) -> Conservation:
    """How the account would be after a restore, were retention never to run again."""
    other = Conservation(account.origin, account.hops)
    other.sent, other.seen = dict(account.sent), account.seen
    other.logs = {hop: dict(log) for hop, log in account.logs.items()}
    other.excused = {hop: set(excused) for hop, excused in account.excused.items()}
    by_store = {store: hop for hop, store in account.hops}
    for store, copy in copies.items():
        if store == account.origin:
            other.sent = dict(copy.sent)
        else:
            other.logs[by_store[store]] = dict(copy.log)
    has, rows = {*other.sent}, {*account.seen.outbox} | ({*other.sent} if account.origin in copies else set())
    for hop, store in account.hops:
        other.excused[hop] |= has - rows - {*other.logs[hop].values()}
        has = {*other.logs[hop].values()}
        rows = {*account.seen.logs[hop].values()} | (has if store in copies else set())
    return other
