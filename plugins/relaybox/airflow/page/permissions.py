"""Who may see and do what: Airflow's login, and Airflow's own rights on the DAGs of a hop."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import urlsplit

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.base_user import BaseUser
from airflow.api_fastapi.auth.managers.models.resource_details import AccessView, DagAccessEntity, DagDetails
from airflow.api_fastapi.core_api.security import GetUserDep, requires_access_view
from airflow.configuration import conf
from airflow.models.dag import DagModel
from fastapi import Depends, HTTPException, Request, status

from relaybox.airflow.naming import confirm_dag_id, transfer_dag_id, transfer_dag_id_of
from relaybox.airflow.page.threads import in_page_thread
from relaybox.routes import Hop

SAFE_METHODS = {"GET", "HEAD", "OPTIONS"}

_may_see_plugins = requires_access_view(AccessView.PLUGINS)


async def may_see_the_page(request: Request, user: GetUserDep) -> None:
    """The dependency of every route: 401 without login, 403 for who may see no plugin's page."""
    await in_page_thread(_may_see_plugins, request, user)


async def refuse_other_origins(request: Request) -> None:
    """The other dependency of every route: only the page's own scripts, or a client that sends its token itself, may change anything.

    Browsers add the cookie to what another site has them post; they also say where it came from, and no script can change that.
    """
    if request.method in SAFE_METHODS:
        return
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    if site is not None:
        own = site == "same-origin"
    elif origin is not None:
        own = _host_of(origin) in _own_hosts(request)
    else:
        own = "authorization" in request.headers
    if not own:
        raise HTTPException(status.HTTP_403_FORBIDDEN, "This request came from another site.")


def _host_of(origin: str) -> str | None:
    """None: that is no origin at all."""
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return None


def _own_hosts(request: Request) -> set[str]:
    return {request.headers.get("host", ""), urlsplit(conf.get("api", "base_url", fallback="")).netloc} - {""}


class Rights:
    """What the user of one request may see and do; asked of Airflow's auth manager, never kept."""

    def __init__(self, user: BaseUser) -> None:
        self._user = user

    def may_read(self, hop: Hop) -> bool:
        """Permission to read the DAG grants its statistics, never payloads."""
        return self.may_read_named(hop.name)

    def may_read_named(self, hop: str) -> bool:
        """The same of a hop's name: one that no route has any more had a DAG as well."""
        return self.may_read_dag(transfer_dag_id_of(hop))

    def may_read_dag(self, dag_id: str) -> bool:
        return bool(get_auth_manager().is_authorized_dag(method="GET", details=_details(dag_id), user=self._user))

    def may_run(self, hop: Hop) -> bool:
        """Who may start a run of the hop's DAG; also sees what applications wrote into their statements."""
        return self.may_start(transfer_dag_id(hop))

    def may_start(self, dag_id: str) -> bool:
        return bool(
            get_auth_manager().is_authorized_dag(
                method="POST", access_entity=DagAccessEntity.RUN, details=_details(dag_id), user=self._user
            )
        )

    def may_pause(self, hop: Hop) -> bool:
        return all(
            get_auth_manager().is_authorized_dag(method="PUT", details=_details(dag_id), user=self._user)
            for dag_id in (transfer_dag_id(hop), confirm_dag_id(hop))
        )


def _details(dag_id: str) -> DagDetails:
    team = DagModel.get_team_name(dag_id) if conf.getboolean("core", "multi_team", fallback=False) else None
    return DagDetails(id=dag_id, team_name=team)


async def rights_of(user: GetUserDep) -> Rights:
    """For `Depends`: of the user of this request."""
    return Rights(user)


RightsDep = Annotated[Rights, Depends(rights_of)]
