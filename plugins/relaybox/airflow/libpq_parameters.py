"""What libpq needs to reach a store, from the store's Airflow connection."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from relaybox.errors import ConfigurationError
from relaybox.routes.problems import suggest

if TYPE_CHECKING:
    from airflow.sdk import Connection

CONNECTION_TYPES = ("relaybox", "postgres", "generic")

ENCRYPTED_MODES = ("require", "verify-ca", "verify-full")
"""Values of sslmode with which libpq sends nothing without TLS."""

EXTRAS = frozenset(
    {
        "channel_binding",
        "gssencmode",
        "hostaddr",
        "krbsrvname",
        "passfile",
        "require_auth",
        "ssl_max_protocol_version",
        "ssl_min_protocol_version",
        "sslcert",
        "sslcrl",
        "sslkey",
        "sslmode",
        "sslrootcert",
        "sslsni",
        "target_session_attrs",
    }
)
"""Extras of a connection that are passed on: how to reach the server safely. What a session does is Relaybox's own business."""

TOKEN_EXTRAS = frozenset({"iam", "aws_conn_id", "azure_conn_id"})
"""Extras that the hook of Airflow's Postgres provider reads: the password is a token (relaybox.airflow.credentials)."""


def libpq_parameters(connection: Connection) -> dict[str, str]:
    """The parameters, each safe to stand in a service file.

    Raises:
        ConfigurationError: the connection lacks something, or holds what libpq or a service file cannot take. Never quotes a value.
    """
    name = connection.conn_id
    if connection.conn_type not in CONNECTION_TYPES:
        raise _refused(name, f"its type is {connection.conn_type}; it must be {' or '.join(CONNECTION_TYPES)}")
    required = {"host": connection.host, "dbname": connection.schema, "user": connection.login}
    missing = [_FIELDS[parameter] for parameter, value in required.items() if not value]
    if missing:
        raise _refused(name, f"it has no {' and no '.join(missing)}")
    given = {**required, "port": connection.port, "password": connection.password, **_extras(name, connection.extra_dejson)}
    parameters = {parameter: str(value) for parameter, value in given.items() if value not in (None, "")}
    _require_plain(name, parameters)
    return parameters


_FIELDS = {"host": "host", "dbname": "schema (the database)", "user": "login"}


def _extras(name: str, extras: Mapping[str, object]) -> Mapping[str, object]:
    """A misspelt sslmode must be an error: passed over, it would be a plain-text connection."""
    unknown = sorted(set(extras) - EXTRAS - TOKEN_EXTRAS)
    if unknown:
        raise _refused(name, f"its extra {unknown[0]} is not passed on to libpq; {suggest(unknown[0], EXTRAS | TOKEN_EXTRAS)}")
    _require_safe_tokens(name, extras)
    return {extra: value for extra, value in extras.items() if extra in EXTRAS}


def _require_safe_tokens(name: str, extras: Mapping[str, object]) -> None:
    """A server takes a token as a plain password: without TLS everybody on the way would have it."""
    if extras.get("iam") not in (True, False, None):
        raise _refused(name, "its extra iam must be true or false, without quotes")
    if not asks_for_token(extras):
        needless = sorted(name for name in TOKEN_EXTRAS - {"iam"} if extras.get(name))
        if needless:
            raise _refused(name, f'its extra {needless[0]} does nothing without the extra "iam": true')
    elif extras.get("sslmode") not in ENCRYPTED_MODES:
        raise _refused(
            name, "its login is a token (extra iam), which must not travel unencrypted; set the extra sslmode to verify-full"
        )


def asks_for_token(extras: Mapping[str, object]) -> bool:
    """Whether the password of a connection with these extras is a token that Airflow's Postgres hook gets."""
    return extras.get("iam") is True


def _require_plain(name: str, parameters: Mapping[str, str]) -> None:
    """A service file has one value per line, unquoted, and libpq trims it."""
    for parameter, value in parameters.items():
        if value != value.strip() or any(character in value for character in "\n\r\0"):
            raise _refused(name, f"its {parameter} begins or ends with white space, or has a line break in it")


def _refused(name: str, reason: str) -> ConfigurationError:
    return ConfigurationError(f"Airflow connection {name}: {reason}.", next_step="Correct the connection, then clear the task.")
