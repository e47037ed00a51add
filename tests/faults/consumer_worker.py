"""A consumer of any library as a process that waits for messages, for tests that kill it, freeze it or take its sessions away."""

from __future__ import annotations

import multiprocessing
import os
import signal
from dataclasses import dataclass
from functools import cache
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import Any

from relaybox import errors
from relaybox.consumer import session
from tests.support.libraries import LIBRARIES
from tests.support.patience import patience

FOREVER = 3600.0
"""Seconds: nothing but a notification, a lease or a pause ends a rest."""

ENDED, UNREACHABLE = 3, 4
"""Exit codes: the subscription was ended; the store could not be reached for long."""

HANDLE = """
insert into public.effect (subscription_id, stream_position, worker)
select s.subscription_id, {stream_position}, '{worker}'
from relaybox_internal.subscription s where s.subscription = 'billing' and s.ended_at is null
"""


@dataclass(frozen=True)
class Job:
    """What a worker does.

    Attributes:
        services: the libpq service file.
        library: of tests.support.libraries, by its name.
        store: the service.
        pooled: there is a pooler before it, so the worker polls.
        name: of the worker.
        max_count: messages fetched at once.
    """

    services: Path
    library: str
    store: str
    pooled: bool
    name: str
    max_count: int


class Worker:
    """A process that consumes `billing`: its effect is a row of public.effect for each message, in the consumer's transaction."""

    def __init__(self, job: Job) -> None:
        self.library, self.name = job.library, job.name
        self._process = _forkserver().Process(target=_consume, args=(job,), daemon=True)
        self._process.start()

    @property
    def is_alive(self) -> bool:
        return self._process.is_alive()

    @property
    def exit_code(self) -> int | None:
        return self._process.exitcode

    def send_signal(self, number: signal.Signals) -> None:
        if self.is_alive and self._process.pid is not None:
            os.kill(self._process.pid, number)

    def end(self, number: signal.Signals = signal.SIGTERM) -> None:
        """Ends it, and returns when it is gone. One that was frozen goes on for that."""
        self.send_signal(signal.SIGCONT)
        self.send_signal(number)
        self._process.join(patience(20))
        assert not self.is_alive, f"worker {self.name} ({self.library}) does not end at {number.name}"


@cache
def _forkserver() -> ForkServerContext:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["__main__", __name__])
    return context


def _consume(job: Job) -> None:
    os.environ["PGSERVICEFILE"] = str(job.services)
    session.LISTENING_SECONDS = FOREVER
    library = next(one for one in LIBRARIES if one.name == job.library)

    async def handle(connection: Any, message: Any) -> None:
        await library.execute(connection, HANDLE.format(stream_position=message.stream_position, worker=job.name))

    options = {"until_empty": False, "poll_seconds": 0.1 if job.pooled else FOREVER, "worker": job.name}
    try:
        library.run(
            library.consume(job.store, handle, pooled=job.pooled, backoff_seconds=0.05, max_count=job.max_count, **options)
        )
    except errors.NotSubscribed:
        os._exit(ENDED)
    except (errors.StoreUnreachable, errors.StoreBusy):
        os._exit(UNREACHABLE)
