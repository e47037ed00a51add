"""Drivers of a hop in processes of their own, so that they can be killed, stopped and woken without the tests."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from multiprocessing.connection import Connection as Pipe
from multiprocessing.context import ForkServerContext
from pathlib import Path

from relaybox import errors
from relaybox.hops.confirmations import settle_hop
from relaybox.hops.runners import ThreadRunner
from relaybox.hops.transfer import transfer_hop
from relaybox.recovery.attesting import attest_store
from relaybox.recovery.reanchoring import reanchor_hop
from relaybox.routes import Route, Store, load_routes
from relaybox.stores.sessions import settings as session_settings
from tests.faults.adopted import run_command
from tests.support.patience import patience
from tests.support.world import wait_until

IDLE_IN_TRANSACTION_SECONDS = 1
LOCK_TIMEOUT_SECONDS = 2
"""How long the drivers of these tests wait for each other; a minute and ten seconds outside of tests."""

THREADS = 2
LINGER_SECONDS = 0.1
"""Under constant load: a pause of the messages that is long enough to settle what has arrived."""


@dataclass(frozen=True)
class Mission:
    """What a driver does: transfer the hop until it is empty, then settle it; before that the repair, if there is one.

    Attributes:
        routes: the relaybox.yaml.
        services: its libpq service file.
        hop: the name of the hop.
        derives: the route whose messages are derived; then no hop is transferred. Empty: none.
        fails_first: the function of the derivation fails for its first attempt.
        repair: reanchor (the hop), attest (the hop's source), or nothing.
        adoption: a command of tests.faults.adopted at the store `airline`; then no hop is transferred. Empty: none.
        at_most_seconds: ends the transfer then even if messages keep coming; 0: never.
    """

    routes: Path
    services: Path
    hop: str
    repair: str = ""
    at_most_seconds: float = 0.0
    derives: str = ""
    fails_first: bool = False
    adoption: str = ""


@dataclass(frozen=True)
class Outcome:
    """How a driver ended: what it moved, or the error it raised."""

    batch_count: int = 0
    resumed_count: int = 0
    error: str = ""
    is_transient: bool = False

    @property
    def may_be_retried(self) -> bool:
        """No error, or one that the orchestrator answers with another attempt."""
        return not self.error or self.is_transient


@dataclass(frozen=True)
class Hit:
    """The failpoint was reached, in this process, and the action follows."""

    failpoint: str
    pid: int


class AttemptOwner:
    """A driver in a process of its own, with faults at failpoints."""

    def __init__(self, mission: Mission, failpoints: str, directory: Path) -> None:
        """Starts at once.

        Args:
            mission: what to do.
            failpoints: as in RELAYBOX_FAILPOINTS.
            directory: where the hits are written and where paused failpoints are released; one for each driver.
        """
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self._outcome: Outcome | None = None
        self._pipe, theirs = multiprocessing.Pipe(duplex=False)
        environment = {
            "RELAYBOX_ENVIRONMENT": "test",
            "RELAYBOX_FAILPOINTS": failpoints,
            "RELAYBOX_FAILPOINTS_DIRECTORY": str(directory),
        }
        self._process = _forkserver().Process(target=_drive_and_report, args=(mission, environment, theirs), daemon=True)
        self._process.start()
        theirs.close()
        assert self._process.pid is not None
        self.pid = self._process.pid

    @property
    def is_alive(self) -> bool:
        return self._process.is_alive()

    def hits(self) -> list[Hit]:
        try:
            lines = (self._directory / "hits.jsonl").read_text(encoding="utf-8").splitlines()
        except FileNotFoundError:
            return []
        return [Hit(hit["failpoint"], hit["pid"]) for hit in map(json.loads, lines)]

    def wait_for_hit(self) -> bool:
        """Waits for a hit; false when the driver ended without one."""
        wait_until(lambda: self.hits() or not self.is_alive, f"a hit of driver {self.pid}")
        return bool(self.hits())

    def wait_until_stopped(self) -> None:
        """Until SIGSTOP took hold of all of it."""
        wait_until(lambda: _state(self.pid) in {"T", "Z", ""}, f"driver {self.pid} is stopped")

    def release(self, failpoint: str) -> None:
        """Lets a paused driver go on."""
        (self._directory / f"{failpoint}.go").touch()

    def signal(self, number: signal.Signals) -> None:
        if self.is_alive:
            os.kill(self.pid, number)

    def outcome(self, deadline_seconds: float = 60.0) -> Outcome | None:
        """How it ended; None when it was killed. Waits for the end; may be asked again."""
        self._process.join(patience(deadline_seconds))
        assert not self.is_alive, f"driver {self.pid} did not end within {deadline_seconds} s"
        with suppress(EOFError):  # it was killed, and its end of the pipe with it
            if self._pipe.poll():
                self._outcome = self._pipe.recv()
        return self._outcome

    def end(self) -> None:
        """Kills what is left of it."""
        self.signal(signal.SIGKILL)
        self._process.join()
        self._pipe.close()
        self._process.close()


@contextmanager
def driver(mission: Mission, failpoints: str, directory: Path) -> Iterator[AttemptOwner]:
    """A driver that is gone afterwards."""
    running = AttemptOwner(mission, failpoints, directory)
    try:
        yield running
    finally:
        running.end()


def drive(mission: Mission) -> Outcome:
    """Carries out a mission in this process; an error of ours becomes part of the outcome."""
    routes = load_routes(mission.routes)
    if mission.derives:
        return _derive(mission, routes.route(mission.derives))
    if mission.adoption:
        return _adopt(mission, routes.stores["airline"])
    hop, name = routes.hop(mission.hop), f"driver {os.getpid()}"
    try:
        with patient_for_seconds():
            if mission.repair == "reanchor":
                reanchor_hop(hop, routes, recorded_by=name, reason="a fault was tested", dry_run=False)
            elif mission.repair == "attest":
                attest_store(hop.source, routes, recorded_by=name, reason="a fault was tested")
            with ThreadRunner(THREADS) as runner:
                summary = transfer_hop(
                    hop,
                    runner,
                    recorded_by=name,
                    linger_seconds=LINGER_SECONDS if mission.at_most_seconds else 0.0,
                    linger_at_most_seconds=mission.at_most_seconds,
                )
            settle_hop(routes.route(hop.route), hop, recorded_by=name)
    except errors.RelayboxError as error:
        return Outcome(error=f"{type(error).__name__}: {error}", is_transient=isinstance(error, errors.Transient))
    return Outcome(summary.batch_count, summary.resumed_count)


def _derive(mission: Mission, route: Route) -> Outcome:
    from tests.faults.derivation_driver import drive_derivation  # with Spark's and Arrow's packages

    try:
        with patient_for_seconds():
            return Outcome(drive_derivation(route, fails_first=mission.fails_first).attempts)
    except errors.RelayboxError as error:
        return Outcome(error=f"{type(error).__name__}: {error}", is_transient=isinstance(error, errors.Transient))


def _adopt(mission: Mission, store: Store) -> Outcome:
    try:
        with patient_for_seconds():
            run_command(mission.adoption, store)
    except errors.RelayboxError as error:
        return Outcome(error=f"{type(error).__name__}: {error}", is_transient=isinstance(error, errors.Transient))
    return Outcome()


@contextmanager
def patient_for_seconds() -> Iterator[None]:
    """Sessions opened meanwhile wait for locks, and may idle in a transaction, for seconds only."""
    usual = session_settings.IDLE_IN_TRANSACTION_SECONDS, session_settings.LOCK_TIMEOUT_SECONDS
    session_settings.IDLE_IN_TRANSACTION_SECONDS, session_settings.LOCK_TIMEOUT_SECONDS = (
        IDLE_IN_TRANSACTION_SECONDS,
        LOCK_TIMEOUT_SECONDS,
    )
    try:
        yield
    finally:
        session_settings.IDLE_IN_TRANSACTION_SECONDS, session_settings.LOCK_TIMEOUT_SECONDS = usual


def forked(work: Callable[..., None], *arguments: object) -> int | None:
    """Runs a function of a module in a process of its own to its end; its exit code, negative for the signal that killed it."""
    process = _forkserver().Process(target=work, args=arguments, daemon=True)
    process.start()
    process.join(patience(60.0))
    assert not process.is_alive(), f"{work.__name__} does not end"
    return process.exitcode


@cache
def _forkserver() -> ForkServerContext:
    """Forks drivers from a process that has the library loaded and no session open: 10 ms instead of half a second."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["__main__", __name__, "tests.faults.derivation_driver"])  # a child would import pytest, too
    return context


def _drive_and_report(mission: Mission, environment: Mapping[str, str], pipe: Pipe) -> None:
    os.environ.update(environment, PGSERVICEFILE=str(mission.services))
    pipe.send(drive(mission))


def _state(pid: int) -> str:
    """The process's state letter, such as T for stopped; empty when it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return ""
