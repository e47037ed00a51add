"""The demo's four producers: processes of the airline that make the flights of a year happen again, side by side.

Each carrier belongs to one producer, which writes its flights in the order of departure, one transaction after the other.
So a carrier's messages have one right order, and the last store must show it.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import reduce
from multiprocessing.connection import Connection as Link
from operator import add
from random import Random
from types import TracebackType
from typing import Self

from relaybox.errors import StoreFailed
from relaybox.local.demo.airline import Tally, Transaction, carry_out, open_engine, plan_transactions
from relaybox.local.demo.flights import Row, read_flights

CARRIERS: Mapping[str, tuple[str, ...]] = {
    "producer 1": ("UA", "9E", "VX"),
    "producer 2": ("B6", "US", "WN"),
    "producer 3": ("EV", "MQ", "FL"),
    "producer 4": ("DL", "AA", "AS", "F9", "YV", "HA"),
}
"""About 84,000 flights each."""
LATE_CARRIER = "OO"
"""SkyWest's 32 flights of the year are one transaction that commits last."""

YEAR = (datetime(2013, 1, 1, tzinfo=UTC), datetime(2014, 1, 1, 5, tzinfo=UTC))
NICENESS = 10
"""On a small machine the application must not take the processor from what the demo is about."""
REPORT_SECONDS = 0.2
STOP_SECONDS = 5.0


@dataclass(frozen=True)
class Job:
    """What one producer does: the flights of its carriers in `seconds`, into the database behind `service`."""

    name: str
    carriers: tuple[str, ...]
    service: str
    seconds: float
    seed: int


@dataclass(frozen=True)
class Report:
    """How far a producer is. The first one says that it is ready."""

    tally: Tally
    done: bool = False


def jobs(service: str, *, seconds: float, seed: int) -> list[Job]:
    """The four producers of the demo."""
    return [Job(name, carriers, service, seconds, seed + number) for number, (name, carriers) in enumerate(CARRIERS.items())]


class Producers:
    """The processes of some jobs. Leaving the block ends those that still run, and rolls back what they had open."""

    def __init__(self, jobs: Sequence[Job]) -> None:
        context = multiprocessing.get_context("spawn")
        self._reports: dict[str, Report | None] = {job.name: None for job in jobs}
        self._links: dict[Link, str] = {}
        self._processes = []
        for job in jobs:
            link, theirs = context.Pipe()
            self._links[link] = job.name
            process = context.Process(target=produce, args=(job, theirs), name=job.name, daemon=True)
            self._processes.append((process, theirs))

    def __enter__(self) -> Self:
        """Starts the processes; they read their flights and wait for begin()."""
        with ExitStack() as on_failure:
            on_failure.push(self.__exit__)
            for process, theirs in self._processes:
                process.start()
                theirs.close()  # so that the end of the process is the end of the link
            on_failure.pop_all()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        for link in self._links:
            link.close()
        for process, _ in self._processes:
            if process.pid is not None:
                process.terminate()
                process.join(STOP_SECONDS)

    def begin(self) -> None:
        """Lets the year begin, for all producers at the same moment."""
        for link in self._links:
            link.send(time.time())

    def read_reports(self, *, timeout_seconds: float) -> None:
        """Takes in what the producers report; returns at the first news or after the timeout.

        Raises:
            StoreFailed: a producer ended before it was done; its own output says why.
        """
        heard = multiprocessing.connection.wait(self._links, timeout_seconds)
        for link, name in tuple(self._links.items()):
            if link in heard:
                self._reports[name] = _read_report(link, name)
                if self._done(name):
                    link.close()
                    del self._links[link]

    @property
    def ready(self) -> bool:
        return None not in self._reports.values()

    @property
    def done(self) -> bool:
        return all(map(self._done, self._reports))

    @property
    def tally(self) -> Tally:
        """What all producers did, as they recorded it."""
        return reduce(add, (report.tally for report in self._reports.values() if report), Tally())

    def _done(self, name: str) -> bool:
        report = self._reports[name]
        return report is not None and report.done


def _read_report(link: Link, name: str) -> Report:
    try:
        report: Report = link.recv()
    except EOFError:
        raise StoreFailed(f"{name} ended before it was done.", next_step="Its error is printed above.") from None
    return report


def produce(job: Job, link: Link) -> None:
    """The life of one producer process: read the flights, wait for the word, write them, tell how far it is.

    Ends at once when the process that started it is gone.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole terminal: the demo decides what ends, and when
    os.nice(NICENESS)
    flights = read_flights(job.carriers)
    tally = Tally()
    with suppress(EOFError, ConnectionError):  # the other end has gone
        link.send(Report(tally))
        _write_year(job, flights, tally, link, began_at=link.recv())
        link.send(Report(tally, done=True))


def _write_year(job: Job, flights: Sequence[Row], tally: Tally, link: Link, *, began_at: float) -> None:
    reported_at = began_at
    with open_engine(job.service, f"airline {job.name}").connect() as connection:
        for transaction in plan_transactions(flights, Random(job.seed)):  # noqa: S311  # the same year in every demo
            _wait_until(began_at + job.seconds * _time_of_year(transaction))
            carry_out(connection, transaction)
            tally.enter(transaction)
            if time.time() - reported_at > REPORT_SECONDS:
                reported_at = time.time()
                link.send(Report(tally))


def _time_of_year(transaction: Transaction) -> float:
    """When its first flight departs: 0 is the begin of the year, 1 its end."""
    begin, end = YEAR
    departure = datetime.fromisoformat([*transaction.flights, *transaction.after_savepoint][0]["scheduled_at"])
    return (departure - begin) / (end - begin)


def _wait_until(moment: float) -> None:
    delay = moment - time.time()
    if delay > 0:
        time.sleep(delay)
