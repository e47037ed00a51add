"""The page inside a whole Airflow API server, in this process: Airflow's middlewares, auth manager, API and audit log are real."""

from __future__ import annotations

import functools
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

ORIGIN = "http://testserver"
USERS = {"nobody": "", "viewer": "viewer", "oncall": "user", "operator": "op"}
"""User names and their roles in Airflow; a user without a role is logged in and may do nothing."""


@dataclass(frozen=True)
class PageServer:
    """A running API server without a port."""

    app: FastAPI
    page: FastAPI

    def client(self, user: str | None, **headers: str) -> TestClient:
        """What the browser of a user sends: the cookie of a login, if any, and the headers that come from the page itself."""
        client = TestClient(
            self.app, base_url=ORIGIN, headers={"sec-fetch-site": "same-origin", **headers}, follow_redirects=False
        )
        if user is not None:
            client.cookies.set("_token", token_of(user))
        return client


def token_of(user: str) -> str:
    """What a login would give."""
    from airflow.api_fastapi.app import get_auth_manager
    from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser

    return str(get_auth_manager().generate_jwt(SimpleAuthManagerUser(username=user, role=USERS[user] or None)))


@contextmanager
def page_server(directory: Path) -> Iterator[PageServer]:
    """Airflow over an empty database of its own. Afterwards this process is as it was: without one that can be opened."""
    from airflow import settings
    from airflow.api_fastapi.app import create_app, purge_cached_app

    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("AIRFLOW__DATABASE__SQL_ALCHEMY_CONN", f"sqlite:///{directory}/airflow.db")
        environment.setenv("AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS", ",".join(f"{name}:{role}" for name, role in USERS.items()))
        environment.setenv("AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE", str(directory / "passwords.json"))
        environment.setenv(
            "AIRFLOW__API_AUTH__JWT_SECRET", "a secret of sixty-four bytes and more, for the tokens of these tests only"
        )
        environment.setenv("AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION", "False")
        (directory / "airflow.db").write_bytes(_empty_database())
        _configure(settings)
        try:
            app = create_app(apps="core")
            (page,) = [route.app.app for route in app.routes if getattr(route, "path", "") == "/relaybox"]
            yield PageServer(app, page)
        finally:
            purge_cached_app()
            settings.dispose_orm()
    _configure(settings)


@functools.cache
def _empty_database() -> bytes:
    """The SQLite file that `airflow db migrate` makes, made once: it takes longer than most modules that need a server."""
    from airflow import settings
    from airflow.utils.db import initdb

    with TemporaryDirectory() as directory, pytest.MonkeyPatch.context() as environment:
        file = Path(directory, "airflow.db")
        environment.setenv("AIRFLOW__DATABASE__SQL_ALCHEMY_CONN", f"sqlite:///{file}")
        _configure(settings)
        try:
            initdb()
        finally:
            settings.dispose_orm()
        with closing(sqlite3.connect(file)) as database:
            return database.serialize()


def _configure(settings: Any) -> None:
    settings.configure_vars()
    settings.configure_orm()


def register_dags(routes_file: Path) -> None:
    """Writes the DAGs of these routes into Airflow's database, as its DAG processor does."""
    from airflow.dag_processing.bundles.manager import DagBundlesManager
    from airflow.dag_processing.dagbag import DagBag, sync_bag_to_db

    DagBundlesManager().sync_bundles_to_db()
    assert os.environ["RELAYBOX_CONFIG"] == str(routes_file)
    bag = DagBag(os.environ["AIRFLOW__CORE__DAGS_FOLDER"], bundle_name="dags-folder")
    assert bag.import_errors == {}
    sync_bag_to_db(bag, "dags-folder", bundle_version=None)
