"""A real PgBouncer in front of a local cluster. `python -m relaybox.local.pgbouncer` finds or installs the program."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg2

from relaybox.errors import StackFailed
from relaybox.local.clusters import Cluster, find_free_port
from relaybox.local.debian import Program
from relaybox.local.processes import is_alive, send_signal, server_account, spawn, wait_until_gone
from relaybox.local.scratch import make_scratch, remove_scratch

PGBOUNCER = Program(("pgbouncer",), "pgbouncer", "the tests of poolers need PgBouncer")

MODES = ("session", "transaction", "statement")

START_SECONDS = STOP_SECONDS = 60.0
_POLL_SECONDS = 0.02
_ADMIN = "pgbouncer_admin"


@dataclass
class PgBouncer:
    """One PgBouncer between its clients and a cluster, all of whose databases it serves.

    Attributes:
        cluster: the server behind it.
        mode: of MODES.
        users: passwords by login, besides the cluster's own.
        pool_size: sessions of the server for each database and login. With 1 all clients share one.
        settings: lines of pgbouncer.ini that override the ones given here.
    """

    cluster: Cluster
    mode: str
    users: Mapping[str, str] = field(default_factory=dict, repr=False)
    pool_size: int = 1
    settings: Mapping[str, str] = field(default_factory=dict)
    host: str = "127.0.0.1"
    port: int = field(default_factory=find_free_port)
    _directory: Path = field(default_factory=lambda: make_scratch("pgbouncer"), repr=False)
    _process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    def parameters(self, database: str = "postgres") -> dict[str, str]:
        """libpq keywords that connect to a database through the pooler."""
        return {**self.cluster.parameters(database), "host": self.host, "port": str(self.port)}

    @property
    def log_file(self) -> Path:
        """What PgBouncer printed."""
        return self._directory / "pgbouncer.log"

    def start(self) -> None:
        """Starts it, and returns when it answers. It ends by itself when this process dies.

        Raises:
            ConfigurationError: PgBouncer is not installed.
            StackFailed: it ended or was not ready in time; the message carries the end of its log.
        """
        program = PGBOUNCER.require()
        account = server_account()
        self._write_configuration()
        for path in (self._directory, *self._directory.iterdir()):
            if account is not None:
                os.chown(path, account.uid, account.gid)
        self._process = spawn(
            [program, self._directory / "pgbouncer.ini"],
            env={"PATH": os.defpath, "LC_ALL": "C"},
            log=self.log_file,
            cwd=self._directory,
            account=account,
        )
        deadline = time.monotonic() + START_SECONDS
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                tail = "\n".join(self.log_file.read_text(encoding="utf-8", errors="replace").splitlines()[-10:])
                self.stop()
                raise StackFailed(
                    f"PgBouncer on port {self.port} did not start:\n{tail}\n", next_step=f"Its log: {self.log_file}"
                )
            time.sleep(_POLL_SECONDS)

    def stop(self, number: signal.Signals = signal.SIGTERM) -> None:
        """Ends it at once: its clients and its sessions of the server lose their connections."""
        process, self._process = self._process, None
        if process is None:
            return
        if is_alive(process.pid):
            send_signal(process.pid, number)
        if wait_until_gone([process.pid], deadline_seconds=STOP_SECONDS):
            process.kill()
        process.wait()

    def restart(self, number: signal.Signals = signal.SIGKILL) -> None:
        """Ends it, as a crash does, and starts it again on the same port."""
        self.stop(number)
        self.start()

    def remove(self) -> None:
        """Ends it and deletes its files."""
        self.stop()
        remove_scratch(self._directory)

    def administer(self, command: str) -> list[dict[str, Any]]:
        """Runs a command of the admin console, as `pause` or `show servers`; its rows by the names of their columns."""
        login: dict[str, Any] = {
            "host": self.host,
            "port": self.port,
            "dbname": "pgbouncer",
            "user": _ADMIN,
            "password": self.cluster.password,
        }
        with closing(psycopg2.connect(**login)) as console:
            console.autocommit = True
            with console.cursor() as cursor:
                cursor.execute(command)
                names = [column.name for column in cursor.description or ()]
                return [dict(zip(names, values, strict=True)) for values in cursor.fetchall()] if names else []

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Within the block clients are connected and wait: nothing reaches the server. Begins when no client has a transaction."""
        self.administer("pause")
        try:
            yield
        finally:
            self.administer("resume")

    def _answers(self) -> bool:
        try:
            self.administer("show version")
        except psycopg2.OperationalError:
            return False
        return True

    def _write_configuration(self) -> None:
        lines = {
            "listen_addr": self.host,
            "listen_port": str(self.port),
            "unix_socket_dir": "",
            "auth_type": "scram-sha-256",
            "auth_file": str(self._directory / "users.txt"),
            "admin_users": _ADMIN,
            "pool_mode": self.mode,
            "default_pool_size": str(self.pool_size),
            "server_login_retry": "0.2",
            "stats_period": "3600",
            **self.settings,
        }
        behind = f"* = host={self.cluster.host} port={self.cluster.port}"
        configuration = "\n".join(["[databases]", behind, "[pgbouncer]", *(f"{key} = {value}" for key, value in lines.items())])
        users = {self.cluster.user: self.cluster.password, _ADMIN: self.cluster.password, **self.users}
        passwords = "".join(f'"{user}" "{password}"\n' for user, password in users.items())
        for name, text in (("pgbouncer.ini", f"{configuration}\n"), ("users.txt", passwords)):
            path = self._directory / name
            path.touch(mode=0o600)
            path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(PGBOUNCER.provide_and_print("PgBouncer"))
