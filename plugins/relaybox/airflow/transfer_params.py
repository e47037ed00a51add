"""What the trigger form of a transfer asks for, checked by Airflow before the run begins."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from airflow.sdk import Param

from relaybox.routes import Hop
from relaybox.routes.rules import RUNNERS

RUNNER, LINGER_SECONDS = "runner", "linger_seconds"


def transfer_params(hop: Hop) -> dict[str, Param]:
    """The form shows the route's own values: an untouched form starts a default run."""
    return {
        RUNNER: Param(
            hop.runner,
            type="string",
            enum=list(RUNNERS),
            title="Who moves the messages",
            description="auto: the task itself moves little, Spark moves much. For this run only; relaybox.yaml has it for all.",
        ),
        LINGER_SECONDS: Param(
            hop.limits.linger_seconds,
            type="integer",
            minimum=0,
            maximum=3600,
            title="Wait for more, in seconds",
            description="How long the empty hop waits for more messages before the run ends. For this run only.",
        ),
    }


def with_params(hop: Hop, params: Mapping[str, Any]) -> Hop:
    """The hop as this run is to treat it."""
    limits = replace(hop.limits, linger_seconds=int(params.get(LINGER_SECONDS, hop.limits.linger_seconds)))
    return replace(hop, runner=str(params.get(RUNNER, hop.runner)), limits=limits)
