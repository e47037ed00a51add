"""The secrets of webhooks and of Kafka: an environment variable, or the password of an Airflow connection."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from airflow.sdk import BaseHook
from airflow.sdk.exceptions import AirflowNotFoundException

from relaybox.errors import ConfigurationError
from relaybox.sinks.secrets import find_in_environment


def find_in_airflow(where: str) -> str:
    """Returns the secret that relaybox.yaml names env:NAME or connection:ID, as a task reads it; raises as read_secret()."""
    return read_secret(where, BaseHook.get_connection)


def read_secret(where: str, get_connection: Callable[[str], Any]) -> str:
    """Returns the secret that relaybox.yaml names env:NAME or connection:ID.

    Args:
        where: the name.
        get_connection: gives the Airflow connection of an id; raises AirflowNotFoundException.

    Raises:
        ConfigurationError: there is none.
    """
    kind, _, name = where.partition(":")
    if kind != "connection":
        return find_in_environment(where)
    try:
        password = get_connection(name).password
    except AirflowNotFoundException as error:
        raise ConfigurationError(
            f"secret {where}: Airflow has no connection {name}.",
            next_step=f"Add it: airflow connections add {name} --conn-type generic --conn-password ...",
        ) from error
    if not password:
        raise ConfigurationError(
            f"secret {where}: the Airflow connection has no password.", next_step="Set its password to the secret."
        )
    return str(password)
