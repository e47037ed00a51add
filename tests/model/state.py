"""The state of the model: three stores, their clients and drivers, as small tuples that compare and hash fast.

`shop` holds the outbox, hop 1 moves it into the log of `hub`, hop 2 moves that log into the one of `bank`.
"""

from __future__ import annotations

from typing import NamedTuple

SHOP, HUB, BANK = 0, 1, 2
STORES = ("shop", "hub", "bank")


class Snapshot(NamedTuple):
    """What a pg_snapshot says: transactions below xmax are visible unless they were open."""

    xmax: int
    open: tuple[int, ...]

    def sees(self, xid: int) -> bool:
        return xid < self.xmax and xid not in self.open


NOTHING_SEEN = Snapshot(1, ())
ALL_SEEN = Snapshot(1 << 30, ())
"""Rows up to an anchor are read by seq alone: what a transaction number says of them is not asked."""

LAST_SEQ = 1 << 30


class Row(NamedTuple):
    """A committed message of the outbox. `after`: bits of the messages that had committed before its insert."""

    seq: int
    xid: int
    message: int
    after: int
    topic: str = "a"


class Piece(NamedTuple):
    """Rows that hop 1 reads besides its next new pair: of `topics`, with seqs after..through, that `upper` sees and `lower` does not.

    `upper` None: everything that `lower` does not see, now and later. Not `is_routed`: the topic was taken from the route.
    `is_retired`: given up on record, and so not routed either.
    """

    topics: str
    lower: Snapshot
    upper: Snapshot | None
    after: int = 0
    through: int = LAST_SEQ
    is_routed: bool = True
    is_retired: bool = False

    def holds(self, row: Row) -> bool:
        is_seen = self.upper is None or self.upper.sees(row.xid)
        return row.topic in self.topics and self.after < row.seq <= self.through and is_seen and not self.lower.sees(row.xid)


class Batch(NamedTuple):
    """A planned batch. Hop 1 reads seqs after..through inside a pair of snapshots, hop 2 positions after..through.

    `adopted`: the source lost the plan; these are the seqs of the batch's messages that it still has.
    """

    plan: int
    lower: Snapshot | None
    upper: Snapshot | None
    after: int
    through: int
    first: int
    count: int
    after_loss: bool
    topics: str = ""
    adopted: tuple[int, ...] | None = None

    @property
    def last(self) -> int:
        return self.first + self.count - 1


class Ledger(NamedTuple):
    """What a source keeps of the hop that leaves it. `received`, `settled`: batches 1 to this number.

    `lower` is the frontier: a row above `anchor` that it sees is in a batch, in one of `pieces`, or of a topic that the hop never had.
    """

    batches: tuple[Batch, ...] = ()
    lower: Snapshot = NOTHING_SEEN
    received: int = 0
    settled: int = 0
    timeline: int = 1
    topics: str = "a"
    pieces: tuple[Piece, ...] = ()
    anchor: int = 0

    def has_given_up(self, row: Row) -> bool:
        return any(piece.is_retired and piece.holds(row) for piece in self.pieces)


class Log(NamedTuple):
    """What a destination keeps of the hop that arrives in it.

    `rows`: (position, message), staged and published. `receipts`: (batch, plan). `arrivals`: (plan, last position) of batch 1, 2 ...
    """

    rows: tuple[tuple[int, int], ...] = ()
    receipts: tuple[tuple[int, int], ...] = ()
    arrivals: tuple[tuple[int, int], ...] = ()

    @property
    def published(self) -> int:
        """The last position that consumers may read."""
        return self.arrivals[-1][1] if self.arrivals else 0

    @property
    def readable(self) -> tuple[tuple[int, int], ...]:
        published = self.published
        return tuple(row for row in self.rows if row[0] <= published)


class Store(NamedTuple):
    """All that is committed in one store. `top_xid`: the highest transaction number that its WAL knows.

    `acknowledged`: how far a consumer of its log is done. `dropped`: rows that retention took away.
    """

    rows: tuple[Row, ...] = ()
    ledger: Ledger = Ledger()
    log: Log = Log()
    top_xid: int = 0
    acknowledged: int = 0
    dropped: tuple[Row, ...] = ()


class Server(NamedTuple):
    """A store and what may become of it: a crash leaves `now` or one of `losable`, a failover `standby`."""

    now: Store = Store()
    losable: tuple[Store, ...] = ()
    standby: Store | None = None
    timeline: int = 1
    lost: bool = False


class Sender(NamedTuple):
    """A producer: messages begun so far, and its open transaction with the message that it inserted."""

    begun: int = 0
    xid: int = 0
    row: Row | None = None


class Driver(NamedTuple):
    """One worker of a hop. It may stop for ever at any step, and go on at any later time: then it is a zombie.

    `remembered` and `uncommitted` are for broken protocols: an old snapshot, a plan whose COMMIT was not sent.
    step: idle | asked | planned | read | guarded | copied | published.
    """

    step: str = "idle"
    hop: int = 0
    number: int = 0
    plan: int = 0
    batch: Batch | None = None
    rows: tuple[tuple[int, int], ...] = ()
    remembered: Snapshot | None = None
    uncommitted: Ledger | None = None


IDLE = Driver()


class State(NamedTuple):
    """Everything. `alarm`: a terminal error was raised although no store ever lost anything.

    `retired`: bits of the messages that operators were told they give up. `passing`: the snapshot of a session that has locked hop 1
    to move it on (passing.py).
    """

    servers: tuple[Server, ...]
    senders: tuple[Sender, ...]
    drivers: tuple[Driver, ...]
    next_xid: int = 1
    next_seq: int = 1
    plans: int = 0
    drawn: int = 0
    crashes: int = 0
    failovers: int = 0
    changes: int = 0
    retired: int = 0
    alarm: str = ""
    passing: Snapshot | None = None
