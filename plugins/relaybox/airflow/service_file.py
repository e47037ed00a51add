"""Hands the credentials of stores to code that connects with `service=<store>`: a file that only this user can read.

They are in no environment, argument, log, XCom or rendered template.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from airflow.sdk import BaseHook

from relaybox.airflow.libpq_parameters import libpq_parameters
from relaybox.env_vars import environment
from relaybox.routes import Store

_PREFIX = "relaybox-services-"
_FILE_NAME = "pg_service.conf"
_LEFTOVER_AFTER_SECONDS = 60.0


@contextmanager
def service_file(stores: Iterable[Store]) -> Iterator[Path]:
    """A service file for these stores, written from their Airflow connections, while the block runs.

    PGSERVICEFILE names it in this process and in those it starts. Called in the process of one task.

    Raises:
        ConfigurationError: a connection cannot be written to a service file.
        AirflowNotFoundException: there is no such connection.
    """
    sections = {store.service: libpq_parameters(BaseHook.get_connection(store.connection)) for store in stores}
    _remove_leftovers()
    directory = Path(tempfile.mkdtemp(prefix=_PREFIX))  # 0700
    path = directory / _FILE_NAME
    try:
        descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            fcntl.flock(file, fcntl.LOCK_EX)  # held while this process lives; see _remove_leftovers
            file.write(service_file_text(sections))
            file.flush()
            with environment(PGSERVICEFILE=str(path)):
                yield path
    finally:
        shutil.rmtree(directory)


def service_file_text(sections: Mapping[str, Mapping[str, str]]) -> str:
    """What libpq reads: a section per service."""
    lines: list[str] = []
    for service, parameters in sections.items():
        lines += [f"[{service}]", *(f"{name}={value}" for name, value in parameters.items()), ""]
    return "\n".join(lines)


def _remove_leftovers() -> None:
    """Removes the files of tasks that were killed: no process holds their lock any more.

    Everybody may write to the directory for temporary files: only what this user alone can have put there is opened.
    """
    for directory in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with suppress(OSError), _opened(directory, os.O_DIRECTORY) as folder:  # another task may be removing it at this moment
            found = os.fstat(folder)
            if found.st_uid == os.geteuid() and stat.S_IMODE(found.st_mode) == 0o700 and _is_left_over(folder):
                shutil.rmtree(directory)


def _is_left_over(folder: int) -> bool:
    """Whether the file in an open directory is old, and the task that wrote it has ended.

    Raises:
        OSError: it is locked by a living task, or is not there.
    """
    with _opened(_FILE_NAME, os.O_RDONLY | os.O_NONBLOCK, dir_fd=folder) as file:
        found = os.fstat(file)
        if not stat.S_ISREG(found.st_mode) or time.time() - found.st_mtime <= _LEFTOVER_AFTER_SECONDS:
            return False
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return True


@contextmanager
def _opened(path: str | Path, flags: int, *, dir_fd: int | None = None) -> Iterator[int]:
    """A descriptor of what is there itself, and not of what a link there leads to."""
    descriptor = os.open(path, flags | os.O_NOFOLLOW, dir_fd=dir_fd)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
