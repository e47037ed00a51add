"""deliver_next against the brute force: generated logs, cut anywhere into batches, decided on with crashes in between."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from itertools import islice, product
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, note, settings
from hypothesis import strategies as st

from tests.delivery.brute import Declaration, Row, Stream, dependencies
from tests.delivery.histories import LOGS, History, histories
from tests.delivery.outcomes import Deliveries, Outcome, wanted
from tests.delivery.stored import StoredStream
from tests.support.world import World

EXAMPLES = int(os.environ.get("RELAYBOX_TEST_EXAMPLES", "60"))
ORDERS = ("none", "fifo", "causal", "total")

Draw = Callable[[st.SearchStrategy[Any]], Any]

generated = settings(
    max_examples=max(1, EXAMPLES // (2 * len(ORDERS))),
    derandomize=EXAMPLES <= 60,  # the default run is the same every time; longer ones look further and print how to repeat
    print_blob=True,
    deadline=None,
    report_multiple_bugs=False,
    suppress_health_check=list(HealthCheck),
    phases=(Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink),
)


@pytest.fixture
def stored(world: World) -> Iterator[StoredStream]:
    with world.session("hub") as connection:
        yield StoredStream(connection)


@pytest.mark.timeout(60 + EXAMPLES)
@pytest.mark.parametrize(("order", "tangled"), list(product(ORDERS, (False, True))))
def test_a_stream_is_what_its_rules_say(stored: StoredStream, order: str, tangled: bool) -> None:
    """Delivered, dropped, set aside and held after every decision, whatever came, however it was cut, whatever was rolled back."""

    @generated
    @given(history=histories(order=order, tangled=tangled), data=st.data())
    def check(history: History, data: st.DataObject) -> None:
        run = Run(stored, history, data.draw)
        while run.step():
            run.check()
        run.check_decided_again()

    check()


@pytest.mark.timeout(60 + EXAMPLES)
@pytest.mark.parametrize("order", ORDERS)
def test_limits_change_no_sequence(stored: StoredStream, order: str) -> None:
    """With room for a few only: who waits is the sender whose limit is reached, and when its gaps are filled nothing is missing."""

    @generated
    @given(history=histories(order=order, orderly=True), data=st.data())
    def check(history: History, data: st.DataObject) -> None:
        limits = st.integers(1, 3)
        run = Run(stored, history, data.draw, holdback_rows=data.draw(limits), fragments=data.draw(limits))
        while run.step():
            run.check_limited()
        run.check_ended()

    check()


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("refused", [2_000_000, 1], ids=["too far", "before its declaration"])
@pytest.mark.parametrize("unnumbered", [False, True], ids=["alone", "beside a message without an index"])
def test_an_epoch_that_begins_with_a_refused_message_still_ends_the_one_before_it(
    stored: StoredStream, order: str, refused: int, unnumbered: bool
) -> None:
    """Its first accepted message, which comes in order in a later batch, lets go what waited in the lower epoch."""
    origin = LOGS[0].removesuffix("/1")
    numbers = [(1, 1, 2.0), (1, 3, 2.0), (2, refused, 0.5 if refused == 1 else 2.0), (2, 1, 2.0)] + [(0, 5, 2.0)] * unnumbered
    log = [
        Row(LOGS[0], log_position, "A", epoch, index, sent_at, f"{epoch}.{index}.{sent_at}", ("same",))
        for log_position, (epoch, index, sent_at) in enumerate(numbers, start=1)
    ]
    declared = tuple(Declaration(origin, "A", epoch, "gapless", declared_at=epoch - 1.0) for epoch in (1, 2))
    brute = Stream(order, {LOGS[0]: origin})
    brute.declare(*declared)
    stored.begin(History(order, 0, {LOGS[0]: origin}, declared, {LOGS[0]: log}))
    stored.carry(declared)
    for batch in (log[:2], log[2:3], log[3:]):
        stored.publish(LOGS[0], len(batch), knows_kind=True)
        assert stored.decide(LOGS[0])
        brute.take_all(batch)
        assert stored.outcome() == wanted(brute)
    stored.commit()


def assert_causal(delivered: list[Row], brute: Stream) -> None:
    """No message comes before one that it must follow; the end of an epoch lets go what waited in it."""
    stream_position = {(row.sender, row.number): number for number, row in enumerate(delivered)}
    for row in (row for row in delivered if row.epoch == brute.epoch(row.sender)):
        for sender, (epoch, index) in dependencies(row).items():
            cause = (sender, (epoch, index))
            if any((row.sender, row.number) == cause for row in brute.delivered) and epoch == brute.epoch(sender):
                assert stream_position[cause] < stream_position[row.sender, row.number]


class Run:
    """One life of a stream in the store, and the same life in the brute force."""

    def __init__(self, stored: StoredStream, history: History, draw: Draw, **limits: int) -> None:
        stored.begin(history, **limits)
        self._stored, self._history, self._draw, self._limited = stored, history, draw, bool(limits)
        self._brute = Stream(history.order, history.origins, message_id_window=history.message_id_window)
        self._brute.declare(*history.declarations)
        self._arriving = {log: iter(rows) for log, rows in history.logs.items()}
        self._left = {log: len(rows) for log, rows in history.logs.items()}
        self._undecided: dict[str, list[list[Row]]] = {log: [] for log in history.logs}
        self._rows = {row.stream_position: row for rows in history.logs.values() for row in rows}
        self._stalled_once: set[str] = set()
        self._has_skips = False
        self._declarations = {
            log: sorted((one for one in history.declarations if one.origin == of), key=lambda one: one.declared_at)
            for log, of in history.origins.items()
        }

    def step(self) -> bool:
        """A batch arrives, or is decided on; false when nothing is left."""
        possible = [("arrive", log) for log, left in self._left.items() if left]
        possible += [("decide", log) for log, undecided in self._undecided.items() if undecided]
        if not possible:
            return False
        act, log = self._draw(st.sampled_from(possible))
        if act == "arrive":
            self._arrive(log)
        else:
            self._decide(log)
        if self._history.order in {"fifo", "causal"}:
            self._step_aside(log)
        return True

    def _step_aside(self, log: str) -> None:
        """Now and then an operator gives up a gap or a waiting message, or a log brings new declarations of its origin."""
        gaps, waiting = self._brute.gaps(), self._brute.waiting()
        act = self._draw(st.sampled_from(["", "", "", "", "", "skip", "set aside", "carry"]))
        if act == "skip" and gaps and not self._limited:
            sender = self._draw(st.sampled_from(sorted(gaps)))
            epoch, first, last = gaps[sender]
            last = self._draw(st.integers(first, min(last, first + 3)))
            note(f"skip {sender}{epoch}.{first} to {last}")
            self._stored.skip(sender, last)
            self._brute.skip(sender, epoch, first, last)
            self._has_skips = True
        elif act == "set aside" and waiting and not self._limited:
            sender = self._draw(st.sampled_from(sorted(waiting)))
            epoch, index = waiting[sender]
            note(f"set aside {sender}{epoch}.{index}")
            self._stored.set_aside(sender, index)
            self._brute.skip(sender, epoch, index, index)
            self._has_skips = True
        elif act == "carry":
            self._carry(log, len(self._declarations[log]))
            if not self._undecided[log]:
                assert not self._stored.decide(log)
                self._stored.commit()

    def _carry(self, log: str, count: int) -> None:
        """The store learns the next declarations of a log's origin."""
        news, self._declarations[log] = self._declarations[log][:count], self._declarations[log][count:]
        note(f"{log}: {' '.join(f'{one.sender} {one.epoch} at {one.declared_at}' for one in news)}")
        self._stored.carry(news)

    def check(self) -> None:
        """The store has what the brute force has."""
        assert self._stored.outcome() == wanted(self._brute)

    def check_decided_again(self) -> None:
        """Nothing that a decision had read, and no later one could read again: by now every declaration is here."""
        if self._has_skips:
            return  # at which stream position a skip lets something go depends on when it was made
        before = self._stored.outcome()
        for log in self._history.logs:
            self._carry(log, len(self._declarations[log]))
        for log in self._stored.forget_decisions():
            assert self._stored.decide(log)
            self._stored.commit()
        assert self._stored.outcome() == before

    def check_limited(self) -> None:
        """As `check`, but for what waits behind a limit; only in fifo order nothing else can see that it waits."""
        brute, outcome = self._brute, self._stored.outcome()
        self._stalled_once |= {sender for sender, _ in outcome.stalled}
        expected = [row.stream_position for row in brute.delivered]
        if self._history.order == "fifo":
            assert outcome.delivered == self._but_waiting(outcome, expected) == expected
        elif self._history.order == "causal":
            assert set(outcome.delivered) <= set(expected)
            assert_causal([self._rows[stream_position] for stream_position in outcome.delivered], brute)
            return
        else:
            expected = self._but_waiting(outcome, expected)
            assert self._of_others(outcome.delivered) == self._of_others(expected)
            assert sorted(outcome.delivered) == sorted(expected)
        assert outcome.duplicates == self._but_waiting(outcome, sorted(row.stream_position for row in brute.duplicates))
        assert sorted(outcome.dead_letters) == self._but_waiting(
            outcome, sorted(row.stream_position for row in brute.dead_letters)
        )
        assert outcome.held == self._but_waiting(outcome, sorted(held.row.stream_position for held in brute.held))

    def check_ended(self) -> None:
        """Nothing waits behind a limit that it could be delivered in spite of."""
        if self._history.order == "causal":
            for _ in range(8):
                for log in self._history.logs:
                    assert not self._stored.decide(log)
                    self._stored.commit()
            outcome = self._stored.outcome()
            assert sorted(outcome.delivered) == sorted(row.stream_position for row in self._brute.delivered)

    def _but_waiting(self, outcome: Outcome, stream_positions: Deliveries) -> Deliveries:
        """Without those that wait behind a limit, unlisted."""
        rows = [self._rows[stream_position] for stream_position in stream_positions]
        return [
            row.stream_position
            for row in rows
            if row.log_position <= outcome.stalled.get((row.sender, row.epoch), row.log_position)
        ]

    def _of_others(self, stream_positions: Deliveries) -> Deliveries:
        """Those of senders that never waited."""
        return [
            stream_position
            for stream_position in stream_positions
            if self._rows[stream_position].sender not in self._stalled_once
        ]

    def _arrive(self, log: str) -> None:
        batch = list(islice(self._arriving[log], self._draw(st.sampled_from((1, 1, 2, 3, 5, 8, 40)))))
        note(f"{log}: {' '.join(f'{row.sender}{row.epoch}.{row.index}' for row in batch)}")
        # the senders of these messages were declared before; the store may hear of the others now, or later
        needed = sum(one.declared_at <= max(row.sent_at for row in batch) for one in self._declarations[log])
        self._carry(log, self._draw(st.integers(needed, len(self._declarations[log]))))
        self._stored.publish(log, len(batch), knows_kind=self._draw(st.booleans()))
        self._left[log] -= len(batch)
        self._undecided[log].append(batch)

    def _decide(self, log: str) -> None:
        if self._draw(st.sampled_from((False, False, True))):
            assert self._stored.decide(log)
            self._stored.roll_back()
        assert self._stored.decide(log)
        self._stored.commit()
        self._brute.take_all(self._undecided[log].pop(0))
