"""Ways from the page to Airflow around it: its app, and the pages of its DAG runs. For Spark see relaybox.monitoring.spark_pages."""

from __future__ import annotations

import re
from urllib.parse import quote

AIRFLOW = "relaybox.airflow"
"""Where a request finds the app that the page is mounted in: through it, buttons speak to Airflow's own API."""

_RUN = re.compile(r"(relaybox_\S+) (\S+)")


def run_address(airflow: str, recorded_by: str | None) -> str | None:
    """The address of the DAG run that `recorded_by` names as `<dag id> <run id>`; None for a user.

    Args:
        airflow: path at which Airflow itself is mounted, without a slash at its end.
        recorded_by: who the ledgers say it was.
    """
    run = _RUN.fullmatch(recorded_by or "")
    return run and f"{airflow}/dags/{quote(run[1], safe='')}/runs/{quote(run[2], safe='')}"
