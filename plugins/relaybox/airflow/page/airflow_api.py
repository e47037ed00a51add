"""Airflow's own REST API, asked in the name of the user of a request.

Buttons go through it, so that Airflow checks the rights, starts the run and writes its audit log as it does for its own buttons.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any
from urllib.parse import quote

import httpx
from airflow.api_fastapi.auth.managers.base_auth_manager import COOKIE_NAME_JWT_TOKEN
from fastapi import Depends, HTTPException, Request, status

from relaybox.airflow.page.turns import without_turn
from relaybox.airflow.page.urls import AIRFLOW


class AirflowApi:
    """The API of the Airflow that serves this request, called in this process: no network, no other credentials."""

    def __init__(self, request: Request) -> None:
        self._app = request.scope[AIRFLOW]
        self._root = str(getattr(self._app, "root_path", "")).rstrip("/")
        self._headers = _credentials(request)
        self._base_url = _base_url(request.headers.get("host", "localhost"))

    async def start_run(self, dag_id: str, note: str, conf: Mapping[str, Any] | None = None) -> str:
        """Starts a run of a DAG with these parameters; returns its id."""
        run = await self._ask(
            "POST", f"/dags/{quote(dag_id)}/dagRuns", {"logical_date": None, "note": note, "conf": dict(conf or {})}
        )
        return str(run["dag_run_id"])

    async def pause(self, dag_id: str, *, paused: bool) -> None:
        await self._ask("PATCH", f"/dags/{quote(dag_id)}?update_mask=is_paused", {"is_paused": paused})

    async def _ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        transport = httpx.ASGITransport(app=self._app)
        client = httpx.AsyncClient(transport=transport, base_url=self._base_url, headers=self._headers)
        async with without_turn(), client:
            answer = await client.request(method, f"{self._root}/api/v2{path}", json=body)
        if answer.is_success:
            return answer.json()
        raise HTTPException(
            answer.status_code, _REFUSED.get(answer.status_code, "Airflow could not do it; its own log says why.")
        )


_REFUSED = {
    401: "Not authenticated",
    403: "Airflow does not allow you to do this.",
    404: "Airflow does not know this DAG yet: its DAG processor has not read it.",
}


def _base_url(host: str) -> httpx.URL:
    """What Airflow itself was reached by: it may answer some hosts only."""
    try:
        url = httpx.URL(f"http://{host}")
        _ = url.host  # an international name is decoded only when it is asked for
    except (httpx.InvalidURL, UnicodeError) as error:
        raise HTTPException(status.HTTP_400_BAD_REQUEST, "The request's Host header is no host.") from error
    return url


def _credentials(request: Request) -> dict[str, str]:
    """What this request proved itself by, and nothing else of it."""
    if authorization := request.headers.get("authorization"):
        return {"authorization": authorization}
    if token := request.cookies.get(COOKIE_NAME_JWT_TOKEN):
        return {"authorization": f"Bearer {token}"}
    return {}


async def _airflow_api(request: Request) -> AirflowApi:
    return AirflowApi(request)


AirflowApiDep = Annotated[AirflowApi, Depends(_airflow_api)]
