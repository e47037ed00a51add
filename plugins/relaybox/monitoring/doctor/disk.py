"""Free disk: SQL can't tell it, so it is known only where the server runs on this machine."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from relaybox.monitoring.doctor.check import Diagnosis, Examined, error, notice, ok, warning
from relaybox.monitoring.doctor.numbers import show_bytes

WARNING_SHARE, ERROR_SHARE = 0.10, 0.03
"""Of the disk that is free."""


class _Database(NamedTuple):
    size_bytes: int
    directory: str | None
    started_at: int


_DATABASE = """
select pg_database_size(current_database()) as size_bytes,
    (select s.setting from pg_settings s where s.name = 'data_directory') as directory,
    floor(extract(epoch from pg_postmaster_start_time()))::bigint as started_at
"""


def check_disk(examined: Examined) -> Iterator[Diagnosis]:
    """The disk of the data directory has space left."""
    found = examined.session.row(_Database, _DATABASE)
    size = f"The database has {show_bytes(found.size_bytes)}"
    if found.directory is None or not _is_directory_of(Path(found.directory), found.started_at):
        yield notice(f"{size}. How much disk is free can't be known from here: Postgres has no function for it.")
        return
    disk = shutil.disk_usage(found.directory)
    yield classify_disk(size, free=disk.free, total=disk.total)


def classify_disk(size: str, *, free: int, total: int) -> Diagnosis:
    """A store whose disk is full accepts no messages, and moves none."""
    said = f"{size}; {show_bytes(free)} of {show_bytes(total)} disk are free"
    if free < total * WARNING_SHARE:
        grade = error if free < total * ERROR_SHARE else warning
        return grade(
            f"{said}, {free / total:.0%}.", "Give the server more disk. See what retention could drop: relaybox retention"
        )
    return ok(f"{said}.")


def _is_directory_of(directory: Path, started_at: int) -> bool:
    """Whether this is the data directory of that server, and no directory of this name on another machine."""
    try:
        lines = (directory / "postmaster.pid").read_text(encoding="utf-8").splitlines()
    except OSError:
        return False  # not here, or not for this user: both mean that it is not known
    return len(lines) > 2 and abs(int(lines[2]) - started_at) <= 1
