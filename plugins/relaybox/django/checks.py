"""System checks: what is wrong with the settings, and with `--database` what a database lacks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.core.checks import Error, Warning, register  # noqa: A004  # Django's name
from django.db import connections

_LOOK = """
select
    to_regclass('relaybox.outbox') is not null,
    case when to_regclass('relaybox.outbox') is not null
        then has_column_privilege('relaybox.outbox', 'payload', 'insert') end,
    case when to_regprocedure('relaybox.ack(text, bigint, text)') is not null
        then has_function_privilege('relaybox.ack(text, bigint, text)', 'execute') end
"""


def register_checks() -> None:
    """Django calls them in `manage.py check`, and check_databases() with `--database ALIAS`."""
    register("relaybox")(check_settings)
    register("database")(check_databases)


def check_settings(app_configs: Any = None, **options: Any) -> list[Any]:
    """At least one database is of Postgres."""
    if any(connections[alias].vendor == "postgresql" for alias in connections):
        return []
    return [
        Error(
            "No database of settings.DATABASES is of Postgres: the outbox is a table of Postgres.",
            hint="Set ENGINE to django.db.backends.postgresql.",
            id="relaybox.E001",
        )
    ]


def check_databases(app_configs: Any = None, databases: Sequence[str] | None = None, **options: Any) -> list[Any]:
    """Each checked database of Postgres is a store, and the login may send or consume there."""
    found: list[Any] = []
    for alias in databases or ():
        connection = connections[alias]
        if connection.vendor != "postgresql":
            continue
        with connection.cursor() as cursor:
            cursor.execute(_LOOK)
            is_store, may_send, may_consume = cursor.fetchone()
        name, login = connection.settings_dict["NAME"], connection.settings_dict["USER"] or "the login"
        if not is_store:
            found.append(
                Warning(
                    f"The database {alias} ({name}) has no outbox: it is no store of Relaybox.",
                    hint="If it shall be one, name it in relaybox.yaml and run: relaybox init",
                    id="relaybox.W001",
                )
            )
        elif not (may_send or may_consume):
            found.append(
                Error(
                    f"In the database {alias} ({name}) {login} may neither send nor consume.",
                    hint=f"Run as its owner: grant relaybox_producer, relaybox_consumer to {login};",
                    id="relaybox.E002",
                )
            )
    return found
