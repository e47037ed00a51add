"""Airflow's simple auth manager with a right per DAG, as FAB and Keycloak have: a user acts on the DAGs of one route."""

from __future__ import annotations

from typing import Any

from airflow.api_fastapi.auth.managers.models.resource_details import DagDetails
from airflow.api_fastapi.auth.managers.simple.simple_auth_manager import SimpleAuthManager

ROUTE_OF_USER = {"ann": "flights", "ben": "crew"}
SHARED_DAGS = ("relaybox_verify", "relaybox_retention", "relaybox_watch")


class RouteAuthManager(SimpleAuthManager):
    """A user of ROUTE_OF_USER has the rights of the user's role on DAGs of that route, and none on any other DAG."""

    def is_authorized_dag(self, *, details: DagDetails | None = None, user: Any, **asked: Any) -> bool:
        route = ROUTE_OF_USER.get(user.username)
        if route is not None and details is not None and details.id is not None and not _is_of(details.id, route):
            return False
        return bool(super().is_authorized_dag(details=details, user=user, **asked))


def _is_of(dag_id: str, route: str) -> bool:
    _, _, rest = dag_id.partition("__")
    return rest == route or rest.rpartition("_")[0] == route
