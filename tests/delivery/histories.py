"""What Hypothesis makes: senders, what they sent, and the logs in which it arrived, repeated, displaced and damaged."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from hypothesis import strategies as st

from tests.delivery.brute import TOO_FAR, Declaration, Row

LOGS = ("flights/1", "rail/1", "sea/1")
MAX_SENDS = 30

SPARSE_INDEXES = (*range(1, 10), 4095, 4096, 4097, 8191, 8192, 10**12, 2**63 - 2)
"""Neighbours, borders of the chunks that a store keeps them in, and the ends."""

BAD_CLOCKS = (
    3,
    [],
    "A",
    {"B": 0},
    {"B": -1},
    {"B": 1.5},
    {"B": True},
    {"B": "1"},
    {"B": None},
    {"B": [1]},
    {"B": [0, 1]},
    {"A": 77},
    {"B": [1, 2, 3]},
)

Draw = Callable[[st.SearchStrategy[Any]], Any]


@dataclass(frozen=True)
class History:
    """The logs of one stream as they came to be. `origins`: log -> origin."""

    order: str
    message_id_window: int
    origins: dict[str, str]
    declarations: tuple[Declaration, ...]
    logs: dict[str, list[Row]]


@dataclass
class Producer:
    """One sender while it sends. `knows`: what it had delivered, as a clock counts."""

    name: str
    kind: str
    log: str
    epoch: int = 1
    index: int = 0
    knows: dict[str, tuple[int, int]] = field(default_factory=dict)


@st.composite
def histories(draw: Draw, *, order: str, orderly: bool = False, tangled: bool = False) -> History:
    """Of up to five senders and, in causal order, up to three logs.

    Args:
        draw: Hypothesis.
        order: of the stream.
        orderly: no defects, so that limits are what matters.
        tangled: many clocks name what is yet to come, so that messages wait for each other; and senders have more defects.
    """
    logs = LOGS[: draw(st.integers(1, 3)) if order == "causal" else 1]
    kinds = {"fifo": ("gapless", "gapless", "assigned"), "causal": ("gapless",)}.get(order, ("gapless", "sparse", "assigned"))
    producers = [
        Producer(name, draw(st.sampled_from(kinds)), draw(st.sampled_from(logs))) for name in "ABCDE"[: draw(st.integers(1, 5))]
    ]
    if len(logs) > 1 and not orderly and draw(st.integers(0, 5)) == 3:
        # one name at two stores: it belongs to the store that is heard first
        producers.append(Producer("A", "gapless", draw(st.sampled_from([log for log in logs if log != producers[0].log]))))
    sending = _Sending(draw, order, orderly, tangled, producers)
    for time in range(1, draw(st.integers(1, MAX_SENDS)) + 1):
        sending.step(time)
    displacement = draw(st.sampled_from((0, 2, 5, 12)))
    arrived = {log: _arrived(draw, sending.sent[log], displacement) for log in logs}
    return History(
        order, draw(st.sampled_from((0, 0, 2, 20))), {log: origin(log) for log in logs}, tuple(sending.declarations), arrived
    )


def origin(log: str) -> str:
    """The store whose outbox the log was sent from."""
    return log.removesuffix("/1")


@dataclass
class _Sending:
    draw: Draw
    order: str
    orderly: bool
    tangled: bool
    producers: list[Producer]
    declarations: list[Declaration] = field(default_factory=list)
    sent: dict[str, list[Row]] = field(default_factory=lambda: defaultdict(list))

    def __post_init__(self) -> None:
        for producer in self.producers:
            if producer.kind != "assigned" and (declared_at := self._declared_at()) is not None:
                self._declare(producer, declared_at=declared_at)

    def _declared_at(self) -> int | None:
        """Before it sends anything, when it has sent a few, long after it sent its last; or never."""
        if self.orderly:
            return 0
        often = 4 if self.order == "causal" else 11
        return self.draw(st.sampled_from((*(0,) * often, 4, 10, 10 * MAX_SENDS, None)))

    def step(self, time: int) -> None:
        """One message is sent, or one of the things that happen to senders."""
        producer = self.draw(st.sampled_from(self.producers))
        if self.order == "causal":
            self._consume(producer)
        event = self._rarely(
            40 if self.tangled else 120,
            "epoch",
            "lost",
            "undeclared epoch",
            "no index",
            "far index",
            "bad clock",
            "far clock",
            "nobody's clock",
            "clock of an epoch to come",
            "epoch of another kind",
        )
        if self.tangled and not event:
            event = self._rarely(3, "clock of what is to come")
        if event == "epoch" or (event == "epoch of another kind" and self.order != "causal"):
            self._begin_epoch(producer, time, another_kind=event != "epoch")
        row = self._next(producer, time)
        if event == "lost":
            return
        if event and not self.orderly:
            row = self._damaged(row, event)
        if not self.orderly and self._rarely(6, "id of another sender"):
            row = replace(row, message_id=f"order {time // 4}")
        self.sent[producer.log].append(row)
        if row.epoch:
            producer.knows[producer.name] = row.number

    def _next(self, producer: Producer, time: int) -> Row:
        row = Row(
            producer.log, 0, producer.name, producer.epoch, 0, time, f"{producer.name} {time}", (f"{producer.name} {time}",)
        )
        if producer.kind == "assigned":
            return replace(row, epoch=0)
        if producer.kind == "sparse":
            return replace(row, index=self.draw(st.sampled_from(SPARSE_INDEXES)))
        producer.index += 1
        return replace(row, index=producer.index, clock=self._clock(producer) if self.order == "causal" else None)

    def _clock(self, producer: Producer) -> dict[str, Any] | None:
        """What it knows of others, and sometimes of itself: the message's own number."""
        own = {producer.name: (producer.epoch, producer.index)} if self.draw(st.booleans()) else {}
        known = {sender: number for sender, number in producer.knows.items() if sender != producer.name} | own
        return {sender: index if epoch == 1 else [epoch, index] for sender, (epoch, index) in known.items()} or None

    def _damaged(self, row: Row, event: str) -> Row:
        damages: dict[str, Callable[[], dict[str, Any]]] = {
            "undeclared epoch": lambda: {"epoch": row.epoch + 5},
            "no index": lambda: {"epoch": 0},
            "far index": lambda: {"epoch": 1, "index": TOO_FAR + self.draw(st.sampled_from((0, 500, 10**12)))},
            "bad clock": lambda: {"clock": self.draw(st.sampled_from(BAD_CLOCKS))},
            "far clock": lambda: {"clock": {"B": 2 * TOO_FAR}},
            "nobody's clock": lambda: {"clock": {**(row.clock or {}), "nobody": 1}},
            "clock of an epoch to come": lambda: {"clock": {**(row.clock or {}), "B": [9, 1]}},
            "clock of what is to come": lambda: {"clock": {**(row.clock or {}), **self._to_come(row.sender)}},
        }
        return replace(row, **damages[event]()) if event in damages else row

    def _to_come(self, sender: str) -> dict[str, list[int]]:
        """A message that another one may send later: it may wait for this one in its turn."""
        others = [producer for producer in self.producers if producer.name != sender]
        if not others:
            return {}
        other = self.draw(st.sampled_from(others))
        return {other.name: [other.epoch, other.index + self.draw(st.integers(1, 2))]}

    def _begin_epoch(self, producer: Producer, time: int, *, another_kind: bool) -> None:
        producer.epoch += 1
        producer.index = 0
        if another_kind:
            producer.kind = "sparse" if producer.kind == "gapless" else "gapless"
        if producer.kind != "assigned":
            self._declare(producer, declared_at=time)

    def _declare(self, producer: Producer, *, declared_at: int) -> None:
        self.declarations.append(Declaration(origin(producer.log), producer.name, producer.epoch, producer.kind, declared_at))

    def _consume(self, producer: Producer) -> None:
        """Delivers what another sender has sent so far, and so everything that came before it."""
        other = self.draw(st.sampled_from([None, *self.producers]))
        for sender, number in (other.knows if other else {}).items():
            producer.knows[sender] = max(number, producer.knows.get(sender, (0, 0)))

    def _rarely(self, one_of: int, *events: str) -> str | None:
        """One of the events, each once in this number of draws. Not at the ends of the range, which Hypothesis likes to draw."""
        number = self.draw(st.integers(0, one_of - 1)) - one_of // 2
        return events[number] if 0 <= number < len(events) else None


def _arrived(draw: Draw, sent: list[Row], displacement: int) -> list[Row]:
    """Rows at their positions: displaced by up to this number of stream positions, some of them again, a few with other content."""
    keyed: list[tuple[int, Row]] = []
    for stream_position, row in enumerate(sent):
        keyed.append((stream_position + draw(st.integers(0, displacement)), row))
        for number in range(draw(st.sampled_from((0, 0, 0, 0, 0, 0, 1, 2)))):
            again = replace(row, message_id=draw(st.sampled_from((row.message_id, f"{row.message_id} again {number}"))))
            if draw(st.integers(0, 5)) == 5:
                again = replace(again, content=("other",))
            keyed.append((stream_position + 1 + draw(st.integers(0, 2 * displacement + 2)), again))
    keyed.sort(key=lambda of: of[0])
    return [
        replace(row, log_position=log_position, index=row.index if row.epoch else log_position)
        for log_position, (_, row) in enumerate(keyed, start=1)
    ]
