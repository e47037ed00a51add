"""Fresh credentials for the next session, from the process that wrote the service file.

A task of Airflow writes a service file, and serves a socket beside it while it runs. Every process that reads this file asks there
before it opens a session: the task itself, its Spark driver and the driver's workers on this machine. The answer is that the file is
fresh; no password passes through the socket. Beside other service files there is no socket: their owner keeps them fresh.
"""

from __future__ import annotations

import json
import os
import socket
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from relaybox import errors
from relaybox.log_events import warn
from relaybox.stores.sessions.service_files import service_file_path

SOCKET_NAME = "renew"
ANSWER_SECONDS = 40.0
"""A little longer than the task waits for Airflow."""


@dataclass(frozen=True)
class Renewal:
    """What the service file has for a service now.

    Attributes:
        number: counts how often the credentials were asked for.
        source: where they come from, as an error names it.
        failure: why they could not be asked for; the file keeps what it had. Empty: they are fresh.
        was_admitted: the server has accepted a login from this file before.
    """

    number: int = 0
    source: str = "the owner of the service file"
    failure: str = ""
    was_admitted: bool = False


def renew_credentials(service: str, *, refused: Renewal | None = None) -> Renewal | None:
    """Has the service file renewed for the next session; None where nobody renews it.

    Where the credentials can't be asked for, the file keeps what it has, which may still be right: a warning says so.

    Args:
        service: of libpq.
        refused: the server refused what the file had then: what was asked for before is not fresh enough.

    Raises:
        ConfigurationError: the connection that the credentials come from can't be used any more.
    """
    answer = _ask({"service": service, "refused": None if refused is None else refused.number})
    if answer is None:
        return None
    if error := answer.get("configuration"):
        raise errors.ConfigurationError(error["message"], next_step=error["next_step"])
    renewal = Renewal(**answer)
    if renewal.failure:
        warn("credentials_not_renewed", service=service, source=renewal.source, error=renewal.failure)
    return renewal


def note_admitted(service: str) -> None:
    """Tells the owner of the service file that the server accepted a login."""
    _ask({"service": service, "admitted": True})


def _ask(request: Mapping[str, object]) -> dict[str, Any] | None:
    with _directory(service_file_path().parent) as directory:
        if directory is None:
            return None
        with socket.socket(socket.AF_UNIX) as link:
            link.settimeout(ANSWER_SECONDS)
            try:
                link.connect(socket_address(directory))
                link.sendall(json.dumps(request).encode() + b"\n")
                with link.makefile("rb") as answers:
                    return dict(json.loads(answers.readline()))
            except FileNotFoundError:
                return None
            except (OSError, ValueError) as error:
                return {"failure": f"the task that wrote the service file does not answer: {error}"}


def socket_address(directory: int) -> str:
    """The socket in an open directory. An address has at most 107 bytes, and a path may have more."""
    return f"/proc/self/fd/{directory}/{SOCKET_NAME}"


@contextmanager
def _directory(path: Path) -> Iterator[int | None]:
    """The directory of the service file, if only this user may write there: a socket of another user's is not asked."""
    try:
        directory = os.open(path, os.O_DIRECTORY | os.O_RDONLY)
    except OSError:
        yield None
        return
    try:
        found = os.fstat(directory)
        is_own = found.st_uid == os.geteuid() and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
        yield directory if is_own else None
    finally:
        os.close(directory)
