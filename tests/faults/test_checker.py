"""The checker on hand-made histories: good ones pass, and of each bad one exactly the broken invariants are named."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.faults.checker import INVARIANTS, check, reliability, unsettled
from tests.faults.history import ClientLog, Observation, Read, Transaction, Tried, read_history
from tests.faults.sketch import Moved, Sketch, message_of
from tests.faults.stores import ConfirmationRow, LogRow, OutboxRow

GOOD = {
    "nothing at all": "",
    "one message": "UA:1 a b s w",
    "a message moved and not settled": "UA:1 a b w ra rb",
    "a whole day": "UA:2 BA:1 a ra w b rb (LH:2 UA:1! BA:3~1 a/1 a w LH) UA:1? a b ra rb s w Ra Rb",
    "rolled back": "UA:3! UA:1 a b",
    "everything rolled back": "UA:3! BA:2! w",
    "half undone": "UA:4~2 a b ra rb",
    "unknown and committed": "UA:2? BA:1 a b ra",
    "unknown and gone": "UA:2x BA:1 a b ra",
    "unknown ones may stand in any order": "(UA:1 BA:1? UA) LH:1x BA:1 a b",
    "committed late: behind what was inserted after it": "(UA:2 BA:1 LH:1 a UA) a b ra rb",
    "committed late over two batches": "(UA:2 BA:1 a LH:1 a UA) a b",
    "two left open at once": "(UA:1 (BA:1 LH:1 a BA) a LH:1 UA) a b Ra",
    "left open while nothing else happens": "(UA:1 UA) a b",
    "a capped pair": "UA:5 a/2 a/2 a b s w",
    "a capped pair while more is sent": "UA:3 a/2 BA:2 a a b",
    "a long capped pair beside an open one": "(LH:1 UA:4 a/1 a/1 a LH) a b/2 b/2 b",
    "the second hop in smaller batches": "UA:6 a b/1 b/2 b s",
    "the second hop in one": "UA:2 a BA:2 a LH:1 a b",
    "settled twice": "UA:1 a b s w BA:1 a b s w",
    "read while it grows": "UA:1 a ra Ra BA:1 a ra Ra Ra b rb",
    "seen only from the start": "UA:1 BA:1 a b Ra Rb Ra",
    "nobody reads": "UA:1 a BA:1 a b s",
    "derived in small attempts": "UA:3 BA:2 a d/1 d/2 d b",
    "derived after an attempt that failed": "UA:2 a d! d BA:1 a d! d! d b",
    "an attempt that makes nothing": "UA:2 BA:3 a d/4 d/1 b",
}

DAY = "UA:2 BA:1 a ra w b rb (LH:2 UA:1! BA:3~1 a/1 a w LH) UA:1? a b ra rb s w Ra Rb"
"""Log of both hops: UA1 UA2 BA1 | BA3 | BA4 | LH1 LH2 UA4. Rolled back: UA3, BA2. Batches of a: 1-3, 4, 5, 6-8; of b: 1-3, 4-8."""

LAST_HOP_ONLY, BOTH = ("b",), ("a", "b")

Tampering = Callable[[Sketch], Any]


def change(path: str, number: int, **changes: Any) -> Tampering:
    """Changes the n-th (from 0) fact of a list such as `a.log` or `reads`."""

    def tamper(sketch: Sketch) -> None:
        facts = list_of(sketch, path)
        facts[number] = replace(facts[number], **changes)

    return tamper


def drop(path: str, number: int) -> Tampering:
    return lambda sketch: list_of(sketch, path).pop(number)


def add(path: str, fact: Any) -> Tampering:
    return lambda sketch: list_of(sketch, path).append(fact)


def list_of(sketch: Sketch, path: str) -> list[Any]:
    target: Any = sketch
    for name in path.split("."):
        target = getattr(target, name)
    return target


def no_reads(sketch: Sketch) -> None:
    sketch.reads.clear()


def all_of(*tamperings: Tampering) -> Tampering:
    return lambda sketch: [tampering(sketch) for tampering in tamperings]


def swap(hops: tuple[str, ...], first: int, second: int) -> Tampering:
    """Two messages change places in the logs, and nobody had read them."""

    def tamper(sketch: Sketch) -> None:
        no_reads(sketch)
        for hop in hops:
            log = list_of(sketch, f"{hop}.log")
            one, other = log[first - 1], log[second - 1]
            log[first - 1], log[second - 1] = replace(other, log_position=first), replace(one, log_position=second)
            if "a" in hops:  # the first log's positions are the indexes
                log[first - 1], log[second - 1] = replace(log[first - 1], index=first), replace(log[second - 1], index=second)

    return tamper


def put(hops: tuple[str, ...], log_position: int, payload: str, *, index: int | None = None) -> Tampering:
    """Another message stands at a position of the logs, and nobody had read them."""

    def tamper(sketch: Sketch) -> None:
        no_reads(sketch)
        for hop in hops:
            log = list_of(sketch, f"{hop}.log")
            log[log_position - 1] = replace(
                log[log_position - 1], message=message_of(payload, epoch=0), index=index or log_position
            )

    return tamper


def cut_log(hops: tuple[str, ...], length: int) -> Tampering:
    """The logs end early: rows, published position and nothing else."""

    def tamper(sketch: Sketch) -> None:
        no_reads(sketch)
        for hop in hops:
            moved: Moved = getattr(sketch, hop)
            del moved.log[length:]

    return tamper


def change_message(path: str, number: int, **changes: Any) -> Tampering:
    """One field of a row's message."""

    def tamper(sketch: Sketch) -> None:
        no_reads(sketch)
        facts = list_of(sketch, path)
        facts[number] = replace(facts[number], message=replace(facts[number].message, **changes))

    return tamper


