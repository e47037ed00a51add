"""The server: its version, its part in replication, the encoding of the database."""

from __future__ import annotations

from collections.abc import Iterator

from relaybox.monitoring.doctor.check import Diagnosis, Examined, error, ok
from relaybox.stores.init.server import CREATE_DATABASE

OLDEST_VERSION = 140000


def check_version(examined: Examined) -> Iterator[Diagnosis]:
    """Relaybox runs on this version."""
    shown = examined.session.value("select current_setting('server_version')")
    if examined.server.version < OLDEST_VERSION:
        yield error(f"It runs Postgres {shown}; 14 or newer is needed.", "Upgrade the server.")
    else:
        yield ok(f"Postgres {shown}.")


def check_primary(examined: Examined) -> Iterator[Diagnosis]:
    """The store is a primary."""
    if examined.server.is_standby:
        yield error(
            "It is a standby; Relaybox needs the primary.",
            f"Put host and port of the primary into section [{examined.store.service}] of the service file, "
            "or add target_session_attrs=read-write.",
        )
    else:
        yield ok("It is a primary.")


def check_encoding(examined: Examined) -> Iterator[Diagnosis]:
    """Texts arrive as they were sent."""
    encoding = examined.session.value("select current_setting('server_encoding')")
    if encoding == "UTF8":
        yield ok("The encoding of the database is UTF8.")
        return
    because = ": the server does not check texts, so a wrong one is found after it was sent" if encoding == "SQL_ASCII" else ""
    yield error(
        f"The encoding of the database is {encoding}{because}. UTF8 is needed.",
        f"An encoding can't be changed; as a login with createdb: {CREATE_DATABASE}; "
        f"load a dump into it; then correct dbname in section [{examined.store.service}] of the service file.",
    )
