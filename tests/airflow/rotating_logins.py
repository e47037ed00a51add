"""A login of Airflow's connections whose password a test changes, in the servers and in Airflow, together or one after the other."""

from __future__ import annotations

import configparser
import itertools
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass

import psycopg2
import pytest
from psycopg2 import sql

from tests.airflow.connections import change_connection
from tests.support.world import STORES

_numbers = itertools.count(1)


@dataclass
class RotatingLogin:
    """One superuser login in the servers of all three stores.

    Attributes:
        name: of the role.
        password: which the servers accept.
        told: which Airflow's connections have.
    """

    name: str
    administrators: Mapping[str, Mapping[str, str]]  # libpq's parameters, by store
    monkeypatch: pytest.MonkeyPatch
    password: str = ""
    told: str = ""

    def alter(self, clause: str, *arguments: object) -> None:
        """`alter role` in each server, past the connections and service files of tasks."""
        self._administer(sql.SQL("alter role {} " + clause).format(sql.Identifier(self.name)), *arguments)

    def change_password(self) -> None:
        """In the servers."""
        self.password = f"password {next(_numbers)}"
        self.alter("login password %s valid until 'infinity'", self.password)

    def tell_airflow(self) -> None:
        """As a secrets backend that has rotated gives the connections from now on."""
        self.told = self.password
        for store in STORES:
            change_connection(self.monkeypatch, f"RELAYBOX_{store.upper()}", login=self.name, password=self.told)

    def end_sessions(self) -> None:
        """As an administrator does after a rotation, so that nobody stays in with the former password."""
        self._administer(
            sql.SQL("select count(pg_terminate_backend(pid)) from pg_stat_activity where usename = {}").format(
                sql.Literal(self.name)
            )
        )

    def _administer(self, statement: sql.Composable, *arguments: object) -> None:
        for parameters in self._servers():
            with closing(psycopg2.connect(**parameters)) as session:
                session.autocommit = True
                with session.cursor() as cursor:
                    cursor.execute(statement, arguments or None)

    def _servers(self) -> list[Mapping[str, str]]:
        return list({(each["host"], each["port"]): each for each in self.administrators.values()}.values())

    def create(self) -> None:
        self._administer(sql.SQL("create role {} superuser login").format(sql.Identifier(self.name)))
        self.change_password()
        self.tell_airflow()

    def drop(self) -> None:
        self.end_sessions()
        self._administer(sql.SQL("drop role {}").format(sql.Identifier(self.name)))


@contextmanager
def rotating_login(monkeypatch: pytest.MonkeyPatch) -> Iterator[RotatingLogin]:
    """For the stores of the service file that is in force, with Airflow's connections for it; gone with the block."""
    services = configparser.ConfigParser(interpolation=None)
    services.read(os.environ["PGSERVICEFILE"])
    login = RotatingLogin(
        f"rotating_{os.getpid()}_{next(_numbers)}", {store: dict(services[store]) for store in STORES}, monkeypatch
    )
    login.create()
    try:
        yield login
    finally:
        login.drop()


def connection_field(store: str, field: str) -> str:
    return str(json.loads(os.environ[f"AIRFLOW_CONN_RELAYBOX_{store.upper()}"])[field])
