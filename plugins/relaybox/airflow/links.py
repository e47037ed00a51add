"""Ways out of Airflow's own pages: the address of a hop's page, the link of a task to what it moved, and to its Spark application."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from airflow.sdk import BaseOperatorLink

from relaybox.airflow.naming import run_name
from relaybox.monitoring.spark_pages import application_address

if TYPE_CHECKING:
    from relaybox.routes import Hop

PREFIX = "/relaybox"
"""Where the API server mounts the page."""

NAVIGATION_ROUTE = "relaybox"
DAG_ROUTE = "relaybox-hop"


def hop_page(hop: Hop, *, run: str = "") -> str:
    """The hop's page inside Airflow's frame; with a run `<dag id> <run id>`, the batches that it moved."""
    moved_by = f"?moved_by={quote(run, safe='')}" if run else ""
    return f"/plugin/{NAVIGATION_ROUTE}{PREFIX}/hops/{hop.name}{moved_by}"


def runbook_page(name: str) -> str:
    """The page of a runbook inside Airflow's frame, by its file's name without the ending."""
    return f"/plugin/{NAVIGATION_ROUTE}{PREFIX}/runbooks/{name}"


class BatchesLink(BaseOperatorLink):
    """A button on a task instance: the batches that its run moved."""

    name = "Batches"

    def get_link(self, operator: Any, *, ti_key: Any) -> str:
        return hop_page(operator.hop, run=run_name(ti_key))


class SparkApplicationLink(BaseOperatorLink):
    """A button on a task instance: Spark's own page of the application that it started, where RELAYBOX_SPARK_UI says."""

    name = "Spark application"

    def get_link(self, operator: Any, *, ti_key: Any) -> str:
        """Asked in the task's process, as it ends. Empty, and then no button: the task did all by itself."""
        return application_address(operator.spark_application) or ""
