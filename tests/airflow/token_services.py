"""Stand-ins for the token services of AWS and Azure, behind the real hook of Airflow's Postgres provider."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

Issue = Callable[..., str]


def stand_in_for_aws(monkeypatch: pytest.MonkeyPatch, issue: Issue) -> None:
    """The one class of the Amazon provider that the hook uses; `issue` gets connection, host, port and login, and gives a token."""

    class AwsBaseHook:
        def __init__(self, *, aws_conn_id: str, client_type: str) -> None:
            assert client_type == "rds"
            self.conn = SimpleNamespace(generate_db_auth_token=lambda *of: issue(aws_conn_id, *of))

    at = "airflow.providers.amazon"
    for name in (at, f"{at}.aws", f"{at}.aws.hooks", f"{at}.aws.hooks.base_aws"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    sys.modules[f"{at}.aws.hooks.base_aws"].AwsBaseHook = AwsBaseHook  # type: ignore[attr-defined]


def stand_in_for_azure(monkeypatch: pytest.MonkeyPatch, issue: Issue) -> None:
    """The hook of the Azure provider; `issue` gets connection and scope, and gives a token."""
    from airflow.sdk import Connection

    def get_hook(connection: Any, **_: object) -> Any:
        return SimpleNamespace(get_token=lambda scope: SimpleNamespace(token=issue(connection.conn_id, scope)))

    monkeypatch.setattr(Connection, "get_hook", get_hook)