def crossed_indexes(sketch: Sketch) -> None:
    """The second hop gives indexes anew instead of carrying them."""
    for row in sketch.outbox:
        sketch.outbox[sketch.outbox.index(row)] = replace(row, index=row.seq + 100)
    for log, carried in ((sketch.a.log, True), (sketch.b.log, False)):
        for number, row in enumerate(log):
            sent = next(one for one in sketch.outbox if one.message.message_id == row.message.message_id)
            log[number] = replace(row, message=sent.message, index=sent.seq + 100 if carried else row.index)


def read_of(after: int, *log_positions: int, **changes: Any) -> Read:
    """A read of the day's first log."""
    day = Sketch(DAY).a.log
    messages = tuple((p, day[p - 1].message.message_id, day[p - 1].message.payload or "") for p in log_positions)
    return replace(Read("reader of a/1", "a/1", after, 1000, messages), **changes)


BAD: dict[str, tuple[Tampering, set[str]]] = {
    # what arrived
    "an acknowledged message is in no log": (
        cut_log(BOTH, 7), {"orphaned_hops", "dense_positions", "batch_content"},
    ),
    "an acknowledged message left the store before any batch": (
        all_of(lambda s: s.transactions.append(replace(s.transactions[0], number=9, messages=(Tried("UA9", 0),), acknowledged=6))),
        {"lost", "conserved"},
    ),
    "the last hop dropped one": (cut_log(LAST_HOP_ONLY, 7), {"orphaned_hops", "dense_positions", "batch_content"}),
    "the last hop dropped an acknowledged one": (
        cut_log(LAST_HOP_ONLY, 6), {"lost", "orphaned_hops", "dense_positions", "batch_content"},
    ),
    "a message that nobody sent": (put(BOTH, 8, "XX1"), {"invented", "orphaned_hops", "batch_content"}),
    "a message that nobody sent, at the second hop": (put(LAST_HOP_ONLY, 8, "XX1"), {"invented", "orphaned_hops", "batch_content"}),
    "a reader saw what nobody sent": (
        add("reads", read_of(8, messages=((9, "id of XX1", "XX1"),))), {"invented", "disagreement"},
    ),
    "a rolled-back message was delivered": (put(BOTH, 8, "UA3"), {"aborted_read", "orphaned_hops", "batch_content"}),
    "a message undone to a savepoint was delivered": (put(BOTH, 8, "BA2"), {"aborted_read", "orphaned_hops", "batch_content"}),
    "a reader saw a rolled-back message for a moment": (
        change("reads", 0, messages=(*read_of(0, 1, 2).messages, (3, "id of UA3", "UA3"))), {"aborted_read", "disagreement"},
    ),
    "one message twice": (put(BOTH, 8, "LH2"), {"doubled", "orphaned_hops", "batch_content"}),
    "one message twice at the second hop": (put(LAST_HOP_ONLY, 8, "LH2", index=7), {"doubled", "orphaned_hops", "batch_content"}),
    "one payload twice under two ids": (
        change_message("b.log", 7, payload="LH2"), {"doubled", "altered", },
    ),
    "twice at the end, published": (
        all_of(add("a.log", LogRow(9, 9, message_of("UA1", epoch=0))), lambda s: setattr(s.a, "published", 9)),
        {"doubled", "unfinished", "one_batch_each"},
    ),
    # equality
    "a message of a topic that no route has is gone": (
        add("transactions", Transaction("QF", 99, "shop", "another", (Tried("QF1", 0, undone=False),), "ok", 99)),
        {"conserved"},
    ),
    "a payload changed on the second hop": (change_message("b.log", 3, payload="BA3 "), {"altered", "lost", "invented"}),
    "headers changed": (change_message("a.log", 3, headers='{"n": 2}'), {"altered"}),
    "headers dropped": (change_message("b.log", 3, headers=None), {"altered"}),
    "a key appeared": (change_message("b.log", 0, key="k"), {"altered"}),
    "another sender's name": (change_message("b.log", 0, sender="LH"), {"altered"}),
    "another epoch": (change_message("b.log", 0, epoch=2), {"altered"}),
    "another time of sending": (change_message("a.log", 0, sent_at="one o'clock"), {"altered"}),
    "another index than the first log's position": (change("a.log", 4, index=9), {"altered"}),
    "an index given anew by the second hop": (crossed_indexes, {"altered"}),
    # the stream
    "a batch that no stream decided on": (lambda s: setattr(s.b, "decided", [1]), {"undecided"}),
    "a batch decided on twice": (lambda s: setattr(s.a, "decided", [1, 2, 2, 3]), {"undecided"}),
    "a log position without a stream position": (lambda s: setattr(s.a, "stream_positions", [(n, n) for n in range(1, 8)]), {"stream"}),
    "a log position at two stream positions": (lambda s: setattr(s.b, "stream_positions", [*((n, n) for n in range(1, 9)), (9, 8)]), {"stream"}),
    "a stream position filled twice": (lambda s: setattr(s.b, "stream_positions", [*((n, n) for n in range(1, 9)), (8, 8)]), {"stream"}),
    "positions delivered the other way round": (
        lambda s: setattr(s.a, "stream_positions", [(1, 2), (2, 1), *((n, n) for n in range(3, 9))]), {"stream"},
    ),
    # positions and order
    "a missing position": (
        all_of(no_reads, drop("b.log", 7)), {"dense_positions", "orphaned_hops", "batch_content"},
    ),
    "a hole with everything behind it moved up": (
        all_of(no_reads, change("b.log", 7, log_position=9, index=8)), {"dense_positions", "batch_content"},
    ),
    "more rows than published": (lambda s: setattr(s.b, "published", 7), {"unfinished", "dense_positions", "false_settled"}),
    "neighbours that nothing orders change places after planning": (swap(BOTH, 5, 6), {"batch_content"}),
    "cause and effect change places": (swap(BOTH, 2, 3), {"order", "batch_content"}),
    "over a batch border": (swap(BOTH, 3, 4), {"order", "batch_content"}),
    "the second hop changes the order": (swap(LAST_HOP_ONLY, 5, 6), {"log_order", "batch_content"}),
    "the second hop turns cause and effect round": (swap(LAST_HOP_ONLY, 3, 4), {"log_order", "order", "batch_content"}),
    "one transaction's messages turned round": (swap(BOTH, 6, 7), {"transaction_order", "batch_content"}),
    "an unknown one before what it had seen": (swap(BOTH, 5, 8), {"order", "batch_content"}),
    # the ledger
    "a batch is missing": (
        all_of(drop("a.batches", 1), drop("a.arrivals", 1), drop("a.receipts", 1), drop("a.confirmations", 1)),
        {"batch_chain", "one_batch_each"},
    ),
    "two batches of one pair overlap": (
        change("a.batches", 2, reads_after=0), {"batch_chain", "one_batch_each", "batch_content"},
    ),
    "a row in no batch: upper forgot a commit": (
        change("a.batches", 3, upper="12:16:12"), {"one_batch_each", "batch_content"},
    ),
    "time ran backwards between two batches": (
        change("a.batches", 3, lower="10:11:"), {"batch_chain", "one_batch_each", "batch_content"},
    ),
    "lower taken later than upper: an open one is skipped": (
        change("a.batches", 3, lower="16:16:"), {"one_batch_each", "batch_content"},
    ),
    "a batch that claims another count": (change("a.batches", 3, row_count=4), {"batch_chain", "arrivals"}),
    "positions of two batches overlap": (
        all_of(change("a.batches", 1, first_position=3), change("a.arrivals", 1, first_position=3)), {"batch_chain", "batch_content"},
    ),
    "the second hop skips a position": (
        change("b.batches", 1, reads_after=4), {"batch_chain", "one_batch_each", "batch_content"},
    ),
    "the second hop reads a position twice": (
        change("b.batches", 1, reads_after=2), {"batch_chain", "one_batch_each", "batch_content"},
    ),
    "another topic than the hop's": (change("a.batches", 1, topics=("u",)), {"one_batch_each", "batch_content"}),
    "a row with a transaction number of the past": (
        add("outbox", OutboxRow(99, 10, None, message_of("LH9"))), {"one_batch_each", "orphaned_hops"},
    ),
    "a row that no snapshot sees yet": (
        add("outbox", OutboxRow(99, 16, None, message_of("LH9"))), {"one_batch_each", "orphaned_hops"},
    ),
    "an arrival without a plan": (
        lambda s: s.a.arrivals.append(replace(s.a.arrivals[-1], batch=5, first_position=9, last_position=9)), {"arrivals"},
    ),
    "an arrival of another plan": (change("a.arrivals", 2, plan_id="another"), {"arrivals"}),
    "a slice without a receipt": (drop("b.receipts", 0), {"arrivals"}),
    "a receipt of fewer rows": (change("b.receipts", 0, row_count=2), {"arrivals"}),
    # what consumers saw
    "a reader passed over a position": (add("reads", read_of(2, 4, 5, consumer="another")), {"poll_skip"}),
    "a reader got a position late": (change("reads", 0, messages=read_of(0, 1, 3).messages), {"poll_skip"}),
    "a reader got positions out of order": (add("reads", read_of(0, 1, 3, 2, 4, 5, 6, 7, 8)), {"poll_skip"}),
    "a reader got what it had already": (add("reads", read_of(5, 5, 6, 7, 8)), {"poll_skip"}),
    "a reader finds less than before": (add("reads", read_of(0, 1, 2)), {"nonmonotonic_poll"}),
    "a reader finds nothing any more": (add("reads", read_of(0)), {"nonmonotonic_poll"}),
    "a reader saw another order": (
        change("reads", 0, messages=((1, "id of UA2", "UA2"), (2, "id of UA1", "UA1"), *read_of(0, 3).messages)), {"disagreement"},
    ),
    "two readers disagree": (
        add("reads", read_of(7, consumer="another", messages=((8, "id of LH2", "LH2"),))), {"disagreement"},
    ),
    "a reader saw what was published and then gone": (
        add("reads", read_of(8, consumer="another", messages=((9, "id of LH2", "LH2"),))), {"disagreement"},
    ),
    "a published batch changed in place": (
        all_of(
            change("b.log", 0, message=message_of("UA2", epoch=0), index=2),
            change("b.log", 1, message=message_of("UA1", epoch=0), index=1),
        ),
        {"disagreement", "log_order", "transaction_order", "batch_content"},
    ),
    # confirmations
    "received before it arrived": (change("observations", 0, published=0), {"false_received"}),
    "received one position too far": (change("observations", 0, received=4), {"false_received"}),
    "received for a batch that never came": (
        add("a.confirmations", ConfirmationRow("shop", "received", 9, 5)), {"false_received", "unfinished"},
    ),
    "settled on received, though the policy is cascade": (
        add("observations", Observation("watcher", "a/1", 8, 8, 8, 3)), {"false_settled"},
    ),
    "settled before received": (
        all_of(change("observations", 4, settled=8, received=5, settled_there=8)), {"false_settled"},
    ),
    "settled in the end, though nothing below is": (
        lambda s: setattr(s.b, "confirmations", [row for row in s.b.confirmations if row.state == "received"]),
        {"false_settled", "confirmation_taken_back"},
    ),
    "received taken back": (add("observations", Observation("watcher", "a/1", 5, 5, 8, 8)), {"confirmation_taken_back"}),
    "settled gone in the end": (drop("a.confirmations", 4), {"confirmation_taken_back"}),
    "the origin was told what nobody said": (
        add("b.confirmations", ConfirmationRow("shop", "settled", 9, 3)), {"false_hearsay"},
    ),
    "the last batch was never confirmed": (
        all_of(drop("a.confirmations", 4), drop("a.confirmations", 3), lambda s: s.observations.clear()), {"unfinished"},
    ),
    "planned and never published": (
        all_of(no_reads, drop("b.arrivals", 1), cut_log(LAST_HOP_ONLY, 3), lambda s: setattr(s.b, "published", 3),
               lambda s: setattr(s.b, "confirmations", s.b.confirmations[:1]), drop("a.confirmations", 4),
               lambda s: s.observations.clear()),
        {"lost", "orphaned_hops", "batch_content", "arrivals", "unfinished"},
    ),
}  # fmt: skip


