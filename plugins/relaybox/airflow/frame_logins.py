"""Logins of DataFrames by an Airflow connection: for a Python process of Spark that has Airflow, and no service of that name."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from airflow.sdk.exceptions import AirflowNotFoundException

from relaybox.airflow.credentials import read_credentials
from relaybox.airflow.service_file import service_file_of
from relaybox.errors import ConfigurationError


@contextmanager
def login_by_connection(connection_id: str) -> Iterator[None]:
    """Within the block libpq has a service with the name of the connection, in a file that only this user can read.

    Airflow looks in its secrets backends and environment variables, and in a task's process in its database too. If it knows no such
    connection, nothing changes: libpq says what it lacks.

    Raises:
        ConfigurationError: a store can't be reached with that connection.
        CredentialsUnavailable: its token could not be had now.
    """
    try:
        section = read_credentials(connection_id)
    except AirflowNotFoundException:
        try:
            yield  # libpq may know the service from a file of the machine
        except ConfigurationError as error:
            error.next_step += f" Or make the Airflow connection {connection_id}: this process found none."
            raise
        return
    with service_file_of(connection_id, section):
        yield
