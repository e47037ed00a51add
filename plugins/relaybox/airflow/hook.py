"""The hook of a store: Airflow's "Test" button of its connection."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import psycopg2
from airflow.sdk import BaseHook
from airflow.sdk.exceptions import AirflowNotFoundException

from relaybox.airflow.credentials import read_credentials
from relaybox.airflow.provider import CONNECTION_TYPE
from relaybox.airflow.store_sessions import open_session
from relaybox.errors import RelayboxError
from relaybox.stores.schema.namespaces import IS_STORE

_QUERY = f"""
select current_user, current_database(), current_setting('server_version'), {IS_STORE},
    array(
        select rolname::text from pg_roles
        where rolname like 'relaybox\\_%' and pg_has_role(current_user, oid, 'usage') order by rolname
    )
"""  # noqa: S608


class StoreHook(BaseHook):
    """A connection of type relaybox, or of type postgres, which tasks take too.

    Args:
        relaybox_conn_id: of the store; by default of a store is relaybox_<store>.
    """

    conn_name_attr = "relaybox_conn_id"
    default_conn_name = "relaybox_default"
    conn_type = CONNECTION_TYPE
    hook_name = "Relaybox store"

    def __init__(self, relaybox_conn_id: str = default_conn_name, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.relaybox_conn_id = relaybox_conn_id

    def test_connection(self) -> tuple[bool, str]:
        """Opens a session as every task does; returns whether it can work, and what it found or what to do."""
        try:
            parameters = read_credentials(self.relaybox_conn_id)
            with closing(open_session(self.relaybox_conn_id, parameters, "relaybox test")) as session, session.cursor() as cursor:
                cursor.execute(_QUERY)
                (found,) = cursor.fetchall()
        except (RelayboxError, AirflowNotFoundException, psycopg2.Error) as error:
            return False, " ".join(str(error).split())
        return _judge(*found)


def _judge(login: str, database: str, version: str, is_store: bool, roles: list[str]) -> tuple[bool, str]:  # noqa: FBT001  a row
    reached = f"Reached database {database} as {login}, on Postgres {version}."
    if not is_store:
        return False, f"{reached} It is no store yet. Run: relaybox init"
    if not roles:
        return False, (
            f"{reached} The login has no role of Relaybox. As a superuser, or a role with the admin option on relaybox_driver, run: "
            f"grant relaybox_driver to {login}; (for the page and the triggerer: grant relaybox_viewer to {login};)"
        )
    return True, f"{reached} The login has: {', '.join(roles)}."
