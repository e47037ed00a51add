"""The DAGs that are built from the routes, and their forms."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from airflow.sdk import DAG


def build_dags(route_file: Path | str | None = None) -> dict[str, DAG]:
    """All DAGs of a deployment, by id: a DAG file adds them to its globals. Reads no database.

    Each id follows from the name of a hop or route alone. A task asks for its own DAG only, and only that one is built.

    Args:
        route_file: by default what RELAYBOX_CONFIG names, else relaybox.yaml beside the dags folder.

    Raises:
        ConfigurationError: the file is wrong or not there, and relaybox_watch kept no earlier one. Names every problem.
    """
    from relaybox.airflow.dags.every_dag import build_every_dag  # the plugin imports this package in every component
    from relaybox.airflow.deployment import read_routes_to_parse

    return build_every_dag(read_routes_to_parse(route_file))


def check_routes(route_file: Path | str | None = None) -> None:
    """Fails while relaybox.yaml is wrong or not there: an import error of a DAG file, beside the DAGs of the last good file.

    Raises:
        ConfigurationError: names every problem of the file.
    """
    from relaybox.airflow.deployment import read_routes

    read_routes(route_file)
