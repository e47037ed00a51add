"""What the demo and the tests ask of Airflow's REST API."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from http.client import HTTPConnection, HTTPException
from typing import Any
from urllib.parse import quote, urlencode

from relaybox.errors import StackFailed

_COMPONENTS = ("metadatabase", "scheduler", "dag_processor", "triggerer")
_ENDED = {"success", "failed"}
_ANSWER_SECONDS = 120.0  # a loaded machine answers late
_POLL_SECONDS = 0.2


@dataclass(frozen=True)
class AirflowClient:
    """A client of an Airflow that needs no login."""

    port: int
    host: str = "127.0.0.1"

    def is_healthy(self) -> bool:
        """Whether all four components answer."""
        try:
            health = self._request("GET", "/api/v2/monitor/health", {}, timeout_seconds=10)
        except StackFailed:
            return False
        return all(health.get(component, {}).get("status") == "healthy" for component in _COMPONENTS)

    @cached_property
    def token(self) -> str:
        """A token of the anonymous administrator, asked for once."""
        return str(self._request("GET", "/auth/token", {})["access_token"])

    def get(self, path: str, **query: object) -> Any:
        """The JSON answer of GET /api/v2/PATH."""
        return self._request("GET", f"/api/v2/{path}?{urlencode(query)}", self._authorization())

    def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """The JSON answer of POST /api/v2/PATH."""
        return self._request("POST", f"/api/v2/{path}", self._authorization(), json.dumps(body))

    def patch(self, path: str, body: Mapping[str, Any]) -> Any:
        """The JSON answer of PATCH /api/v2/PATH."""
        return self._request("PATCH", f"/api/v2/{path}", self._authorization(), json.dumps(body))

    def put(self, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """The JSON answer of PUT /api/v2/PATH."""
        return self._request("PUT", f"/api/v2/{path}", self._authorization(), json.dumps(body or {}))

    def delete(self, path: str) -> None:
        """DELETE /api/v2/PATH, which answers nothing."""
        self._request("DELETE", f"/api/v2/{path}", self._authorization())

    def trigger_dag(self, dag_id: str, conf: Mapping[str, Any] | None = None) -> str:
        """Starts a run; returns its id."""
        run = self.post(f"dags/{quote(dag_id)}/dagRuns", {"logical_date": None, "conf": dict(conf or {})})
        return str(run["dag_run_id"])

    def wait_for_run(self, dag_id: str, run_id: str, *, deadline_seconds: float) -> str:
        """Waits until a run has ended; returns `success` or `failed`.

        Raises:
            StackFailed: it still runs at the deadline.
        """
        deadline = time.monotonic() + deadline_seconds
        while (state := self._run_state(dag_id, run_id)) not in _ENDED:
            if time.monotonic() > deadline:
                raise StackFailed(f"run {run_id} of DAG {dag_id} is still {state} after {deadline_seconds:.0f} s.")
            time.sleep(_POLL_SECONDS)
        return state

    def _run_state(self, dag_id: str, run_id: str) -> str:
        return str(self.get(f"dags/{quote(dag_id)}/dagRuns/{quote(run_id, safe='')}")["state"])

    def _authorization(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"}

    def _request(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str],
        body: str | None = None,
        *,
        timeout_seconds: float = _ANSWER_SECONDS,
    ) -> Any:
        connection = HTTPConnection(self.host, self.port, timeout=timeout_seconds)
        try:
            connection.request(method, path, body, {"Content-Type": "application/json", **headers})
            response = connection.getresponse()
            content = response.read().decode()
        except (OSError, HTTPException) as error:
            raise StackFailed(f"Airflow at {self.host}:{self.port} does not answer: {error!r}.") from error
        finally:
            connection.close()
        if response.status >= 300:
            raise StackFailed(f"Airflow answered {response.status} to {method} {path}: {content[:500]}")
        return json.loads(content) if content else None
