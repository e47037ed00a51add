"""Hands the credentials of stores to code that connects with `service=<store>`: a file that only this user can read.

They are in no environment, argument, log, XCom or rendered template. While the task runs, the file is renewed for each new session
(relaybox.airflow.credential_renewal).
"""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from relaybox.airflow.credential_renewal import ReadCredentials, Renewals, Sections, serving
from relaybox.airflow.credentials import read_credentials
from relaybox.env_vars import environment
from relaybox.routes import Store

_PREFIX = "relaybox-services-"
_FILE_NAME = "pg_service.conf"
_LEFTOVER_AFTER_SECONDS = 60.0
_LONGEST_LINE = 1000
_PASSWORD_PREFIX = "password-"  # noqa: S105  # the name of a file
_PASSWORDS_KEPT = 20


@contextmanager
def service_file(stores: Iterable[Store]) -> Iterator[Path]:
    """A service file for these stores, written from their Airflow connections, while the block runs.

    PGSERVICEFILE names it in this process and in those it starts. Called in the process of one task.

    Raises:
        ConfigurationError: a connection cannot be written to a service file.
        AirflowNotFoundException: there is no such connection.
    """
    connections = _connections(stores)
    sections = {service: read_credentials(connection) for service, connection in connections.items()}
    with _renewed_file(connections, sections, read_credentials) as path:
        yield path


@contextmanager
def service_file_by_need(stores: Iterable[Store], read: ReadCredentials) -> Iterator[Path]:
    """The same, with nothing in it: `read` is asked for a store's connection when the first session to the store begins.

    What it raises is the error of that session: a store that is not asked needs no connection.
    """
    with _renewed_file(_connections(stores), {}, read) as path:
        yield path


@contextmanager
def service_file_of(service: str, section: Mapping[str, str]) -> Iterator[Path]:
    """The same for one service, whose parameters the caller has just read."""
    with _renewed_file({service: service}, {service: section}, read_credentials) as path:
        yield path


def _connections(stores: Iterable[Store]) -> dict[str, str]:
    return {store.service: store.connection for store in stores}


@contextmanager
def _renewed_file(connections: Mapping[str, str], sections: Sections, read: ReadCredentials) -> Iterator[Path]:
    _remove_leftovers()
    directory = Path(tempfile.mkdtemp(prefix=_PREFIX))  # 0700
    file = _ServiceFile(directory)
    renewals = Renewals(connections, sections, file.replace, read=read)
    try:
        file.replace(sections)
        with serving(directory, renewals), environment(PGSERVICEFILE=str(file.path)):
            yield file.path
    finally:
        file.remove()


class _ServiceFile:
    """The file of a task: replaced as a whole, and locked from before it has its name until the task ends (_remove_leftovers)."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / _FILE_NAME
        self._descriptor: int | None = None
        self._lock = threading.Lock()
        self._is_removed = False
        self._password_count = 0

    def replace(self, sections: Mapping[str, Mapping[str, str]]) -> None:
        """Readers see the former file or the new one.

        Raises:
            OSError: it can't be written; the former one stays.
        """
        with self._lock:
            if self._is_removed:
                raise FileNotFoundError(f"{self.path}: its task has ended")
            text = service_file_text({service: self._with_short_lines(parameters) for service, parameters in sections.items()})
            former, self._descriptor = self._descriptor, self._put(self.path, text)
            if former is not None:
                os.close(former)
            self._remove_passwords()

    def _put(self, path: Path, text: str) -> int:
        """Writes a file beside the one of this name, locks it and renames it; its open descriptor keeps the lock."""
        fresh = path.with_name(f"{path.name}.new")
        fresh.unlink(missing_ok=True)  # left by an attempt that failed
        descriptor = os.open(fresh, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            with os.fdopen(descriptor, "w", encoding="utf-8", closefd=False) as file:
                file.write(text)
            fresh.replace(path)
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def _with_short_lines(self, parameters: Mapping[str, str]) -> Mapping[str, str]:
        """A line of a service file has at most 1,022 bytes, and a token has more: then it is in a password file of its own."""
        password = parameters.get("password", "")
        if len(f"password={password}".encode()) <= _LONGEST_LINE:
            return parameters
        self._password_count += 1
        path = self.path.with_name(f"{_PASSWORD_PREFIX}{self._password_count}")
        escaped = password.replace("\\", "\\\\").replace(":", "\\:")
        os.close(self._put(path, f"*:*:*:*:{escaped}\n"))
        return {**{name: value for name, value in parameters.items() if name != "password"}, "passfile": str(path)}

    def _remove_passwords(self) -> None:
        """The newest stay: libpq may have read a former service file just now."""
        for path in self.path.parent.glob(f"{_PASSWORD_PREFIX}*"):
            number = path.name.removeprefix(_PASSWORD_PREFIX)
            if number.isdecimal() and int(number) <= self._password_count - _PASSWORDS_KEPT:
                path.unlink()

    def remove(self) -> None:
        """A renewal that comes later fails."""
        with self._lock:
            self._is_removed = True
            shutil.rmtree(self.path.parent)
            if self._descriptor is not None:
                os.close(self._descriptor)


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
