"""Producers in concurrent transactions: what commits is not in the order of what was inserted, and some of it never commits."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

Draw = Callable[[st.SearchStrategy[Any]], Any]

SEND = """
insert into relaybox.outbox (topic, sender, epoch, index, payload, clock)
values ('flights', %s, %s, coalesce(%s, case when %s then relaybox.next_index(%s) end), %s, %s) returning index
"""


@dataclass
class Producer:
    """A sender at the origin. `kind`: assigned, gapless (numbers its messages itself), counter (next_index), sparse.

    `is_declared` false: it sends indexes all the same; `declare` may come later, or never.
    """

    name: str
    kind: str
    epoch: int = 1
    index: int = 0
    unsent: list[int] = field(default_factory=list)
    is_declared: bool = True


@dataclass
class Transaction:
    """An application's session, with what it has inserted since its last commit."""

    connection: Any
    open: list[tuple[Producer, int, int]] = field(default_factory=list)


class Producers:
    """Up to five senders in three sessions. `committed`: sender -> its newest committed (epoch, index)."""

    def __init__(self, connections: list[Any], draw: Draw, order: str) -> None:
        self._draw, self._order = draw, order
        self._transactions = [Transaction(connection) for connection in connections]
        kinds = {"fifo": ("gapless", "counter", "assigned"), "causal": ("gapless", "counter")}.get(
            order, ("gapless", "counter", "sparse", "assigned")
        )
        self._producers = [Producer(name, draw(st.sampled_from(kinds))) for name in "ABCDE"[: draw(st.integers(1, 5))]]
        self.committed: dict[str, tuple[int, int]] = {}
        self.committed_count = 0
        for producer in self._producers:
            producer.is_declared = producer.kind != "gapless" or draw(st.sampled_from((True, True, False)))
            if producer.kind != "assigned" and producer.is_declared:
                self._declare(producer)

    def send(self) -> None:
        """One message in some transaction; that of a counter always in the same one, or it would wait for the other's end."""
        number = self._draw(st.integers(0, len(self._producers) - 1))
        producer = self._producers[number]
        transaction = self._transactions[
            number % len(self._transactions) if producer.kind == "counter" else self._draw(st.integers(0, 2))
        ]
        index = self._index(producer)
        payload = f"{producer.name} {producer.epoch}.{index}{self._draw(st.sampled_from(('',) * 12 + (' other',)))}"
        ((given,),) = self._execute(
            transaction,
            SEND,
            producer.name,
            producer.epoch,
            index,
            producer.kind == "counter",
            producer.name,
            payload,
            self._clock(producer),
        )
        transaction.open.append((producer, producer.epoch, given or 0))

    def end(self) -> None:
        """Some transaction commits, or rolls back; what it took back is sent later, or never."""
        transaction = self._draw(st.sampled_from(self._transactions))
        if self._draw(st.sampled_from((True, True, False))):
            self._commit(transaction)
            return
        transaction.connection.rollback()
        for producer, epoch, index in transaction.open:
            if producer.kind == "gapless" and epoch == producer.epoch and self._draw(st.sampled_from((True, True, True, False))):
                producer.unsent.append(index)
        transaction.open.clear()

    def declare(self) -> None:
        """A sender that sends indexes already is declared now."""
        if late := [producer for producer in self._producers if not producer.is_declared]:
            self._declare(self._draw(st.sampled_from(late)))

    def _declare(self, producer: Producer) -> None:
        producer.is_declared = True
        kind = "sparse" if producer.kind == "sparse" else "gapless"
        transaction = self._transactions[0]
        self._commit(transaction)
        self._execute(transaction, "select relaybox.declare_sender(%s, %s)", producer.name, kind)
        transaction.connection.commit()

    def begin_epoch(self) -> None:
        """A sender that numbers its messages lost its counter. With nothing of it in flight, which would wait for its row."""
        producer = self._draw(st.sampled_from(self._producers))
        if producer.kind in {"gapless", "sparse"} and producer.is_declared:
            transaction = self._transactions[0]
            self._commit(transaction)
            ((producer.epoch,),) = self._execute(transaction, "select relaybox.new_epoch(%s)", producer.name)
            producer.index = 0
            producer.unsent.clear()
            transaction.connection.commit()

    def finish(self) -> None:
        for transaction in self._transactions:
            self._commit(transaction)

    def _index(self, producer: Producer) -> int | None:
        if producer.kind == "sparse":
            return self._draw(st.sampled_from((*range(1, 12), 4096, 4097, 10**9)))
        if producer.kind != "gapless":
            return None
        again = self._draw(st.integers(0, 9))
        if again == 5 and producer.index:
            return self._draw(st.integers(1, producer.index))
        if producer.unsent and again > 2:
            return producer.unsent.pop(self._draw(st.integers(0, len(producer.unsent) - 1)))
        producer.index += 1
        return producer.index

    def _clock(self, producer: Producer) -> str | None:
        """What the sender may have had delivered: some of the others' committed messages; rarely what nobody has sent so far."""
        if self._order != "causal":
            return None
        others = sorted(name for name in self.committed if name != producer.name)
        heard = {name: self.committed[name] for name in others if self._draw(st.booleans())}
        if self._draw(st.integers(0, 19)) == 7:
            heard[self._draw(st.sampled_from([name for name in ("nobody", "E", "C") if name != producer.name]))] = (1, 1)
        return json.dumps(heard)

    def _commit(self, transaction: Transaction) -> None:
        transaction.connection.commit()
        self.committed_count += len(transaction.open)
        for producer, epoch, index in transaction.open:
            if index:
                self.committed[producer.name] = max((epoch, index), self.committed.get(producer.name, (0, 0)))
        transaction.open.clear()

    def _execute(self, transaction: Transaction, statement: str, *arguments: Any) -> list[tuple[Any, ...]]:
        with transaction.connection.cursor() as cursor:
            cursor.execute(statement, arguments)
            return list(cursor.fetchall())
