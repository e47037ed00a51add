"""The task's side of stores.sessions.credentials: asks Airflow for the credentials of each session, and renews the service file.

Sessions that begin at about the same time share one question, so that slices that start together don't ask a secrets backend ten times.
A login that the server refused is never answered with what it was refused with.
"""

from __future__ import annotations

import contextvars
import json
import math
import os
import socketserver
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

from relaybox.airflow.credentials import read_credentials
from relaybox.errors import ConfigurationError
from relaybox.log_events import emit
from relaybox.stores.parallel_reads.deadlines import start_asking
from relaybox.stores.sessions.credentials import Renewal, socket_address

SHARED_SECONDS = 5.0
"""For so long an answer is good for sessions that begin."""

ASK_SECONDS = 30.0
"""So long Airflow may take for an answer."""

Sections = Mapping[str, Mapping[str, str]]

ReadCredentials = Callable[[str], Mapping[str, str]]


@dataclass
class _Service:
    """One store: what it logs in with, and how often that was asked for."""

    source: str
    section: Mapping[str, str] | None
    asked_at: float
    number: int = 0
    failure: BaseException | None = None
    was_admitted: bool = False
    pending: Future[Mapping[str, str]] | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)


class Renewals:
    """Answers the requests of sessions, each service one after the other.

    Args:
        connections: the Airflow connection of each service.
        sections: what was read from them just now. One that is missing is read when its first session begins.
        write: replaces the service file.
        read: what a session logs in with, by the name of its connection.
    """

    def __init__(
        self,
        connections: Mapping[str, str],
        sections: Sections,
        write: Callable[[Sections], None],
        *,
        read: ReadCredentials = read_credentials,
    ) -> None:
        self._connections = connections
        self._write = write
        self._read = read
        self._writing = threading.Lock()
        self._context = contextvars.copy_context()  # Airflow may keep connections in it
        now = time.monotonic()
        self._services = {
            service: _Service(
                f"Airflow connection {connection}", sections.get(service), now if service in sections else -math.inf
            )
            for service, connection in connections.items()
        }

    def answer(self, request: Mapping[str, object]) -> Mapping[str, object]:
        """What a session asked, and what it gets: fields of a Renewal, or the error in the connection."""
        name = str(request["service"])
        service = self._services.get(name)
        if service is None:
            return asdict(Renewal(failure=f"no store of this task has the service {name}"))
        with service.lock:
            if request.get("admitted"):
                service.was_admitted = True
            else:
                self._renew(name, service, request["refused"])
            error = service.failure
            if isinstance(error, ConfigurationError):
                return {"configuration": {"message": error.args[0], "next_step": error.next_step}}
            failure = "" if error is None else _line(error)
            if failure and service.section is None:
                return {"configuration": {"message": f"{service.source}: {failure}", "next_step": "Correct it, then run again."}}
            return asdict(Renewal(service.number, service.source, failure, service.was_admitted))

    def _renew(self, name: str, service: _Service, refused: object) -> None:
        is_recent = time.monotonic() - service.asked_at < SHARED_SECONDS
        is_fresh = is_recent if refused is None else service.number > int(str(refused))
        if is_fresh:
            return
        if service.pending is None:
            context = self._context.copy()
            connection = self._connections[name]
            service.pending = start_asking(None, lambda: context.run(self._read, connection), name=f"credentials-{name}")
        try:
            service.failure = service.pending.exception(ASK_SECONDS)
        except TimeoutError:
            service.failure = TimeoutError(f"Airflow did not answer within {ASK_SECONDS:g} s")
        else:
            if service.failure is None:
                service.failure = self._replace(name, service, service.pending.result())
            service.pending = None
        service.asked_at = time.monotonic()

    def _replace(self, name: str, service: _Service, section: Mapping[str, str]) -> OSError | None:
        """Renews the file if what was asked for differs; the error where it could not be written."""
        with self._writing:
            if section != service.section:
                others = {other: known.section for other, known in self._services.items() if known.section is not None}
                sections = others | {name: section}
                try:
                    self._write(sections)
                except OSError as error:
                    return error
                is_first, service.section = service.section is None, section
                if not is_first:
                    emit("credentials_renewed", service=name, source=service.source)
        service.number += 1
        return None


def _line(error: BaseException) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())


@contextmanager
def serving(directory: Path, renewals: Renewals) -> Iterator[None]:
    """Answers on the socket in this directory while the block runs."""

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            request = self.rfile.readline()
            self.wfile.write(json.dumps(renewals.answer(json.loads(request))).encode() + b"\n")

    descriptor = os.open(directory, os.O_DIRECTORY | os.O_RDONLY)
    try:
        with _Server(socket_address(descriptor), Handler) as server:
            thread = threading.Thread(target=server.serve_forever, name="relaybox-credentials", daemon=True)
            thread.start()
            try:
                yield
            finally:
                server.shutdown()
                thread.join()
    finally:
        os.close(descriptor)


class _Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True
    block_on_close = False  # one of them may wait for Airflow
    request_queue_size = 64
