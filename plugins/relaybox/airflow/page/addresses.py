"""Where names on the page lead outside of it: a DAG run in Airflow. Spark's applications are in relaybox.spark_pages."""

from __future__ import annotations

import re
from urllib.parse import quote

_RUN = re.compile(r"(relaybox_\S+) (\S+)")


def run_address(airflow: str, recorded_by: str | None) -> str | None:
    """The address of the DAG run that `recorded_by` names as `<dag id> <run id>`; None for a user.

    Args:
        airflow: path at which Airflow itself is mounted, without a slash at its end.
        recorded_by: who the ledgers say it was.
    """
    run = _RUN.fullmatch(recorded_by or "")
    return run and f"{airflow}/dags/{quote(run[1], safe='')}/runs/{quote(run[2], safe='')}"
