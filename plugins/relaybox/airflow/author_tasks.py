"""What the tasks of DAG authors have in common: the store of an Airflow connection, and the key of a task instance."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from relaybox.airflow.service_file import service_file
from relaybox.routes import Store

if TYPE_CHECKING:
    from airflow.sdk.types import RuntimeTaskInstanceProtocol


@contextmanager
def connection_as_service(connection_id: str) -> Iterator[str]:
    """Makes the store of an Airflow connection a libpq service of this name, for the time in which a session is opened.

    No longer: meanwhile PGSERVICEFILE is not the one of the author's own code. The credentials are read anew each time. No relaybox.yaml
    is read.

    Raises:
        ConfigurationError: the connection cannot be written to a service file.
        AirflowNotFoundException: there is no such connection.
    """
    with service_file([Store(name=connection_id, service=connection_id, connection=connection_id)]):
        yield connection_id


def task_instance_key(ti: RuntimeTaskInstanceProtocol) -> str:
    """DAG/TASK/MAP_INDEX/RUN: the same in each attempt, and after each clear. The run comes last: only its id may have a slash."""
    return f"{ti.dag_id}/{ti.task_id}/{-1 if ti.map_index is None else ti.map_index}/{ti.run_id}"
