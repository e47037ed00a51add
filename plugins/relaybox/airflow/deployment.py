"""Where relaybox.yaml is, and what it says; while it can't be read, what it said last."""

from __future__ import annotations

import os
from pathlib import Path

from airflow.sdk.configuration import conf

from relaybox.airflow.kept_routes import read_kept_routes
from relaybox.errors import ConfigurationError
from relaybox.log_events import warn
from relaybox.routes import Routes, load_routes


def route_file() -> Path:
    """RELAYBOX_CONFIG, else relaybox.yaml beside Airflow's dags folder."""
    configured = os.environ.get("RELAYBOX_CONFIG")
    return (
        Path(configured)
        if configured
        else Path(conf.get_mandatory_value("core", "dags_folder")).resolve().parent / "relaybox.yaml"
    )


def read_routes(path: Path | str | None = None) -> Routes:
    """The routes of this deployment, by default of route_file(); a ConfigurationError names every problem of the file."""
    return load_routes(path or route_file())


def read_routes_to_parse(path: Path | str | None = None) -> Routes:
    """The routes from which DAGs are built: those of the file, or while it is wrong or not there those of the last good one.

    Without them every DAG would vanish from Airflow, and running tasks could not be parsed again.

    Args:
        path: of the file; by default route_file().

    Raises:
        ConfigurationError: names every problem of the file, and none was kept, or it can't be used by this version.
    """
    path = Path(path or route_file()).absolute()
    try:
        return load_routes(path)
    except ConfigurationError as problem:
        kept = read_kept_routes(path, problem)
        warn("last_good_routes_used", kept_at=kept.kept_at, warning=str(problem))
        return kept.routes
