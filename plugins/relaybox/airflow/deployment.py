"""Where the parts of a deployment are: the repository is an Airflow home, so all is found from the dags folder."""

from __future__ import annotations

import os
from pathlib import Path

from airflow.sdk.configuration import conf

from relaybox.routes import Routes, load_routes


def home() -> Path:
    """RELAYBOX_HOME, else the folder that holds Airflow's dags folder."""
    configured = os.environ.get("RELAYBOX_HOME")
    return Path(configured) if configured else Path(conf.get_mandatory_value("core", "dags_folder")).resolve().parent


def route_file() -> Path:
    """RELAYBOX_CONFIG, else relaybox.yaml at home."""
    configured = os.environ.get("RELAYBOX_CONFIG")
    return Path(configured) if configured else home() / "relaybox.yaml"


def spark_application(name: str) -> Path:
    """What spark-submit runs: `transfer.py`, `verify.py` or `detach.py`."""
    return home() / "spark_apps" / name


def read_routes() -> Routes:
    """The routes of this deployment; a ConfigurationError names every problem of the file."""
    return load_routes(route_file())
