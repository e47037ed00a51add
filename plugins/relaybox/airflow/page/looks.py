"""Looks at all stores, one after the other: a store that is late keeps back its own rows, and no look waits for it."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from relaybox.errors import StoreUnreachable
from relaybox.monitoring.overview import Overview, StoreLook, overview_of, start_overview
from relaybox.monitoring.status import HopStatus, hop_status
from relaybox.monitoring.store_readings import StoreReading
from relaybox.stores.parallel_reads.deadlines import Inquiry, current_inquiry

if TYPE_CHECKING:
    from relaybox.errors import RelayboxError
    from relaybox.routes import Hop, Routes, Store
    from relaybox.stores.parallel_reads.exchange import ParallelRead

    OneReading = ParallelRead[StoreReading[StoreLook]]

LATE_SECONDS = (1.0, 5.0)
"""A store is never late before the first, and always after the second."""

LATE_TIMES = 10.0
"""In between, a store is late when it takes this many times longer than the slowest of the others: on a loaded machine all are slow."""


@dataclass(frozen=True)
class Look:
    """What all stores said, and how they are reached.

    Attributes:
        parameters: of libpq, by service.
        silent: stores that did not answer, or not yet, by service: they are not waited for again.
        late: names of stores that are still asked: their rows are from an earlier look.
        measured_at: when the stores were asked for each hop, by the process's clock.
    """

    overview: Overview
    parameters: Mapping[str, Mapping[str, str]]
    silent: Mapping[str, RelayboxError]
    late: frozenset[str]
    measured_at: Mapping[str, float]

    def inquiry(self, seconds: float) -> Inquiry:
        """For further questions: stores that were silent are not waited for again."""
        return Inquiry(self.parameters, seconds, dict(self.silent))

    def touches_late_store(self, hop: Hop) -> bool:
        return not self.late.isdisjoint((hop.source.name, hop.destination.name))


class Looks:
    """Keeps the newest rows of each hop and of each store."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._asked: set[str] = set()
        self._hops: dict[str, tuple[float, HopStatus]] = {}
        self._stores: dict[str, tuple[float, StoreReading[StoreLook]]] = {}

    def look(self, routes: Routes) -> Look:
        """Asks all stores but those that an earlier look still asks. Works for an inquiry, whose parameters lead to the stores.

        What a late store says is taken over when it comes; the next look shows it.
        """
        with self._lock:
            asked = frozenset(store for store in routes.stores.values() if store.name not in self._asked)
            self._asked |= {store.name for store in asked}
        late: frozenset[Store] = frozenset()
        try:
            late = self._ask(routes, asked)
        finally:
            self._asked_no_more(asked - late)
        return self._newest(routes)

    def _ask(self, routes: Routes, asked: Collection[Store]) -> frozenset[Store]:
        """Takes over what stores say, and leaves the late ones, which it returns, to a thread."""
        began = time.monotonic()
        readings = start_overview(routes, asked)
        least, most = LATE_SECONDS
        late = readings.wait_for_prompt(least_seconds=least, most_seconds=most, times=LATE_TIMES)
        self._take(routes, readings, began, but=late)
        if late:
            rest = (routes, readings, began, late)
            threading.Thread(target=self._take_rest, args=rest, name="relaybox-look-rest", daemon=True).start()
        return late

    def _take_rest(self, routes: Routes, readings: OneReading, began: float, late: frozenset[Store]) -> None:
        try:
            readings.wait()
            self._take(routes, readings, began)
        finally:
            self._asked_no_more(late)

    def _asked_no_more(self, stores: Collection[Store]) -> None:
        with self._lock:
            self._asked -= {store.name for store in stores}

    def _take(self, routes: Routes, readings: OneReading, began: float, *, but: Collection[Store] = ()) -> None:
        """Takes over what stores said, and the hops of which all was said, unless a later look knew them before."""
        ended = readings.answers.keys()
        said = {store: reading for store, reading in readings.so_far.items() if store not in but}
        with self._lock:
            for store, reading in said.items():
                self._keep_store(store, reading, began)
            for hop in routes.hops:
                if hop.source not in said or hop.destination not in said:
                    continue
                if hop.name in said[hop.source].continued or {hop.source, hop.destination} <= ended:
                    self._keep_hop(hop, hop_status(hop, said[hop.source], said[hop.destination]), began)

    def _keep_store(self, store: Store, reading: StoreReading[StoreLook], began: float) -> None:
        if began >= self._stores.get(store.name, (began, None))[0]:
            self._stores[store.name] = began, reading

    def _keep_hop(self, hop: Hop, status: HopStatus, began: float) -> None:
        if began >= self._hops.get(hop.name, (began, None))[0]:
            self._hops[hop.name] = began, status

    def _newest(self, routes: Routes) -> Look:
        inquiry = current_inquiry()
        assert inquiry is not None  # noqa: S101  # a look is started with one
        with self._lock:
            late, hops, stores = frozenset(self._asked), dict(self._hops), dict(self._stores)
        said = {
            store.name: stores[store.name][1] if store.name in stores else _no_word(store) for store in routes.stores.values()
        }
        shown = {
            hop.name: hops[hop.name][1]
            if hop.name in hops and hops[hop.name][1].hop == hop
            else _unknown(hop, said[hop.source.name], said[hop.destination.name])
            for hop in routes.hops
        }
        return Look(
            overview=overview_of(routes, shown, said),
            parameters=inquiry.parameters,
            silent={
                store.service: error
                for store in routes.stores.values()
                if isinstance(error := said[store.name].error, StoreUnreachable)
            },
            late=late,
            measured_at={hop: began for hop, (began, _) in hops.items()},
        )


def _no_word(store: Store) -> StoreReading[StoreLook]:
    return StoreReading.failed(StoreUnreachable(f"store {store.name}: it has not answered yet."))


def _unknown(hop: Hop, source: StoreReading[StoreLook], destination: StoreReading[StoreLook]) -> HopStatus:
    """Of a hop that no look has read yet. What two looks read of its ends is never put together: it could look like lost history."""
    return hop_status(hop, source.without_hops(), destination.without_hops())
