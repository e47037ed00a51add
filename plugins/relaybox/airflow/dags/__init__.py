"""The DAGs that are built from the routes, and their forms."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from airflow.sdk import DAG
    from airflow.sdk.definitions.callback import AsyncCallback, SyncCallback

    from relaybox.airflow.dags.alerts import AlertCallback


def build_dags(
    route_file: Path | str | None = None,
    *,
    on_failure_callback: AlertCallback | Iterable[AlertCallback] | None = None,
    on_late_callback: AlertCallback | Iterable[AlertCallback] | None = None,
    deadline_callback: AsyncCallback | SyncCallback | None = None,
) -> dict[str, DAG]:
    """All DAGs of a deployment, by id: a DAG file adds them to its globals. Reads no database.

    Each id follows from the name of a hop or route alone. A task asks for its own DAG only, and only that one is built.

    Args:
        route_file: by default what RELAYBOX_CONFIG names, else relaybox.yaml beside the dags folder.
        on_failure_callback: of every DAG, called by Airflow's DAG processor after a run failed: a notifier, a function that takes the
            context, or several.
        on_late_callback: called by a task of relaybox_watch when a hop became later than limits.target_lag_seconds, and each hour
            while it is. The context has the hop as `late_hop` (relaybox.airflow.late_hops.LateHop), for templates too.
        deadline_callback: of a DeadlineAlert on each transfer and confirm DAG: a run that has not ended in time.

    Raises:
        ConfigurationError: the file is wrong or not there, and relaybox_watch kept no earlier one. Names every problem.
        TypeError: a callback cannot be called.
    """
    from relaybox.airflow.dags.alerts import Alerts, as_list
    from relaybox.airflow.dags.every_dag import build_every_dag  # the plugin imports this package in every component
    from relaybox.airflow.deployment import read_routes_to_parse

    alerts = Alerts(as_list(on_failure_callback), as_list(on_late_callback), deadline_callback)
    return build_every_dag(read_routes_to_parse(route_file), alerts)


def check_routes(route_file: Path | str | None = None) -> None:
    """Fails while relaybox.yaml is wrong or not there: an import error of a DAG file, beside the DAGs of the last good file.

    Raises:
        ConfigurationError: names every problem of the file.
    """
    from relaybox.airflow.deployment import read_routes

    read_routes(route_file)
