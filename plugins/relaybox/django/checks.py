"""System checks: what is wrong with the settings, and with `--database` what a database lacks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.core.checks import Error, Warning, register  # noqa: A004  # Django's name
from django.db import OperationalError, connections

_LOOK = """
select
    count(*) > 0,
    coalesce(bool_or(has_schema_privilege(n.oid, 'usage') and has_column_privilege(o.oid, 'payload', 'insert')), false),
    coalesce(bool_or(has_schema_privilege(n.oid, 'usage') and (
        select bool_or(has_function_privilege(p.oid, 'execute')) from pg_proc p where p.pronamespace = n.oid and p.proname = 'ack'
    )), false)
from pg_class o join pg_namespace n on n.oid = o.relnamespace
where n.nspname = 'relaybox' and o.relname = 'outbox'
"""
"""By the catalog: a name such as relaybox.outbox can't be looked up by a login without a right on the schema."""


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
    """Each checked database of Postgres can be reached and is a store, and the login may send or consume there."""
    found: list[Any] = []
    for alias in databases or ():
        connection = connections[alias]
        if connection.vendor != "postgresql":
            continue
        name, login = connection.settings_dict["NAME"], connection.settings_dict["USER"] or "the login"
        try:
            with connection.cursor() as cursor:
                cursor.execute(_LOOK)
                is_store, may_send, may_consume = cursor.fetchone()
        except OperationalError as error:
            found.append(
                Error(
                    f"The database {alias} ({name}) can't be reached as {login}: {' '.join(str(error).split())}",
                    hint="Correct settings.DATABASES. In a store a login without a role of Relaybox may not connect: "
                    f"grant relaybox_producer, relaybox_consumer to {login};",
                    id="relaybox.E003",
                )
            )
            continue
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
