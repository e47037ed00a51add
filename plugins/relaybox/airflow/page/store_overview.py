"""What the stores say, for the user of one request: only of hops whose DAG the user may read.

The stores are asked in the background, for all users at once. Requests wait for that with a deadline, and in no thread of Airflow's.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import TypeVar

from fastapi import HTTPException
from sqlalchemy.exc import SQLAlchemyError

from relaybox.airflow.deployment import read_routes, route_file
from relaybox.airflow.naming import derive_dag_id, export_dag_id
from relaybox.airflow.page.derivations import VisibleDerivations, derivations_seen_by
from relaybox.airflow.page.kept_answers import AgedAnswer, KeptAnswer
from relaybox.airflow.page.last_runs import LastRun, read_last_runs
from relaybox.airflow.page.looks import Look, Looks
from relaybox.airflow.page.paused_dags import read_paused_dags
from relaybox.airflow.page.permissions import Rights
from relaybox.airflow.page.store_parameters import read_store_parameters
from relaybox.airflow.page.store_reports import (
    EXAMINERS,
    FIRST_REPORT_SECONDS,
    REPORT_SECONDS,
    STORE_SECONDS,
    VisibleReports,
    reports_seen_by,
)
from relaybox.airflow.page.streams import AllStreams, StoreStreams, VisibleStreams, arrival_stores, read_store_streams
from relaybox.airflow.page.threads import answered, in_page_thread
from relaybox.airflow.page.turns import without_turn
from relaybox.airflow.page.visible import VisibleOverview, see
from relaybox.errors import RelayboxError, StoreUnreachable
from relaybox.monitoring.doctor.examination import StoreReport, examine_stores
from relaybox.monitoring.hop_history import HopFlow, read_flow
from relaybox.monitoring.metrics import Sample, read_metrics_of
from relaybox.monitoring.overview import Overview
from relaybox.routes import Hop, Route, Routes, Store
from relaybox.stores.parallel_reads.deadlines import Inquiry, current_inquiry, start_asking

LOOK_SECONDS = 10.0
"""For each store to answer in a look; what takes longer is shown as silent."""

ASK_SECONDS = 6.0
"""For what one request asks: its way through the queue, and all answers."""

FIRST_STREAMS_SECONDS = 2.0
"""So long a page waits for a store that has not said yet what its streams hold back; then it shows the others."""

ASKERS = 8
KEPT_FLOWS = 200

_Answer = TypeVar("_Answer")


class StoreOverview:
    """Asks the stores for all users of this process."""

    def __init__(self) -> None:
        self._file: tuple[tuple[object, ...], Routes] | None = None
        self._askers = ThreadPoolExecutor(ASKERS, thread_name_prefix="relaybox-asker")
        self._look = KeptAnswer(self._start_look)
        self._looks = Looks()
        self._streams: dict[Store, KeptAnswer[StoreStreams | RelayboxError]] = {}
        self._metrics: dict[Store, KeptAnswer[tuple[Sample, ...] | None]] = {}
        self._examiners = ThreadPoolExecutor(EXAMINERS, thread_name_prefix="relaybox-examiner")
        self._reports: dict[Store, KeptAnswer[StoreReport]] = {}
        self._paused = KeptAnswer(lambda: self._askers.submit(read_paused_dags))
        self._last_runs = KeptAnswer(lambda: self._askers.submit(self._ask_last_runs))
        self._flows: dict[tuple[Hop, timedelta, str | None], KeptAnswer[HopFlow]] = {}
        self._flows_lock = threading.Lock()
        self._newest: Look | None = None

    async def routes(self) -> Routes:
        """The routes of this deployment: a changed relaybox.yaml needs no restart."""
        known = self._file
        if known is not None and known[0] == _version(route_file()):
            return known[1]
        return await in_page_thread(self.read_routes)

    def read_routes(self) -> Routes:
        """The same, for threads that may read a file."""
        path = route_file()
        version = _version(path)
        if self._file is None or self._file[0] != version:
            self._file = version, read_routes()
        return self._file[1]

    async def overview(self, rights: Rights) -> VisibleOverview:
        """What all stores say, at most two seconds old unless the next look is late."""
        look = await self._look.get()
        return await in_page_thread(see, look.answer.overview, rights, measured_at=look.answer.measured_at)

    async def metrics(self) -> tuple[Overview, dict[str, tuple[Sample, ...]]]:
        """What all stores say of the hops and of themselves, for every user; a store that does not answer is missing."""
        look = (await self._look.get()).answer
        stores = tuple((await self.routes()).stores.values())
        async with without_turn():
            answers = await asyncio.gather(*map(self._metrics_of, stores))
        said = zip(stores, answers, strict=True)
        return look.overview, {store.name: samples for store, samples in said if samples is not None}

    async def _metrics_of(self, store: Store) -> tuple[Sample, ...] | None:
        """None: the store did not answer, or not in time."""
        kept = self._metrics.setdefault(store, KeptAnswer(lambda: self._submit(lambda: read_metrics_of(store))))
        try:
            return (await kept.get(first_seconds=FIRST_STREAMS_SECONDS)).answer
        except HTTPException:
            return None

    async def streams(self, rights: Rights) -> VisibleStreams:
        """What streams hold back, who reads them, and what was set aside."""
        return await in_page_thread((await self._all_streams()).seen_by, rights)

    async def derivations(self, rights: Rights) -> VisibleDerivations:
        """How far derivations and exports are, and what Airflow says of their DAGs."""
        streams, paused, last_runs = await self._all_streams(), await self.paused_dags(), await self._read_last_runs()
        return await in_page_thread(derivations_seen_by, rights, streams, paused, last_runs)

    async def _all_streams(self) -> AllStreams:
        await self._look.get()
        routes = await self.routes()
        stores = arrival_stores(routes.routes.values())
        async with without_turn():
            answers = await asyncio.gather(*map(self._streams_of, stores))
        return AllStreams.of(routes, dict(zip(stores, answers, strict=True)))

    async def _streams_of(self, store: Store) -> StoreStreams | RelayboxError:
        """An error: the store was not read, or not in time; the others are shown."""
        kept = self._streams.setdefault(
            store, KeptAnswer(lambda: self._submit(lambda: read_store_streams(self.read_routes(), store)))
        )
        try:
            return (await kept.get(first_seconds=FIRST_STREAMS_SECONDS)).answer
        except HTTPException:
            return StoreUnreachable(f"store {store.name}: no answer yet.")

    async def reports(self, rights: Rights) -> VisibleReports:
        """What doctor finds in the stores, not older than a minute unless a store is late."""
        await self._look.get()
        routes = await self.routes()
        stores = tuple(routes.stores.values())
        async with without_turn():
            answers = await asyncio.gather(*map(self._report_of, stores))
        return await in_page_thread(reports_seen_by, rights, routes, dict(zip(stores, answers, strict=True)))

    async def _report_of(self, store: Store) -> AgedAnswer[StoreReport] | None:
        """None: the store is examined for the first time, and not in time; the others are shown."""
        kept = self._reports.setdefault(store, KeptAnswer(lambda: self._start_examination(store), kept_seconds=REPORT_SECONDS))
        try:
            return await kept.get(first_seconds=FIRST_REPORT_SECONDS)
        except HTTPException:
            return None

    def _start_examination(self, store: Store) -> Future[StoreReport]:
        def examine() -> StoreReport:
            (report,) = examine_stores([store], self.read_routes())
            return report

        inquiry = Inquiry(self._parameters(), STORE_SECONDS)
        return self._examiners.submit(lambda: inquiry.of_one_store(times=2).answer(examine))

    async def flow(self, hop: Hop, *, window: timedelta, moved_by: str | None = None) -> HopFlow:
        """A hop over time."""
        await self._look.get()
        return await self._flow(hop, window, moved_by)

    async def flows(self, hops: Sequence[Hop], *, window: timedelta) -> list[HopFlow | None]:
        """Several hops over time; None for one that touches a store that is late: the others don't wait for it."""
        look = (await self._look.get()).answer
        async with without_turn():
            return await asyncio.gather(*(self._prompt_flow(look, hop, window) for hop in hops))

    async def _prompt_flow(self, look: Look, hop: Hop, window: timedelta) -> HopFlow | None:
        return None if look.touches_late_store(hop) else await self._flow(hop, window, None)

    async def _flow(self, hop: Hop, window: timedelta, moved_by: str | None) -> HopFlow:
        key = (hop, window, moved_by)
        with self._flows_lock:
            if key not in self._flows and len(self._flows) >= KEPT_FLOWS:
                self._flows.pop(next(iter(self._flows)))
            kept = self._flows.setdefault(
                key, KeptAnswer(lambda: self._submit(lambda: read_flow(hop, window=window, moved_by=moved_by)))
            )
        return (await kept.get()).answer

    async def ask(self, question: Callable[[], _Answer]) -> _Answer:
        """The answer of stores to what one request asks.

        Raises:
            HTTPException: 503, it did not come in time. Its sessions are cut.
        """
        await self._look.get()
        inquiry = self._inquiry()
        try:
            return await answered(self._submit(question, inquiry), ASK_SECONDS)
        finally:
            inquiry.end()

    async def paused_dags(self) -> Mapping[str, bool]:
        """Whether each DAG of Relaybox is paused; one that Airflow does not know is missing, and all while its database is late."""
        try:
            return (await self._paused.get()).answer
        except (HTTPException, SQLAlchemyError):
            return {}  # the page shows the stores also while Airflow's database has a bad moment: whether a DAG is paused is unknown

    async def _read_last_runs(self) -> Mapping[str, LastRun]:
        """The newest run of each derivation and export; all are missing while Airflow's database is late."""
        try:
            return (await self._last_runs.get()).answer
        except (HTTPException, SQLAlchemyError):
            return {}  # the page shows the stores all the same

    def _ask_last_runs(self) -> dict[str, LastRun]:
        routes = self.read_routes()
        derived = [derive_dag_id(route) for route in routes.routes.values() if route.derivation is not None]
        return read_last_runs([*derived, *map(export_dag_id, routes.exports.values())])

    async def readable_routes(self, rights: Rights) -> tuple[Route, ...]:
        """The routes all of whose hops the user may read: a message's way is shown whole or not at all."""
        routes = await self.routes()
        return await in_page_thread(
            lambda: tuple(route for route in routes.routes.values() if all(rights.may_read(hop) for hop in route.hops))
        )

    def forget_paused(self) -> None:
        """Called when a user paused or unpaused a DAG."""
        self._paused.forget()

    def forget(self) -> None:
        """Everything is asked for anew: something was changed."""
        with self._flows_lock:
            self._flows.clear()
        for kept in self._streams.values():
            kept.forget()
        for report in self._reports.values():
            report.forget()
        for metrics in self._metrics.values():
            metrics.forget()
        self._looks = Looks()
        self._look.forget()
        self._paused.forget()
        self._last_runs.forget()

    def _start_look(self) -> Future[Look]:
        return start_asking(Inquiry({}, LOOK_SECONDS), self._look_at_stores, name="look")

    def _look_at_stores(self) -> Look:
        routes = self.read_routes()
        inquiry = current_inquiry()
        assert inquiry is not None  # noqa: S101  # it was started with one
        inquiry.parameters = read_store_parameters(tuple(routes.stores.values()))
        self._newest = self._looks.look(routes)
        return self._newest

    def _inquiry(self) -> Inquiry:
        assert self._newest is not None  # noqa: S101  # a look is waited for before anything else is asked
        return self._newest.inquiry(ASK_SECONDS)

    def _parameters(self) -> Mapping[str, Mapping[str, str]]:
        assert self._newest is not None  # noqa: S101  # a look is waited for before anything else is asked
        return self._newest.parameters

    def _submit(self, question: Callable[[], _Answer], inquiry: Inquiry | None = None) -> Future[_Answer]:
        working_for = inquiry or self._inquiry()
        return self._askers.submit(working_for.answer, question)


def _version(path: Path) -> tuple[object, ...]:
    """What changes whenever a file is written or replaced."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return (path,)
    return path, found.st_mtime_ns, found.st_size, found.st_ino
