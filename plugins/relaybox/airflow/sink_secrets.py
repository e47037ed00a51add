"""The secrets of webhooks and of Kafka, as tasks read them: an environment variable, or the password of an Airflow connection."""

from __future__ import annotations

from airflow.sdk import BaseHook
from airflow.sdk.exceptions import AirflowNotFoundException

from relaybox.errors import ConfigurationError
from relaybox.sinks.secrets import find_in_environment


def find_in_airflow(where: str) -> str:
    """Returns the secret that relaybox.yaml names env:NAME or connection:ID.

    Raises:
        ConfigurationError: there is none.
    """
    kind, _, name = where.partition(":")
    if kind != "connection":
        return find_in_environment(where)
    try:
        password = BaseHook.get_connection(name).password
    except AirflowNotFoundException as error:
        raise missing_connection(where) from error
    if not password:
        raise missing_password(where)
    return str(password)


def missing_connection(where: str) -> ConfigurationError:
    """Airflow has no connection of that name."""
    name = where.partition(":")[2]
    return ConfigurationError(
        f"secret {where}: Airflow has no connection {name}.",
        next_step=f"Add it: airflow connections add {name} --conn-type generic --conn-password ...",
    )


def missing_password(where: str) -> ConfigurationError:
    """The connection has no password."""
    return ConfigurationError(
        f"secret {where}: the Airflow connection has no password.", next_step="Set its password to the secret."
    )
