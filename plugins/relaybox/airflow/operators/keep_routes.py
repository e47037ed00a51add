"""The task that keeps the last good relaybox.yaml, and is red while the file is wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow.sdk import BaseOperator

from relaybox.airflow.deployment import read_routes
from relaybox.airflow.kept_routes import keep_routes
from relaybox.airflow.task_errors import terminal_errors_fail_at_once

if TYPE_CHECKING:
    from airflow.sdk import Context


class KeepRoutesOperator(BaseOperator):
    """Reads relaybox.yaml where tasks run, and keeps it for the time when it is wrong or not there."""

    def execute(self, context: Context) -> dict[str, bool]:
        """Returns whether the file changed, for display in XCom; fails at once while the file is wrong."""
        with terminal_errors_fail_at_once():
            return {"changed": keep_routes(read_routes())}