DERIVED_DAY = "UA:2 BA:1 a d/2 d (LH:2 BA:3~1 a LH) a d! d b"
"""Derived: of UA1, UA2 | of BA1 | attempt 3 failed | of BA4, and two of LH2; none of BA3 and LH1."""


def change_header(number: int, **changes: object) -> Tampering:
    """Of a derived message: what it says of its cause."""

    def tamper(sketch: Sketch) -> None:
        message = sketch.derived[number].message
        told = json.loads(message.headers or "")["derived_from"] | changes
        sketch.derived[number] = replace(
            sketch.derived[number], message=replace(message, headers=json.dumps({"derived_from": told}))
        )

    return tamper


def swap_derived(first: int, second: int) -> Tampering:
    def tamper(sketch: Sketch) -> None:
        rows = sketch.derived
        one, other = rows[first].message, rows[second].message
        rows[first], rows[second] = replace(rows[first], message=other), replace(rows[second], message=one)

    return tamper


BAD_DERIVED: dict[str, tuple[Tampering, set[str]]] = {
    "a message that was to be derived is missing": (drop("derived", 4), {"derived_lost", "derived_attempts"}),
    "a message that was to be derived is missing, and not counted": (
        all_of(drop("derived", 5), change("attempts", 3, derived_count=2, last_seq=5)), {"derived_lost"},
    ),
    "stream positions of no attempt": (
        change("attempts", 3, stream_positions=(4, 5, 7)), {"derived_lost"},
    ),
    "an attempt that nobody has": (
        all_of(drop("attempts", 1), drop("derived", 2)), {"derived_lost", "derived_attempts"},
    ),
    "acknowledged beyond what was derived": (
        all_of(drop("attempts", 3), lambda s: s.derived.__delitem__(slice(3, None))), {"derived_lost"},
    ),
    "acknowledged less than was derived": (lambda s: setattr(s, "acknowledged", 3), {"derived_lost"}),
    "two attempts from one message": (
        change("attempts", 1, stream_positions=(2, 3)), {"derived_doubled"},
    ),
    "a failed attempt has published too": (
        change("attempts", 2, state="published", derived_count=3, first_seq=4, last_seq=6), {"derived_doubled"},
    ),
    "a derived message twice": (
        lambda s: s.derived.append(replace(s.derived[5], seq=7)), {"derived_doubled"},
    ),
    "a derived message twice under two ids": (
        lambda s: s.derived.append(replace(s.derived[5], seq=7, message=replace(s.derived[5].message, message_id="other"))),
        {"derived_doubled", "derived_otherwise"},
    ),
    "two of one cause stand the other way round": (swap_derived(4, 5), {"derived_order"}),
    "two of one attempt stand the other way round": (swap_derived(0, 1), {"derived_order"}),
    "a payload that the function does not make": (change_message("derived", 0, payload="3 of UA1"), {"derived_otherwise"}),
    "a key that the cause has not": (change_message("derived", 0, key="k"), {"derived_otherwise"}),
    "a cause of another attempt": (change_header(2, stream_position=1), {"derived_otherwise", "derived_attempts"}),
    "a cause of the same attempt that is another one": (change_header(0, stream_position=2), {"derived_otherwise"}),
    "another version than its attempt's": (change_header(0, version=2), {"derived_otherwise"}),
    "a message of an application under the sender of the derivation": (
        add("derived", OutboxRow(9, 99, None, replace(message_of("XX1"), sender="delays"))),
        {"derived_otherwise"},
    ),
    "an attempt is open": (
        lambda s: s.attempts.append(replace(s.attempts[2], attempt=5, state="open")), {"derived_attempts"},
    ),
    "an attempt without a record": (drop("attempts", 2), {"derived_attempts"}),
    "an attempt that says another count": (change("attempts", 3, derived_count=4), {"derived_attempts"}),
    "an attempt that was sent in two transactions": (change("derived", 4, xid=77), {"derived_attempts"}),
}  # fmt: skip


