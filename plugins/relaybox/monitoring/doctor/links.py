"""The connection between this machine and the server: a pooler in between, TLS."""

from __future__ import annotations

import ipaddress
import os
import socket
from collections.abc import Iterator
from typing import TYPE_CHECKING

from relaybox.monitoring.doctor.check import Diagnosis, Examined, error, notice, ok, warning

if TYPE_CHECKING:
    from psycopg2.extensions import connection as Connection


def check_pooler(examined: Examined) -> Iterator[Diagnosis]:
    """The session is with the server itself: drivers lock and commit over several transactions of one session."""
    told = examined.session.connection.info.backend_pid
    pid = int(examined.session.value("select pg_backend_pid()"))
    if told == pid:
        yield ok(f"The session is with the server itself (process {pid}).")
        return
    yield error(
        f"A pooler or proxy stands between this machine and the server: libpq was told process {told}, the server says {pid}.",
        f"Put host and port of the server itself into section [{examined.store.service}] of the service file.",
    )


def check_tls(examined: Examined) -> Iterator[Diagnosis]:
    """A connection that leaves this machine is encrypted, and the server proved its name."""
    connection = examined.session.connection
    remote = remote_address(connection)
    mode = connection.info.dsn_parameters.get("sslmode", "prefer")
    section = f"section [{examined.store.service}] of the service file"
    if not connection.info.ssl_in_use:
        if remote is None:
            yield ok("No TLS, and the connection stays on this machine.")
            return
        yield warning(
            "No TLS on the connection, which leaves this machine: payloads and logins can be read on the way.",
            f"Put sslmode=verify-full and sslrootcert=FILE into {section}.",
        )
    elif mode != "verify-full" and remote is not None:
        yield notice(
            f"TLS is in use, but sslmode={mode} does not check the name of the server.",
            f"Put sslmode=verify-full into {section}.",
        )
    else:
        yield ok(f"TLS is in use ({connection.info.ssl_attribute('protocol')}, sslmode={mode}).")


def remote_address(connection: Connection) -> str | None:
    """The server's address; None for one that packets reach without leaving this machine."""
    with socket.socket(fileno=os.dup(connection.fileno())) as link:
        if link.family == socket.AF_UNIX:
            return None
        host = str(link.getpeername()[0]).partition("%")[0]
    return None if ipaddress.ip_address(host).is_loopback else host
