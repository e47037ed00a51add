"""What each store says of the hops that leave it and arrive there: all side by side, each in one session. Reads only.

Hop by hop the order is such that two healthy stores never look as if one had lost history.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Generic, TypeVar

from relaybox import errors
from relaybox.hops.continuity import HistoryGap, PublishedEnd, find_gaps_of_hops
from relaybox.monitoring.store_answers import (
    ReceivingState,
    SendingState,
    StoreAnswer,
    StreamState,
    ask_sending,
    known_hops,
    read_receiving,
    read_streams,
)
from relaybox.stores.opening import one_session
from relaybox.stores.parallel_reads.exchange import ParallelRead, StoreReader

if TYPE_CHECKING:
    from relaybox.routes import Hop, Routes, Store
    from relaybox.stores.sessions.store_session import StoreSession

_Seen = TypeVar("_Seen")


@dataclass(frozen=True)
class StoreReading(Generic[_Seen]):
    """What one store said in one reading.

    Attributes:
        sending, receiving: of hops that leave it, and that arrive there.
        continuing: where the ledger of a hop that leaves it is not one history with that of its other end.
        continued: hops that leave it and of which that was compared: nothing more will be said of them.
        seen: what else was looked at in the same session; None: the store failed before.
    """

    sending: StoreAnswer[SendingState]
    receiving: StoreAnswer[ReceivingState] = field(default_factory=lambda: StoreAnswer({}))
    continuing: StoreAnswer[HistoryGap] = field(default_factory=lambda: StoreAnswer({}))
    continued: frozenset[str] = frozenset()
    seen: _Seen | None = None

    @property
    def error(self) -> errors.RelayboxError | None:
        return self.sending.error or self.receiving.error or self.continuing.error

    def without_hops(self) -> StoreReading[_Seen]:
        """The same without what it said of hops."""
        error = self.error
        return replace(
            self, sending=StoreAnswer({}, error=error), receiving=StoreAnswer({}, error=error), continuing=StoreAnswer({})
        )

    @classmethod
    def failed(cls, error: errors.RelayboxError) -> StoreReading[_Seen]:
        """Of a store that could not be asked."""
        return cls(sending=StoreAnswer({}, error=error), receiving=StoreAnswer({}, error=error))


def start_reading(
    routes: Routes, stores: Iterable[Store], look: Callable[[Store], _Seen | None]
) -> ParallelRead[StoreReading[_Seen]]:
    """Asks these stores, side by side, how far the hops between them are.

    The source of a hop is asked before its destination, so that a batch confirmed there is published here; and once more after it, so
    that a batch published there is planned here. Else history was lost.

    Args:
        routes: what relaybox.yaml says.
        stores: those to ask.
        look: what else to ask a store in the same session, by store_session().
    """
    asked = tuple(stores)
    hops = [hop for hop in routes.hops if hop.source in asked and hop.destination in asked]
    return ParallelRead(
        asked,
        partial(_read_store, routes=routes, hops=hops, look=look),
        owed=lambda store: (
            *(("confirmed", hop.name) for hop in hops if hop.source == store),
            *(("published", hop.name) for hop in hops if hop.destination == store),
        ),
        otherwise=StoreReading.failed,
    )


def _read_store(
    store: Store,
    reader: StoreReader[StoreReading[_Seen]],
    *,
    routes: Routes,
    hops: Sequence[Hop],
    look: Callable[[Store], _Seen | None],
) -> StoreReading[_Seen]:
    part = _StorePart(store, hops, reader)
    try:
        with one_session(store, "reading how far its hops are", application_name="relaybox status") as session:
            part.read_sending(session, routes)
            part.look(look)
            part.read_others(session)
    except errors.RelayboxError as error:
        return part.failed(error)  # shown in the rows of this store's hops; the others are not its business
    return part.said


class _StorePart(Generic[_Seen]):
    """What is asked of one store, and what it has said so far."""

    def __init__(self, store: Store, hops: Sequence[Hop], reader: StoreReader[StoreReading[_Seen]]) -> None:
        self._store, self._reader = store, reader
        self._leaving = {hop.name: hop for hop in hops if hop.source == store}
        self._arriving = {hop.name: hop for hop in hops if hop.destination == store}
        self._arrived: dict[str, ReceivingState | None] = {}
        self._streams: dict[str, StreamState] = {}
        self._gaps: dict[str, HistoryGap] = {}
        self._continued: set[str] = set()
        self.said: StoreReading[_Seen] = StoreReading(StoreAnswer({}))

    def read_sending(self, session: StoreSession, routes: Routes) -> None:
        """How far the hops are that leave it; tells their destinations what is confirmed."""
        sending = ask_sending(session, self._store, routes=routes)
        self.said = StoreReading(sending)
        states = {name: sending.states.get(name) for name in self._leaving}
        self._reader.tell({("confirmed", name): state and state.received_batch for name, state in states.items()})

    def look(self, look: Callable[[Store], _Seen | None]) -> None:
        self._reader.so_far = self.said = replace(self.said, seen=look(self._store))

    def read_others(self, session: StoreSession) -> None:
        """What needs to know of other stores, as they tell it."""
        waiting = [*(("confirmed", name) for name in self._arriving), *(("published", name) for name in self._leaving)]
        for heard in self._reader.hear(waiting):
            confirmed = {name: told or 0 for (what, name), told in heard if what == "confirmed"}
            self._read_arrivals(session, confirmed)
            self._compare(session, {name: told for (what, name), told in heard if what == "published"})
            self._reader.so_far = self.said = self._extended()
            self._reader.tell({("published", name): self._arrived[name] for name in confirmed})

    def failed(self, error: errors.RelayboxError) -> StoreReading[_Seen]:
        """What it had said before its session failed, with the error where something is missing."""
        if self._reader.so_far is None:
            return StoreReading.failed(error)
        said = self._extended()
        if self._arrived.keys() != self._arriving.keys():
            said = replace(said, receiving=replace(said.receiving, error=error))
        return replace(said, continuing=replace(said.continuing, error=error))

    def _extended(self) -> StoreReading[_Seen]:
        receiving = replace(known_hops(self._arrived, self._store), streams=dict(self._streams))
        continued = frozenset(self._continued)
        return replace(self.said, receiving=receiving, continuing=StoreAnswer(dict(self._gaps)), continued=continued)

    def _read_arrivals(self, session: StoreSession, confirmed: Mapping[str, int]) -> None:
        if confirmed:
            self._arrived.update(read_receiving(session, confirmed))
            self._streams.update(read_streams(session, list(confirmed)))

    def _compare(self, session: StoreSession, published: Mapping[str, ReceivingState | None]) -> None:
        self._continued.update(published)
        ends = [(self._leaving[name], _published_end(state)) for name, state in published.items() if state is not None]
        if ends:
            self._gaps.update(find_gaps_of_hops(session, ends))


def _published_end(state: ReceivingState) -> PublishedEnd:
    return PublishedEnd(
        generation=state.generation,
        batch=state.published_batch,
        plan_id=state.published_plan_id,
        copied_plan_ids=tuple(state.copied_plan_ids),
        store_id=state.store_id,
        source_id=state.source_id,
    )
