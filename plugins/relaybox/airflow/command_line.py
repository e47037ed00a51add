"""`relaybox --airflow`: commands reach stores as tasks do, by Airflow's connections and secrets backends. No second copy of a password."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout

with redirect_stdout(sys.stderr):  # where Airflow logs from now on: stdout has what the command writes, and nothing else
    from airflow.models.connection import Connection  # that of airflow.sdk asks the supervisor of a task
from airflow.sdk.exceptions import AirflowNotFoundException

from relaybox.airflow.credentials import session_parameters
from relaybox.airflow.service_file import service_file_by_need
from relaybox.airflow.sink_secrets import read_secret
from relaybox.errors import ConfigurationError
from relaybox.routes import Routes


@contextmanager
def connections_of_airflow(routes: Routes) -> Iterator[None]:
    """Sessions to the stores log in with what Airflow says at that moment, while the block runs."""
    with service_file_by_need(routes.stores.values(), _read):
        yield


def find_secret(where: str) -> str:
    """The secret of a sink: of an environment variable of this process, or the password of an Airflow connection.

    Raises:
        ConfigurationError: there is none.
    """
    return read_secret(where, Connection.get_connection_from_secrets)


def _read(connection_id: str) -> dict[str, str]:
    """Asks as `airflow connections get` does: environment, secrets backend, Airflow's database.

    Raises:
        ConfigurationError: there is no such connection, or it can't be used.
        CredentialsUnavailable: its token could not be had now.
    """
    try:
        connection = Connection.get_connection_from_secrets(connection_id)
    except AirflowNotFoundException as error:
        raise ConfigurationError(
            f"Airflow has no connection {connection_id}.",
            next_step=f"Add it: airflow connections add {connection_id} --conn-type relaybox. Or run where Airflow has it.",
        ) from error
    return session_parameters(connection)
