"""What one session of a store logs in with, asked for now: from Airflow's connection, its secrets backend, or its Postgres hook.

A connection with the extra `iam` has no password: the hook of Airflow's Postgres provider gets a token that lives for minutes, from AWS
(`aws_conn_id`) or from Azure (`azure_conn_id`, a managed identity too).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow.sdk import BaseHook
from airflow.sdk.exceptions import AirflowOptionalProviderFeatureException
from airflow.sdk.log import mask_secret

from relaybox.airflow.libpq_parameters import asks_for_token, libpq_parameters
from relaybox.errors import ConfigurationError, CredentialsUnavailable

if TYPE_CHECKING:
    from airflow.sdk import Connection


def read_credentials(connection_id: str) -> dict[str, str]:
    """The parameters of libpq for the next session, by the name of an Airflow connection. For tasks, the triggerer and the API server.

    Raises:
        ConfigurationError: the connection can't be used, or Airflow lacks the provider that gets its token.
        CredentialsUnavailable: the token could not be had now.
        AirflowNotFoundException: there is no such connection, or Airflow could not be asked for it.
    """
    return session_parameters(BaseHook.get_connection(connection_id))


def session_parameters(connection: Connection) -> dict[str, str]:
    """The same for a connection that was just read."""
    parameters = libpq_parameters(connection)
    if asks_for_token(connection.extra_dejson):
        parameters |= _token(connection)
    return parameters


def _token(connection: Connection) -> dict[str, str]:
    """Login, token and port, as the hook gives them. A hook of its own for each: none keeps a token."""
    from airflow.providers.postgres.hooks.postgres import PostgresHook  # takes a second, which only such connections spend

    try:
        login, token, port = PostgresHook(connection.conn_id, connection=connection).get_iam_token(connection)
    except (AirflowOptionalProviderFeatureException, ImportError) as error:
        raise ConfigurationError(
            f"Airflow connection {connection.conn_id}: no token can be had: {error}",
            next_step="Install the provider where tasks, triggerer and API server run, then clear the task.",
        ) from error
    except Exception as error:
        raise CredentialsUnavailable(
            f"Airflow connection {connection.conn_id}: no token could be had: {type(error).__name__}: {error}",
            next_step="Correct the connection that aws_conn_id or azure_conn_id names, or its rights.",
        ) from error
    mask_secret(token)
    return {"user": login, "password": token, "port": str(port)}