@pytest.mark.parametrize(("tampering", "expected"), BAD_DERIVED.values(), ids=BAD_DERIVED)
def test_bad_derivation(tampering: Tampering, expected: set[str]) -> None:
    """A day with one thing wrong in what was derived."""
    sketch = Sketch(DERIVED_DAY)
    assert check(*sketch.build()) == []
    tampering(sketch)
    violations = check(*sketch.build())
    assert {violation.invariant for violation in violations} == expected
    assert all(any(character.isdigit() for character in str(violation)) for violation in violations)


@pytest.mark.parametrize("script", GOOD.values(), ids=GOOD)
def test_good_history(script: str) -> None:
    """A history in which everything held has no violation."""
    assert check(*Sketch(script).build()) == []


@pytest.mark.parametrize(("tampering", "expected"), BAD.values(), ids=BAD)
def test_bad_history(tampering: Tampering, expected: set[str]) -> None:
    """A day with one thing wrong: exactly the invariants that it breaks are named, with numbers."""
    sketch = Sketch(DAY)
    tampering(sketch)
    violations = check(*sketch.build())
    assert {violation.invariant for violation in violations} == expected
    assert all(any(character.isdigit() for character in str(violation)) for violation in violations)


@pytest.mark.parametrize(("settled", "acknowledged", "seen", "expected"), [
    (8, 8, 8, set()), (3, 3, 3, set()), (8, 7, 8, {"false_settled"}), (3, 8, 2, {"false_settled"}),
])  # fmt: skip
def test_nothing_is_settled_beyond_an_acknowledgement(settled: int, acknowledged: int, seen: int, expected: set[str]) -> None:
    """Where the policy names subscriptions: not at the end, and not at the moment of a look."""
    sketch = Sketch("UA:3 a b BA:5 a b w")
    sketch.b.confirmations.append(ConfirmationRow("hub", "settled", settled, 2 if settled == 8 else 1))
    sketch.observations.append(Observation("watcher", "a/2", 8, settled, 8, seen))
    history, stores = sketch.build()
    last = replace(stores.hop("a/2"), policy="processed", processed_by=("billing",), acknowledged=acknowledged)
    stores = replace(stores, hops=(stores.hop("a/1"), last))
    assert {violation.invariant for violation in check(history, stores)} == expected
    assert unsettled(stores) == ["a/1 is settled through 0 of 8", f"a/2 is settled through {settled} of 8"][: 1 + (settled < 8)]


