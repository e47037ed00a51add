"""Copies of a cluster that recover to any byte of its WAL: a power loss (same timeline) or a lossy failover (a new one)."""

from __future__ import annotations

import re
import subprocess
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import psycopg2

from relaybox.local.clusters import Cluster, find_free_port
from tests.support.world import wait_until

WAL_SETTINGS = {
    "wal_keep_size": "4GB",  # all WAL since the base stays in pg_wal
    "max_wal_size": "4GB",
    "checkpoint_timeout": "1h",
    "wal_recycle": "off",
    "wal_init_zero": "off",
    "recovery_init_sync_method": "syncfs",
    "autovacuum": "off",
    "shared_buffers": "16MB",
    "max_connections": "40",
}
"""Settings of a cluster whose WAL is to be cut, and of its copies: nothing is removed, recovery is quick."""

_SEGMENT_BYTES = 16 * 1024 * 1024
_SEGMENTS_PER_LOG = 0x1_0000_0000 // _SEGMENT_BYTES
_WAL_NAME = re.compile(r"^(?P<timeline>[0-9A-F]{8})(?P<log>[0-9A-F]{8})(?P<segment>[0-9A-F]{8})$")


def lsn_number(lsn: str) -> int:
    """0/1A2B3C4 as a number of bytes."""
    high, low = lsn.split("/")
    return int(high, 16) << 32 | int(low, 16)


def lsn_text(lsn: int) -> str:
    """A number of bytes as Postgres writes it."""
    return f"{lsn >> 32:X}/{lsn & 0xFFFF_FFFF:X}"


@dataclass(frozen=True)
class Base:
    """A running cluster and the cold copy of its data directory from which every prefix of its WAL is recovered."""

    cluster: Cluster
    directory: Path


def take_base(cluster: Cluster, directory: Path) -> Base:
    """Copies a running cluster as a crash right after a checkpoint leaves it, and starts it again.

    A cluster that was stopped in peace would not recover: it starts behind its last checkpoint and forgets what follows.
    """
    ask(cluster, "checkpoint")
    cluster.kill()
    _copy(cluster.directory.resolve(), directory)
    cluster.start()
    return Base(cluster, directory)


def recover(base: Base, directory: Path, *, lsn: int, promote: bool) -> Cluster:
    """Starts a copy of the cluster that knows its WAL below `lsn` and nothing else.

    Args:
        base: the cluster, running or not; it is only read.
        directory: the copy's data directory, to be made.
        lsn: the first byte that is lost; a record that it cuts in two is lost whole.
        promote: the copy ends as a promoted standby does, on a new timeline, instead of as a crashed server does.
    """
    _copy(base.directory, directory)
    copy = replace(base.cluster, name=directory.name, directory=directory, port=find_free_port())
    _cut_wal(base.cluster.directory.resolve() / "pg_wal", directory / "pg_wal", lsn)
    lines = {"port": str(copy.port), "cluster_name": copy.name}
    if promote:
        (directory / "recovery.signal").touch()
        lines["restore_command"] = "false"  # all WAL that there is lies in pg_wal
    with (directory / "postgresql.conf").open("a", encoding="utf-8") as configuration:
        configuration.writelines(f"{key} = '{value}'\n" for key, value in lines.items())
    (directory / "server.log").unlink()
    copy.start()
    if promote:
        wait_until(lambda: not ask(copy, "select pg_is_in_recovery()"), "the copy is promoted")
    return copy


def ask(cluster: Cluster, query: str, *, database: str = "postgres") -> Any:
    """The first value of a statement in a session of its own; None for a statement that gives none."""
    with closing(psycopg2.connect(**cluster.parameters(database))) as connection, connection.cursor() as cursor:
        connection.autocommit = True
        cursor.execute(query)
        return cursor.fetchone()[0] if cursor.description else None


def recovered_through(copy: Cluster) -> int:
    """Where the last record that a copy replayed begins."""
    redone = re.findall(r"redo done at ([0-9A-F]+/[0-9A-F]+)", copy.log_file.read_text(encoding="utf-8"))
    assert redone, f"{copy.name} replayed nothing"
    return lsn_number(redone[-1])


def _copy(source: Path, target: Path) -> None:
    subprocess.run(["cp", "--archive", source, target], check=True)
    (target / "postmaster.pid").unlink(missing_ok=True)


def _cut_wal(source: Path, target: Path, lsn: int) -> None:
    """Gives `target` the segments of `source` through `lsn`, zeros behind it."""
    last, rest = divmod(lsn, _SEGMENT_BYTES)
    for path in target.iterdir():
        if _WAL_NAME.match(path.name):
            path.unlink()
    for path in source.iterdir():
        name = _WAL_NAME.match(path.name)
        if name is None:
            continue
        number = int(name["log"], 16) * _SEGMENTS_PER_LOG + int(name["segment"], 16)
        if number < last or (number == last and rest):
            subprocess.run(["cp", "--preserve=all", path, target], check=True)
        if number == last and rest:
            with (target / path.name).open("r+b") as segment:
                segment.truncate(rest)
                segment.truncate(_SEGMENT_BYTES)
