"""What a stream must deliver, written the slow and plain way: row by row, with a loop that releases what has become ready.

It shares nothing with the SQL but the rules: no windows, no watermarks, no sets of ranges.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any, NamedTuple

TOO_FAR = 1_000_000
"""No index may be farther ahead than this."""

DUPLICATE = "duplicate"

Number = tuple[int, int]
"""(epoch, index): how a sender's messages compare."""


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a log, as received. `content`: what a repetition must have in common with its original."""

    log: str
    log_position: int
    sender: str
    epoch: int
    index: int
    sent_at: float = 0
    message_id: str = ""
    content: tuple[Any, ...] = ()
    clock: Any = field(default=None, compare=False)

    @property
    def stream_position(self) -> tuple[str, int]:
        """Where it is: log and position."""
        return self.log, self.log_position

    @property
    def number(self) -> Number:
        return self.epoch, self.index


class Declaration(NamedTuple):
    """A row of relaybox_internal.sender."""

    origin: str
    sender: str
    epoch: int
    kind: str
    declared_at: float = 0


@dataclass(frozen=True, slots=True)
class Held:
    """Received, not yet deliverable."""

    row: Row
    arrival_seq: int


@dataclass
class Sender:
    """What a stream knows of a sender that it has accepted a message of."""

    origin: str
    epoch: int = 0
    originals: dict[Number, Row] = field(default_factory=dict)
    done: set[Number] = field(default_factory=set)


class Stream:
    """One store's stream over its logs, given as log -> origin."""

    def __init__(self, order: str, origins: Mapping[str, str], *, message_id_window: int = 0) -> None:
        self.delivered: list[Row] = []
        self.duplicates: list[Row] = []
        self.dead_letters: dict[Row, str] = {}
        self.held: list[Held] = []
        self._order = order
        self._origins = origins
        self._window = message_id_window
        self._declared: dict[tuple[str, str, int], Declaration] = {}
        self._senders: dict[str, Sender] = {}
        self._skipped: dict[str, set[Number]] = defaultdict(set)
        self._rows: dict[str, list[Row]] = defaultdict(list)
        self.arrival_seq = 0
        self._released: dict[tuple[str, Number], tuple[int, int]] = {}
        self._since = 0

    def declare(self, *declarations: Declaration) -> None:
        """Every declaration that is ever made. The time of a message says which of them apply to it."""
        for declaration in declarations:
            self._declared[declaration.origin, declaration.sender, declaration.epoch] = declaration

    def take(self, row: Row) -> None:
        """The next row of one of the logs."""
        self.arrival_seq += 1
        self._released, self._since = {}, self.arrival_seq
        outcome = self._outcome(row)
        self._rows[row.log].append(row)
        if outcome == DUPLICATE:
            self.duplicates.append(row)
        elif outcome is None or outcome.startswith("clock_"):
            self._accept(row, outcome)
        else:
            self.dead_letters[row] = outcome

    def take_all(self, rows: Iterable[Row]) -> None:
        for row in rows:
            self.take(row)

    def skip(self, sender: str, epoch: int, first_index: int, last_index: int) -> None:
        """An operator says that these indexes will never come, or that this one which is here is not to be waited for."""
        given_up = {(epoch, index) for index in range(first_index, last_index + 1)}
        self._skipped[sender] |= given_up
        for held in [held for held in self.held if held.row.sender == sender and held.row.number in given_up]:
            self.held.remove(held)
            self.dead_letters[held.row] = "index_skipped"
        self._released, self._since = {}, 0
        self._deliver(self._ready())

    def epoch(self, sender: str) -> int:
        """The newest one that it has begun; 0: none."""
        known = self._senders.get(sender)
        return known.epoch if known else 0

    def gaps(self) -> dict[str, tuple[int, int, int]]:
        """Sender -> (epoch, first, last) of the indexes that are missing before its first held message, if any are."""
        return {
            name: (epoch, missing, first_held - 1)
            for name, (epoch, missing, first_held) in self._first_held().items()
            if missing < first_held
        }

    def waiting(self) -> dict[str, tuple[int, int]]:
        """Sender -> (epoch, index) of its next message, where that one is here and waits for its clock."""
        return {name: (epoch, held) for name, (epoch, missing, held) in self._first_held().items() if missing == held}

    def _first_held(self) -> dict[str, tuple[int, int, int]]:
        """Sender -> (epoch, its first index that is not done with, its first held index), of its newest epoch."""
        found = {}
        for name, sender in self._senders.items():
            done = self._done(name)
            first = next(index for index in count(1) if (sender.epoch, index) not in done)
            held = [held.row.index for held in self.held if (held.row.sender, held.row.epoch) == (name, sender.epoch)]
            if held:
                found[name] = (sender.epoch, first, min(held))
        return found

    # what becomes of a row

    def _outcome(self, row: Row) -> str | None:
        """None: accepted."""
        return self._repeated_message_id(row) or (self._without_index(row) if row.epoch == 0 else self._with_index(row))

    def _repeated_message_id(self, row: Row) -> str | None:
        for earlier in self._rows[row.log]:
            if row.log_position - earlier.log_position <= self._window and repeats_id(earlier, row):
                return repetition(earlier, row)
        return None

    def _without_index(self, row: Row) -> str | None:
        if self._order == "causal":
            return "sender_not_gapless"
        return "index_missing" if self._declarations(row) else None

    def _with_index(self, row: Row) -> str | None:
        epochs = {declaration.epoch: declaration.kind for declaration in self._declarations(row)}
        sender = self._senders.get(row.sender)
        if not epochs:
            return "sender_not_declared"
        if row.epoch not in epochs:
            return "epoch_not_begun"
        if sender and sender.origin != self._origins[row.log]:
            return "sender_of_another_store"
        if sender and row.epoch < sender.epoch:
            return "epoch_fenced"
        return self._of_kind(row, epochs[row.epoch])

    def _of_kind(self, row: Row, kind: str) -> str | None:
        sender = self._senders.get(row.sender)
        skipped = [index for epoch, index in self._skipped[row.sender] if epoch == row.epoch]
        if kind == "sparse" and self._order in {"fifo", "causal"}:
            return "sender_not_gapless"
        if kind == "gapless" and row.index > max(row.log_position, *skipped, 0) + TOO_FAR:
            return "index_too_far"
        if row.index in skipped:
            return "index_skipped"  # a gap that is given up takes with it what was set aside in it
        if sender and row.number in sender.originals:
            return repetition(sender.originals[row.number], row)
        return self._clock_defect(row) if self._order == "causal" else None

    def _clock_defect(self, row: Row) -> str | None:
        if not is_clock(row.clock) or clock_of(row).get(row.sender, row.number) != row.number:
            return "clock_invalid"
        return None

    def _declarations(self, row: Row) -> list[Declaration]:
        origin = self._origins[row.log]
        return [
            declaration
            for declaration in self._declared.values()
            if (declaration.origin, declaration.sender) == (origin, row.sender) and declaration.declared_at <= row.sent_at
        ]

    def _accept(self, row: Row, clock_defect: str | None) -> None:
        """Holds the row, or only its index if its clock is not to be believed; then delivers what can be delivered."""
        if row.epoch == 0:
            self.delivered.append(row)
            return
        sender = self._senders.setdefault(row.sender, Sender(self._origins[row.log]))
        released = self._given_up(row) if row.epoch > sender.epoch else []
        sender.epoch = row.epoch
        sender.originals[row.number] = row
        if clock_defect:
            self.dead_letters[row] = clock_defect
            sender.done.add(row.number)
        else:
            self.held.append(Held(row, self.arrival_seq))
        self._deliver([*released, *self._ready()])

    # what becomes ready

    def _given_up(self, begins: Row) -> list[Held]:
        """What was held of the epochs before this one, in their order: their gaps will not be filled."""
        return [
            self._release(held)
            for held in sorted(self.held, key=lambda held: held.row.number)
            if held.row.sender == begins.sender
        ]

    def _ready(self) -> Iterator[Held]:
        """Takes out of the holdback what is ready, and what gets ready by that, until nothing does.

        What waits for nothing but itself is set aside, and whom it kept waiting goes on.
        """
        while True:
            if ready := [held for held in self.held if self._is_ready(held.row)]:
                yield from [self._release(held) for held in ready]
            elif cycles := self._cycles():
                self._break(cycles)
            else:
                return

    def _cycles(self) -> dict[Row, set[Row]]:
        """The rows that wait for each other and for nothing else, with their causes. Only rows of cycles, or between two."""
        if self._order != "causal":
            return {}
        waits = {held.row: self._waits_for(held.row) for held in self.held}
        while stuck := [row for row in waits if not self._could_come(row, waits.keys())]:
            for row in stuck:
                del waits[row]
        while ends := [
            row for row in waits if not waits[row] & waits.keys() or not any(row in waited for waited in waits.values())
        ]:
            for row in ends:
                del waits[row]
        return {row: waited & waits.keys() for row, waited in waits.items()}

    def _waits_for(self, row: Row) -> set[Row]:
        """The held rows that must come before it."""
        causes = dependencies(row)
        return {
            held.row
            for held in self.held
            if held.row.epoch == causes.get(held.row.sender, (0, 0))[0] and held.row.index <= causes[held.row.sender][1]
        }

    def _could_come(self, row: Row, others: Collection[Row]) -> bool:
        """Whether it would be ready if the others were delivered."""
        delivered = {(other.sender, other.number) for other in others}
        return all(
            self._is_done(sender, (epoch, index))
            or all(
                (epoch, before) in self._done(sender) or (sender, (epoch, before)) in delivered for before in range(1, index + 1)
            )
            for sender, (epoch, index) in dependencies(row).items()
        )

    def _break(self, cycles: Mapping[Row, set[Row]]) -> None:
        """Sets aside each row whose clock names a row that waits for it; the rows of one cycle have one time."""
        held_as = {held.row: held for held in self.held}
        times = {row: self._time_and_rank(held_as[row])[0] for row in cycles}
        for _ in cycles:
            times = {row: max(times[row], *(times[cause] for cause in causes)) for row, causes in cycles.items()}
        for row, causes in cycles.items():
            if any(cause.sender != row.sender and waits_for(cause, row, cycles) for cause in causes):
                self.held.remove(held_as[row])
                self.dead_letters[row] = "clock_waits_for_itself"
                self._senders[row.sender].done.add(row.number)
                self._released[row.sender, row.number] = times[row], 0

    def _release(self, held: Held) -> Held:
        self.held.remove(held)
        self._senders[held.row.sender].done.add(held.row.number)
        self._released[held.row.sender, held.row.number] = self._time_and_rank(held)
        return held

    def _is_ready(self, row: Row) -> bool:
        if self._order in {"none", "total"}:
            return True
        if self._order == "fifo":
            return self._is_done(row.sender, (row.epoch, row.index - 1))
        return all(self._is_done(sender, number) for sender, number in dependencies(row).items())

    def _is_done(self, sender: str, number: Number) -> bool:
        """Whether the message and all before it in its epoch were delivered, set aside, skipped or given up."""
        epoch, index = number
        done = self._done(sender)
        known = self._senders.get(sender)
        return (known is not None and epoch < known.epoch) or all((epoch, before) in done for before in range(index, 0, -1))

    def _done(self, sender: str) -> set[Number]:
        known = self._senders.get(sender)
        return self._skipped[sender] | (known.done if known else set())

    # the order of what gets ready at once

    def _deliver(self, released: Iterable[Held]) -> None:
        """By the time since which each was ready: now, or, where a gap was given up, the arrival of its latest cause."""
        if self._order == "causal":
            in_order = sorted(released, key=lambda held: (self._released[held.row.sender, held.row.number], held.arrival_seq))
        else:
            in_order = sorted(released, key=lambda held: held.row.number)
        self.delivered += [held.row for held in in_order]

    def _time_and_rank(self, held: Held) -> tuple[int, int]:
        """The rank grows along every chain of causes among what is ready since the same time."""
        causes = dependencies(held.row) if self._order == "causal" else {held.row.sender: (held.row.epoch, held.row.index - 1)}
        before = [ready for (sender, number), ready in self._released.items() if number <= causes.get(sender, (0, 0))]
        time = max([self._since or held.arrival_seq, *(time for time, _ in before)])
        if self._order != "causal":
            return time, 0
        counted = sum(index for _, index in {**clock_of(held.row), held.row.sender: held.row.number}.values())
        return time, max([counted, *(1 + rank for at, rank in before if at == time)])


