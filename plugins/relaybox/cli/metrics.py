"""The command that writes what a monitoring system reads."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from relaybox.monitoring import documents
from relaybox.monitoring.metrics import collect, read_signals, render
from relaybox.monitoring.status import read_status
from relaybox.routes import load_routes

if TYPE_CHECKING:
    from relaybox.cli.exits import Settings


def run_metrics(settings: Settings, *, as_json: bool) -> None:
    """Always exit code 0: a store that does not answer is a metric."""
    routes = load_routes(settings.config)
    status, signals = read_status(routes), read_signals(routes)
    if as_json:
        documents.write(
            {
                "measured_at": status.measured_at.isoformat(),
                "samples": [
                    {"metric": sample.metric, "labels": dict(sample.labels), "value": float(sample.value)}
                    for sample in collect(status, signals)
                ],
            }
        )
    else:
        sys.stdout.write(render(status, signals))
