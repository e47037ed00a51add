"""A consumer of any library as a process that waits for messages, for tests that kill it, freeze it or take its sessions away."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
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


class Worker:
    """A process that consumes `billing`: its effect is a row of public.effect for each message, in the consumer's transaction."""

    def __init__(self, services: Path, library: str, *, store: str, pooled: bool, name: str, max_count: int) -> None:
        self.library, self.name = library, name
        self._process = _forkserver().Process(
            target=_consume, args=(str(services), library, store, pooled, name, max_count), daemon=True
        )
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


def _consume(services: str, library_name: str, store: str, pooled: bool, name: str, max_count: int) -> None:
    os.environ["PGSERVICEFILE"] = services
    session.LISTENING_SECONDS = FOREVER
    library = next(one for one in LIBRARIES if one.name == library_name)

    async def handle(connection: Any, message: Any) -> None:
        await library.execute(connection, HANDLE.format(stream_position=message.stream_position, worker=name))
        time.sleep(0.005)

    options = {"until_empty": False, "poll_seconds": 0.1 if pooled else FOREVER, "worker": name, "max_count": max_count}
    try:
        library.run(library.consume(store, handle, pooled=pooled, backoff_seconds=0.05, **options))
    except errors.NotSubscribed:
        os._exit(ENDED)
    except (errors.StoreUnreachable, errors.StoreBusy):
        os._exit(UNREACHABLE)
