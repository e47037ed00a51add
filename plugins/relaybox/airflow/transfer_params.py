"""The trigger form of a transfer. Airflow validates it before the run begins."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from airflow.sdk import Param

from relaybox.routes import Hop
from relaybox.routes.route_rules import RUNNERS

RUNNER, LINGER_SECONDS = "runner", "linger_seconds"


def transfer_params(hop: Hop) -> dict[str, Param]:
    """The form shows the route's own values: an untouched form starts a default run."""
    return {
        RUNNER: Param(
            hop.runner,
            type="string",
            enum=list(RUNNERS),
            title="Runner",
            description="auto: the task moves small backlogs, Spark moves large ones. Only for this run; the default is in relaybox.yaml.",
        ),
        LINGER_SECONDS: Param(
            hop.limits.linger_seconds,
            type="integer",
            minimum=0,
            maximum=3600,
            title="Linger seconds",
            description="How long the empty hop waits for more messages before the run ends; 3 s at most, Spark 5 s. Only for this run.",
        ),
    }


def with_params(hop: Hop, params: Mapping[str, Any]) -> Hop:
    """Returns the hop with the values of this run."""
    limits = replace(hop.limits, linger_seconds=int(params.get(LINGER_SECONDS, hop.limits.linger_seconds)))
    return replace(hop, runner=str(params.get(RUNNER, hop.runner)), limits=limits)
