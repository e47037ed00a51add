"""What operators of a route's DAGs have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator

if TYPE_CHECKING:
    from relaybox.routes import Route


class RouteOperator(BaseOperator):
    """An operator that works on one route."""

    def __init__(self, *, route: Route, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.route = route