def waits_for(row: Row, other: Row, cycles: Mapping[Row, set[Row]]) -> bool:
    """Whether a row waits for another one, directly or not."""
    seen, further = {row}, [row]
    while further:
        new = cycles[further.pop()] - seen
        seen |= new
        further += new
    return other in seen


def repeats_id(earlier: Row, row: Row) -> bool:
    """Whether one sender gave both the same id; two senders that know the same id say nothing of each other's messages."""
    return (earlier.sender, earlier.message_id) == (row.sender, row.message_id)


def repetition(original: Row, row: Row) -> str:
    return DUPLICATE if row.content == original.content else "other_content"


def is_clock(clock: Any) -> bool:
    """A missing clock is an empty one."""
    if clock is None:
        return True
    return isinstance(clock, dict) and all(is_entry(entry) for entry in clock.values())


def is_entry(entry: Any) -> bool:
    numbers = entry if isinstance(entry, list) and len(entry) == 2 else [entry]
    return all(type(number) is int and number >= 1 for number in numbers)


def clock_of(row: Row) -> dict[str, Number]:
    """A plain index is one of epoch 1."""
    return {
        sender: (entry[0], entry[1]) if isinstance(entry, list) else (1, entry) for sender, entry in (row.clock or {}).items()
    }


def dependencies(row: Row) -> dict[str, Number]:
    """What must be delivered before it: its own predecessor, and what its clock names of others."""
    return {**clock_of(row), row.sender: (row.epoch, row.index - 1)}
