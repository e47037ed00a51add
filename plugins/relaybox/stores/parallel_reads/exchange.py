"""Stores read side by side, each by a thread and in a session of its own; what one needs to know of another, they tell each other.

In an inquiry each store has its seconds, and they run only while it is to answer: a store that waits for what another one says is not
late, and a store that is late keeps waiting only those who need its word.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from relaybox import errors
from relaybox.stores.parallel_reads.deadlines import CUT_GRACE_SECONDS, Inquiry, current_inquiry, start_asking

if TYPE_CHECKING:
    from relaybox.routes import Store

Key = tuple[str, str]
"""What is told: of which kind, and of which hop."""

LONGEST_READING = 4
"""Times the seconds of a store: what it tells waits for others, and they for it, up to three times."""

_Answer = TypeVar("_Answer")


class _Board:
    """What was told so far; `changed` guards it, and everything that a reader counts."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.told: dict[Key, Any] = {}

    def tell(self, told: Mapping[Key, Any]) -> None:
        with self.changed:
            self.told = {**told, **self.told}
            self.changed.notify_all()


class StoreReader(Generic[_Answer]):
    """The part of one store, for the thread that reads it."""

    def __init__(self, board: _Board, owed: Iterable[Key]) -> None:
        self._board = board
        self._owed = tuple(owed)
        self._used_seconds = 0.0
        self._working_since: float | None = time.monotonic()
        self._waits_for: dict[Key, None] = {}
        self.so_far: _Answer | None = None
        """What the thread has read, as far as it is complete; a reader gets it whole."""

    def tell(self, told: Mapping[Key, Any]) -> None:
        """Tells the others, all at one moment: who waits for several hears them together. What a store owes and does not tell is None."""
        self._board.tell(told)

    def hear(self, keys: Collection[Key]) -> Iterator[list[tuple[Key, Any]]]:
        """What others tell of these keys, each once, as it comes; several that came meanwhile at once."""
        self._waits_for = dict.fromkeys(keys)
        while self._waits_for:
            with self._board.changed:
                self._rest()
                self._board.changed.wait_for(lambda: self.is_working)
                self._working_since = time.monotonic()
                ready = [(key, self._board.told[key]) for key in self._waits_for if key in self._board.told]
                for key, _ in ready:
                    del self._waits_for[key]
            yield ready

    @property
    def is_working(self) -> bool:
        """Whether its store is to answer, also if its thread has not heard yet what it waits for; under the board's lock."""
        return self._working_since is not None or not self._waits_for.keys().isdisjoint(self._board.told)

    @property
    def seconds(self) -> float:
        """How long its store has taken so far; under the board's lock."""
        return self._used_seconds + (0.0 if self._working_since is None else time.monotonic() - self._working_since)

    def end(self) -> None:
        """Tells the others that no more will come."""
        with self._board.changed:
            self._rest()
        self.tell(dict.fromkeys(self._owed))

    def _rest(self) -> None:
        self._used_seconds, self._working_since = self.seconds, None
        self._board.changed.notify_all()


class ParallelRead(Generic[_Answer]):
    """One reading of several stores, which begins when this is made.

    Args:
        stores: each is read once.
        read: called in a thread of the store's own; catches what a store's answer may be.
        owed: what a store has to tell the others.
        otherwise: what stands for the answer of a store that was late.
    """

    def __init__(
        self,
        stores: Iterable[Store],
        read: Callable[[Store, StoreReader[_Answer]], _Answer],
        *,
        owed: Callable[[Store], Iterable[Key]],
        otherwise: Callable[[errors.RelayboxError], _Answer],
    ) -> None:
        self._board = _Board()
        self._otherwise = otherwise
        self._answers: dict[Store, Future[_Answer]] = {store: Future() for store in stores}
        self._readers: dict[Store, StoreReader[_Answer]] = {
            store: StoreReader(self._board, owed(store)) for store in self._answers
        }
        inquiry = current_inquiry()
        parts = {} if inquiry is None else {store: inquiry.of_one_store(times=LONGEST_READING) for store in self._answers}
        for store, reader in self._readers.items():
            asked = start_asking(parts.get(store), partial(read, store, reader), name=f"ask-{store.name}")
            asked.add_done_callback(partial(self._end, store))
        if parts:
            threading.Thread(target=self._watch, args=(parts,), name="relaybox-look-watch", daemon=True).start()

    @property
    def answers(self) -> Mapping[Store, _Answer]:
        """Of the stores that have answered, or will not."""
        return {store: answer.result() for store, answer in self._answers.items() if answer.done()}

    @property
    def so_far(self) -> Mapping[Store, _Answer]:
        """These, and what the others have said until now."""
        said = {store: reader.so_far for store, reader in self._readers.items() if reader.so_far is not None}
        return {**said, **self.answers}

    @property
    def unfinished(self) -> tuple[Store, ...]:
        return tuple(store for store, answer in self._answers.items() if not answer.done())

    def wait(self) -> None:
        """Waits for all. What a thread raised that was no answer, `answers` raises."""
        with self._board.changed:
            self._board.changed.wait_for(lambda: not self.unfinished)

    def wait_for_prompt(self, *, least_seconds: float, most_seconds: float, times: float) -> frozenset[Store]:
        """Waits for all but the late ones, and returns these. Of the others, each has answered or waits for what another store says.

        Args:
            least_seconds: no store is late before.
            most_seconds: every store is late after.
            times: in between, a store is late if it takes this many times longer than the slowest of the others.
        """
        with self._board.changed:
            while working := frozenset(store for store in self.unfinished if self._readers[store].is_working):
                seconds_of_store = {store: reader.seconds for store, reader in self._readers.items()}
                others = [seconds for store, seconds in seconds_of_store.items() if store not in working]
                limit = min(most_seconds, max(least_seconds, times * max(others, default=most_seconds)))
                left = limit - min(seconds_of_store[store] for store in working)
                if left <= 0:
                    return working
                self._board.changed.wait(left)
        return frozenset()

    def _end(self, store: Store, answer: Future[_Answer]) -> None:
        """The first answer of a store counts."""
        with self._board.changed:
            kept = self._answers[store]
            if kept.done():
                return
            if (error := answer.exception()) is not None:
                kept.set_exception(error)
            else:
                kept.set_result(answer.result())
        self._readers[store].end()

    def _watch(self, parts: dict[Store, Inquiry]) -> None:
        """Cuts the sessions of a store whose seconds are over; then its thread has a moment to say what it knows."""
        cut: set[Store] = set()
        while waiting := self.unfinished:
            for store in waiting:
                over = self._seconds_over(store, parts[store])
                if over >= 0 and store not in cut:
                    cut.add(store)
                    parts[store].silent[store.service] = parts[store].late(store.service)
                    parts[store].end()
                elif over >= CUT_GRACE_SECONDS:
                    late: Future[_Answer] = Future()
                    late.set_result(self._otherwise(parts[store].silent[store.service]))
                    self._end(store, late)
            with self._board.changed:
                nearest = min((-self._seconds_over(store, parts[store]) for store in self.unfinished), default=0.0)
                self._board.changed.wait(nearest if nearest > 0 else CUT_GRACE_SECONDS / 4)

    def _seconds_over(self, store: Store, part: Inquiry) -> float:
        """How long ago a store's seconds were over; negative: they are not, and are not running while it waits for others."""
        with self._board.changed:
            reader = self._readers[store]
            return reader.seconds - part.seconds if reader.is_working else -part.seconds
