"""The task that drops the segments of one store that no hop and no subscription needs."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowSkipException

from relaybox.airflow.naming import run_name
from relaybox.airflow.service_file import service_file
from relaybox.airflow.task_errors import terminal_errors_fail_at_once
from relaybox.retention.segments import read_retention, retain_store
from relaybox.routes import Routes, Store

if TYPE_CHECKING:
    from airflow.sdk import Context

    from relaybox.retention.segments import Holder, TableRetention

EVERY_STORE = "every store"


class RetentionOperator(BaseOperator):
    """Drops the segments of a store that no hop and no subscription needs.

    Segments that sessions hold are left for the next run; that is no failure.
    """

    def __init__(self, *, store: Store, routes: Routes, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.store = store
        self.routes = routes

    def execute(self, context: Context) -> list[dict[str, Any]]:
        """Returns a line per table: dropped segments and readers of the rest. A dry run lists the droppable segments."""
        if context["params"]["store"] not in (EVERY_STORE, self.store.name):
            raise AirflowSkipException(f"store {self.store.name} was not chosen in the form")
        with terminal_errors_fail_at_once(), service_file([self.store]):
            if context["params"]["dry_run"]:
                lines = [_kept(table) for table in read_retention(self.store, self.routes).tables]
            else:
                recorded_by = run_name(context["ti"])
                done = retain_store(self.store, recorded_by=recorded_by, routes=self.routes)
                lines = [asdict(table) for table in done.tables]
        for line in lines:
            self.log.info("%s", line)
        return lines


def _kept(table: TableRetention) -> dict[str, Any]:
    return {
        "hop": table.hop,
        "segments": len(table.segments),
        "size_bytes": table.size_bytes,
        "droppable": len(table.droppable),
        "holders": [_holder(holder) for holder in table.holders],
    }


def _holder(holder: Holder) -> str:
    told = f"{holder.kind} {holder.name} from {holder.needs_from}"
    return told if holder.next_step is None else f"{told}; {holder.next_step}"