def test_every_invariant_is_broken_by_some_history() -> None:
    """An invariant that no history breaks would be one that cannot fail."""
    assert set().union(*(expected for _, expected in [*BAD.values(), *BAD_DERIVED.values()])) == set(INVARIANTS)
    assert len(BAD) >= 40
    assert len(GOOD) >= 20


def test_only_chosen_invariants_are_decided() -> None:
    """A caller may ask for a few."""
    sketch = Sketch(DAY)
    cut_log(BOTH, 6)(sketch)
    assert {violation.invariant for violation in check(*sketch.build(), invariants=["lost"])} == {"lost"}


def test_reliability_is_counted_per_hop_and_multiplies() -> None:
    """One of 8 messages lost by the second hop, another doubled: R = 7/8, UR = 7/8, and so for the route."""
    sketch = Sketch(DAY)
    put(LAST_HOP_ONLY, 8, "LH2", index=7)(sketch)
    measured = {one.hop: (one.r, one.ur) for one in reliability(sketch.build()[1])}
    assert measured == {"a/1": (1.0, 1.0), "a/2": (7 / 8, 7 / 8), "a": (7 / 8, 7 / 8)}


def test_history_of_a_killed_client_is_read(tmp_path) -> None:
    """A torn last line is left out; a COMMIT without an answer is unknown, one never sent too."""
    log = ClientLog(tmp_path, "UA")
    details = {"store": "shop", "topic": "t", "undone": False}
    log.write("invoke", "insert", transaction=1, payloads=["UA1"], after=0, **details)
    log.write("invoke", "commit", transaction=1)
    log.write("ok", "commit", transaction=1, acknowledged=1)
    log.write("invoke", "insert", transaction=2, payloads=["UA2"], after=1, **details)
    log.write("invoke", "insert", transaction=2, payloads=["UA3"], after=1, **{**details, "undone": True})
    log.write("invoke", "commit", transaction=2)
    log.close()
    with (tmp_path / "UA.jsonl").open("a") as file:
        file.write('{"client":"UA","event":"ok","oper')
    first, second = read_history(tmp_path).transactions
    assert (first.outcome, first.acknowledged, first.kept) == ("ok", 1, (Tried("UA1", 0),))
    assert (second.outcome, second.acknowledged, second.kept) == ("info", None, (Tried("UA2", 1),))
