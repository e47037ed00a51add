"""A process that runs the transfer task of flights/1, as Airflow's task process does: SIGTERM calls on_kill, and it goes on."""

from __future__ import annotations

import logging
import signal
import sys
from types import SimpleNamespace

from airflow.sdk.execution_time.context import OutletEventAccessors

from relaybox.airflow.assets import log_asset
from relaybox.airflow.operators.transfer import HopTransferOperator
from relaybox.routes import load_routes


def main(path: str, try_number: int) -> None:
    logging.basicConfig(stream=sys.stdout, level=logging.INFO, format="%(message)s")
    routes = load_routes(path)
    hop = routes.hop("flights/1")
    task = HopTransferOperator(task_id="transfer", hop=hop, routes_text=routes.text, outlets=[log_asset(hop)])
    signal.signal(signal.SIGTERM, lambda *_: task.on_kill())
    instance = SimpleNamespace(dag_id="killed", run_id=path, try_number=try_number)
    task.execute({"ti": instance, "outlet_events": OutletEventAccessors(), "params": {}})


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
