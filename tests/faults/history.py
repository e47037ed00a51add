"""What clients did and saw, in their own words: append-only JSON lines, one file per client, read back into dataclasses.

A line is on disk before its client goes on, so a killed client leaves everything that it had done. `invoke` is written before
a call, then `ok`, `fail` (surely without effect) or `info` (nobody knows). A call without an answer counts as `info`.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any


class ClientLog:
    """The history of one client. Only its own thread writes to it."""

    def __init__(self, directory: Path, client: str) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._descriptor = os.open(directory / f"{client}.jsonl", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self._client = client

    def write(self, event: str, operation: str, **details: object) -> None:
        """Appends one event and returns when it is on disk. event: invoke | ok | fail | info."""
        line = {"client": self._client, "event": event, "operation": operation, "at": time.monotonic(), **details}
        os.write(self._descriptor, json.dumps(line, separators=(",", ":")).encode() + b"\n")
        os.fdatasync(self._descriptor)

    def close(self) -> None:
        os.close(self._descriptor)


class Acknowledgements:
    """Counts the commits that were answered, over all producers of a process.

    A message notes the count at the time of its insert: everything acknowledged up to it had committed before. That is the
    whole order that G5 promises to keep, without a clock.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._count = 0

    @property
    def count(self) -> int:
        return self._count

    def give(self) -> int:
        """The number of a commit that has just been answered: 1, 2, 3 ..."""
        with self._lock:
            self._count += 1
            return self._count


@dataclass(frozen=True)
class Tried:
    """A message that a producer inserted. `undone`: rolled back to a savepoint before it."""

    payload: str
    after: int
    undone: bool = False


@dataclass(frozen=True)
class Transaction:
    """A producer's transaction and its outcome: ok (acknowledged as number `acknowledged`) | fail | info.

    G5 holds among the messages of one `order_group` (tests.faults.adopted.Target).
    """

    sender: str
    number: int
    store: str
    topic: str
    messages: tuple[Tried, ...]
    outcome: str
    acknowledged: int | None = None
    order_group: str = "outbox"

    @property
    def kept(self) -> tuple[Tried, ...]:
        """The messages that exist if the transaction committed."""
        return tuple(message for message in self.messages if not message.undone)


@dataclass(frozen=True)
class Read:
    """One answered read of a hop's log: at most `at_most` messages after a position, as (position, message id, payload)."""

    consumer: str
    hop: str
    after: int
    at_most: int
    messages: tuple[tuple[int, str, str], ...]


@dataclass(frozen=True)
class Observation:
    """What a watcher saw of a hop: confirmations at its source first, then the facts they speak of.

    Positions of the hop's log: confirmed `received` and `settled` at the source, then `published` at the destination and
    `settled_there`: through where the policy held further down, or all subscriptions that it names had acknowledged.
    """

    watcher: str
    hop: str
    received: int
    settled: int
    published: int
    settled_there: int


@dataclass(frozen=True)
class History:
    """Everything that all clients did. Transactions by sender and number; reads and observations in each client's order."""

    transactions: tuple[Transaction, ...] = ()
    reads: tuple[Read, ...] = ()
    observations: tuple[Observation, ...] = ()

    def messages(self, *outcomes: str) -> Iterator[tuple[Transaction, Tried]]:
        """Messages that exist if their transaction committed, of transactions with one of these outcomes."""
        return ((one, message) for one in self.transactions if one.outcome in outcomes for message in one.kept)


def read_history(directory: Path) -> History:
    """Reads the files of all clients in a directory. Raises ValueError for a broken line, except a torn last one."""
    transactions: dict[tuple[str, int], Transaction] = {}
    reads: list[Read] = []
    observations: list[Observation] = []
    for path in sorted(directory.glob("*.jsonl")):
        for line in _lines(path):
            match line["operation"]:
                case "read":
                    messages = tuple(
                        (log_position, message_id, payload) for log_position, message_id, payload in line["messages"]
                    )
                    reads.append(Read(line["client"], line["hop"], line["after"], line["at_most"], messages))
                case "watch":
                    observations.append(Observation(line["client"], **{name: line[name] for name in _WATCHED}))
                case _:
                    key = (line["client"], line["transaction"])
                    transactions[key] = _continued(transactions.get(key), line)
    return History(tuple(transactions.values()), tuple(reads), tuple(observations))


_WATCHED = ("hop", "received", "settled", "published", "settled_there")


def _lines(path: Path) -> Iterable[dict[str, Any]]:
    *whole, torn = path.read_text(encoding="utf-8").split("\n")
    del torn  # empty, or the line that its client died over: the call after it was never made
    return [json.loads(line) for line in whole]


def _continued(known: Transaction | None, line: dict[str, Any]) -> Transaction:
    """The transaction after one more event of its producer."""
    if line["operation"] == "insert":
        tried = tuple(Tried(payload, line["after"], line["undone"]) for payload in line["payloads"])
        before = known.messages if known else ()
        return Transaction(
            line["client"], line["transaction"], line["store"], line["topic"], before + tried, "info",
            order_group=line.get("order_group", "outbox"),
        )  # fmt: skip
    if known is None:
        raise ValueError(f"transaction {line['transaction']} of {line['client']} ends without an insert: {line}")
    outcome = "info" if line["event"] == "invoke" else line["event"]
    return replace(known, outcome=outcome, acknowledged=line.get("acknowledged"))
