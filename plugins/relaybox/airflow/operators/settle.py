"""The task that updates the confirmations of a hop."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from relaybox.airflow.assets import settled_asset
from relaybox.airflow.links import BatchesLink
from relaybox.airflow.naming import run_name
from relaybox.airflow.operators.route_operator import RouteOperator
from relaybox.airflow.service_file import service_file
from relaybox.airflow.task_errors import terminal_errors_fail_at_once
from relaybox.hops.confirmations import settle_hop
from relaybox.routes import Hop, Route

if TYPE_CHECKING:
    from airflow.sdk import Context


class HopSettleOperator(RouteOperator):
    """Reads the confirmations at the destination and records them at the source. Idempotent; never early."""

    operator_extra_links = (BatchesLink(),)

    def __init__(self, *, route: Route, hop: Hop, **kwargs: Any) -> None:
        super().__init__(route=route, **kwargs)
        self.hop = hop

    def execute(self, context: Context) -> dict[str, int]:
        """Returns how far the hop is settled, for display in XCom."""
        recorded_by = run_name(context["ti"])
        with terminal_errors_fail_at_once(), service_file((self.hop.source, self.hop.destination)):
            settled = settle_hop(self.route, self.hop, recorded_by=recorded_by)
        numbers = {"through_position": settled.through_position, "newly_settled": settled.newly_settled}
        context["outlet_events"][settled_asset(self.hop)].extra = dict(numbers)
        return numbers
