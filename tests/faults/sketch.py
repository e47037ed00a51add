"""Hand-made histories in a few words: a tiny correct relay in memory, whose facts a test may then change.

A script is a list of words; `a` is hop a/1 from `shop` to `hub`, `b` is hop a/2 from `hub` to `bank`:

    UA:2      UA commits 2 messages          UA:2!   rolls them back
    UA:2?     commits, without an answer     UA:2x   has no answer, and did not commit
    UA:3~1    undoes the first one to a savepoint and commits the rest
    (UA:2     inserts and stays open         UA)     commits what it left open
    a  a/3    moves all, or at most 3        b  b/3  the same on the second hop
    ra rb     reads what is new              Ra Rb   reads all from the start
    s         settles both hops              w       watches both hops
    d  d/2    derives from all that hop a has brought, or from at most 2 messages;  d!  an attempt that fails

Messages are named UA1, UA2, ...; transaction numbers of Postgres start at 10.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import Any

from tests.faults.derived import ROUTE, derived_id, derived_payloads
from tests.faults.history import History, Observation, Read, Transaction, Tried
from tests.faults.stores import (
    ArrivalRow,
    AttemptRow,
    BatchRow,
    ConfirmationRow,
    DerivationState,
    HopState,
    LogRow,
    Message,
    OutboxRow,
    ReceiptRow,
    Stores,
)

SEND = re.compile(r"(\(?)([A-Z]{2}):(\d+)(?:~(\d+))?([!?x]?)")
FIRST_XID = 10


def message_of(payload: str, *, epoch: int = 1) -> Message:
    """As in the outbox; in logs the epoch of these messages, which have no index of their own, is 0."""
    return Message(f"id of {payload}", "t", payload[:2], epoch, None, '{"n": 1}', payload, None, None, "noon")


@dataclass
class Moved:
    """One hop's mutable facts."""

    name: str
    source: str
    destination: str
    upstream: str | None
    downstream: str | None
    policy: str = "cascade"
    published: int = 0
    log: list[LogRow] = field(default_factory=list)
    batches: list[BatchRow] = field(default_factory=list)
    receipts: list[ReceiptRow] = field(default_factory=list)
    arrivals: list[ArrivalRow] = field(default_factory=list)
    confirmations: list[ConfirmationRow] = field(default_factory=list)
    decided: list[int] | None = None  # as it should be
    stream_positions: list[tuple[int, int]] | None = None  # as they should be

    def state(self) -> HopState:
        rows = {name: tuple(getattr(self, name)) for name in ("log", "batches", "receipts", "arrivals", "confirmations")}
        names = {name: getattr(self, name) for name in ("name", "source", "destination", "upstream", "downstream", "policy")}
        decided = [arrival.batch for arrival in self.arrivals] if self.decided is None else self.decided
        stream_positions = (
            enumerate((row.log_position for row in self.log), start=1) if self.stream_positions is None else self.stream_positions
        )
        stream = {"decided": tuple(decided), "stream_positions": tuple(stream_positions)}
        return HopState(**names, topics=("t",), published=self.published, **rows, **stream)


