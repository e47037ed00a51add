"""Airflow's connections, changed by a test."""

from __future__ import annotations

import json
import os

import pytest


def change_connection(monkeypatch: pytest.MonkeyPatch, connection: str, **fields: object) -> None:
    variable = f"AIRFLOW_CONN_{connection}"
    monkeypatch.setenv(variable, json.dumps({**json.loads(os.environ[variable]), **fields}))
