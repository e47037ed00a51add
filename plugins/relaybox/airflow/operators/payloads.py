"""The task that collects the files of large payloads to which no message refers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowSkipException

from relaybox.airflow.naming import run_name
from relaybox.airflow.operators.retention import EVERY_STORE
from relaybox.airflow.service_file import service_file
from relaybox.airflow.task_errors import terminal_errors_fail_at_once
from relaybox.payloads.collecting import collect_place
from relaybox.routes import PayloadPlace, Store

if TYPE_CHECKING:
    from airflow.sdk import Context


class CollectPayloadsOperator(BaseOperator):
    """Collects a place of large payloads. It asks every store; without the answer of one it fails, and nothing is removed."""

    def __init__(self, *, place: PayloadPlace, stores: Sequence[Store], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.place = place
        self.stores = list(stores)

    def execute(self, context: Context) -> dict[str, Any]:
        """Returns how many files it kept, moved into the trash and removed. A dry run says what would be."""
        if context["params"]["store"] != EVERY_STORE:
            raise AirflowSkipException("a store was chosen in the form: payloads are collected when all stores were asked")
        with terminal_errors_fail_at_once(), service_file(self.stores):
            done = collect_place(
                self.place, self.stores, recorded_by=run_name(context["ti"]), dry_run=context["params"]["dry_run"]
            )
        line = {**asdict(done), "cutoff": done.cutoff.isoformat()}
        self.log.info("%s", line)
        return line