class Sketch:
    """The facts that a script makes; tests change them in place, then build."""

    def __init__(self, script: str = "") -> None:
        self.transactions: list[Transaction] = []
        self.reads: list[Read] = []
        self.observations: list[Observation] = []
        self.outbox: list[OutboxRow] = []
        self.a = Moved("a/1", "shop", "hub", None, "a/2")
        self.b = Moved("a/2", "hub", "bank", "a/1", None)
        self._acknowledged = 0
        self._xid = FIRST_XID
        self._seq = 0
        self._open: dict[str, tuple[int, int, list[OutboxRow]]] = {}
        self._numbers: dict[str, int] = defaultdict(int)
        self._read_through: dict[str, int] = defaultdict(int)
        self.derived: list[OutboxRow] = []
        self.attempts: list[AttemptRow] = []
        self.acknowledged = 0
        for word in script.split():
            self.do(word)

    def build(self) -> tuple[History, Stores]:
        history = History(tuple(self.transactions), tuple(self.reads), tuple(self.observations))
        outboxes = {"shop": tuple(self.outbox)}
        if not self.attempts:
            return history, Stores(outboxes, (self.a.state(), self.b.state()))
        derivation = DerivationState(ROUTE, "hub", "a", "a/1", self.acknowledged, tuple(self.attempts))
        return history, Stores(outboxes | {"hub": tuple(self.derived)}, (self.a.state(), self.b.state()), (derivation,))

    def do(self, word: str) -> None:
        if sending := SEND.fullmatch(word):
            self._send(*sending.groups())
        elif word.endswith(")"):
            self._commit_open(word[:-1])
        elif word == "s":
            self._settle()
        elif word == "w":
            self._watch(self.a)
            self._watch(self.b)
        elif word[0] == "d":
            self._derive(int(word.partition("/")[2] or 1000), fails=word.endswith("!"))
        elif word[0] in "rR":
            self._read(getattr(self, word[1]), from_start=word[0] == "R")
        else:
            hop, _, at_most = word.partition("/")
            self._move(getattr(self, hop), int(at_most or 1000))

    def _send(self, opening: str, sender: str, count: str, undone_count: str | None, fate: str) -> None:
        messages, rows = [], []
        for number in range(int(count)):
            self._numbers[sender] += 1
            self._seq += 1
            payload = f"{sender}{self._numbers[sender]}"
            undone = number < int(undone_count or 0)
            messages.append(Tried(payload, self._acknowledged, undone))
            if not undone:
                rows.append(OutboxRow(self._seq, self._xid, None, message_of(payload)))
        number = len(self.transactions) + 1
        outcome = {"": "info" if opening else "ok", "!": "fail", "?": "info", "x": "info"}[fate]
        self.transactions.append(Transaction(sender, number, "shop", "t", tuple(messages), outcome))
        if opening:
            self._open[sender] = (number, self._xid, rows)
        elif fate in {"", "?"}:
            self._keep(rows)
        if outcome == "ok":
            self._acknowledge(number)
        self._xid += 1

    def _keep(self, rows: list[OutboxRow]) -> None:
        self.outbox = sorted([*self.outbox, *rows], key=lambda row: row.seq)

    def _acknowledge(self, number: int) -> None:
        self._acknowledged += 1
        self.transactions[number - 1] = replace(self.transactions[number - 1], outcome="ok", acknowledged=self._acknowledged)

    def _commit_open(self, sender: str) -> None:
        number, _, rows = self._open.pop(sender)
        self._keep(rows)
        self._acknowledge(number)

    def _snapshot(self) -> str:
        open_ = sorted(xid for _, xid, _ in self._open.values())
        return f"{open_[0] if open_ else self._xid}:{self._xid}:{','.join(map(str, open_))}"

    def _move(self, hop: Moved, at_most: int) -> None:
        before = hop.batches[-1] if hop.batches else BatchRow(0, "", (), "1:1:", "1:1:", True, 0, 0, 0, 0, 0, ())
        moved = {row.message.message_id for row in hop.log}
        rows: list[Any] = [row for row in (self.a.log if hop.upstream else self.outbox) if row.message.message_id not in moved]
        lower, upper = (None, None) if hop.upstream else self._pair(before)
        reads_after = before.reads_through if hop.upstream or not before.pair_exhausted else 0
        if not before.pair_exhausted:
            rows = [row for row in rows if row.xid < int((before.upper or "").split(":")[1])]
        arrival_seq, exhausted = rows[:at_most], len(rows) <= at_most or bool(hop.upstream)
        first, number = len(hop.log) + 1, before.batch + 1
        last, plan_id = len(hop.log) + len(arrival_seq), f"plan {number} of {hop.name}"
        reads = [row.log_position if hop.upstream else row.seq for row in arrival_seq]
        for log_position, row in enumerate(arrival_seq, first):
            hop.log.append(
                LogRow(log_position, log_position, replace(row.message, epoch=0))
                if row.index is None
                else LogRow(log_position, row.index, row.message)
            )
        slices = ((1, reads[0], reads[-1], first, len(arrival_seq)),)
        hop.batches.append(
            BatchRow(
                number, plan_id, ("t",), lower, upper, exhausted, reads_after, reads[-1], first, last, len(arrival_seq), slices
            )
        )
        hop.receipts.append(ReceiptRow(number, 1, plan_id, len(arrival_seq)))
        hop.arrivals.append(ArrivalRow(number, plan_id, first, last, len(arrival_seq)))
        hop.published = last
        hop.confirmations.append(ConfirmationRow(hop.source, "received", last, number))

    def _derive(self, at_most: int, *, fails: bool) -> None:
        first = self.acknowledged + 1
        log = self.a.log[self.acknowledged : self.acknowledged + at_most]
        positions, number = tuple(range(first, first + len(log))), len(self.attempts) + 1
        if fails:
            self.attempts.append(AttemptRow(1, number, "failed", positions, None, None, None))
            return
        made = [
            (cause, n, payload)
            for cause, row in zip(positions, log, strict=True)
            for n, payload in enumerate(derived_payloads(row.message.payload or ""), 1)
        ]
        seq = len(self.derived) + 1
        for at, (cause, n, payload) in enumerate(made, seq):
            headers = f'{{"derived_from": {{"stream": "a", "version": 1, "stream_position": {cause}}}}}'
            message = Message(derived_id(1, cause, n), ROUTE, ROUTE, 1, None, headers, payload, None, None, "noon")
            self.derived.append(OutboxRow(at, number, None, message))
        ends = (seq, seq + len(made) - 1) if made else (None, None)
        self.attempts.append(AttemptRow(1, number, "published", positions, len(made), *ends))
        self.acknowledged = positions[-1]

    def _pair(self, before: BatchRow) -> tuple[str | None, str | None]:
        return (before.upper, self._snapshot()) if before.pair_exhausted else (before.lower, before.upper)

    def _read(self, hop: Moved, *, from_start: bool) -> None:
        after = 0 if from_start else self._read_through[hop.name]
        messages = tuple((row.log_position, row.message.message_id, row.message.payload or "") for row in hop.log[after:])
        self.reads.append(Read(f"reader of {hop.name}", hop.name, after, 1000, messages))
        self._read_through[hop.name] = len(hop.log)

    def _settle(self) -> None:
        """All that both hops have moved is settled at both sources, and the origin is told of the second hop."""
        for hop in (self.b, self.a):
            hop.confirmations.append(ConfirmationRow(hop.source, "settled", hop.published, len(hop.batches)))
        self.b.confirmations += [replace(row, store="shop") for row in self.b.confirmations if row.store == "hub"]

    def _watch(self, hop: Moved) -> None:
        def confirmed(of: Moved, state: str) -> int:
            return max((r.through_position for r in of.confirmations if (r.store, r.state) == (of.source, state)), default=0)

        settled_there = confirmed(self.b, "settled") if hop is self.a else hop.published
        self.observations.append(
            Observation("watcher", hop.name, confirmed(hop, "received"), confirmed(hop, "settled"), hop.published, settled_there)
        )
