"""The tables of a store against those that init makes: columns, defaults, constraints, indexes, sequences, policies.

`sql/table_definitions.json` has them as the catalog of a new store writes them, the same on each version of Postgres; `make schema` writes
the file. The store compares (relaybox_internal.list_table_defects()), so that a script of psql can do it too (stores.init.script).
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

from relaybox.stores.schema.object_defects import are_altered
from relaybox.stores.schema.sql_files import read_init_file, sql_directory

if TYPE_CHECKING:
    from relaybox.stores.schema.statements import Statements
    from relaybox.stores.sessions.store_session import StoreSession

_JUDGES = (
    "list_table_definitions",
    "list_table_defects",
    "list_partition_defects",
    "list_sequence_defects",
    "outbox_seq_state",
    "hops_that_planned",
    "list_inheritance_defects",
    "list_message_id_defects",
)
"""What they say counts only while they are as init made them."""


class TableDefect(NamedTuple):
    """A row of relaybox_internal.list_table_defects(). `state`: missing, changed or added."""

    state: str
    defect: str
    statement: str
    is_mendable: bool


class TableRepairs(NamedTuple):
    """What an init repaired of the tables of a store, and what it left, each with the statement that repairs it."""

    repaired: tuple[str, ...]
    differing: tuple[str, ...]


def read_definitions() -> str:
    """The tables that init makes: JSON by table, kind and name."""
    return (sql_directory() / "table_definitions.json").read_text(encoding="utf-8")


def find_table_defects(session: StoreSession) -> tuple[TableDefect, ...] | None:
    """What differs in the tables of a store of this schema version; None: the functions that know it are not as init made them.

    Changes nothing, takes no lock. Drivers, readers, viewers and the owner may ask. In the session's transaction.
    """
    if are_altered(session, _JUDGES):
        return None
    return tuple(
        session.rows(TableDefect, "select * from relaybox_internal.list_table_defects(%s::jsonb)", _compact(read_definitions()))
    )


def repair_tables(session: Statements) -> TableRepairs:
    """Repairs what loses nothing, in the session's transaction, after the functions of this version are there. A script tells no result."""
    session.set_local({"relaybox_init.tables": _compact(read_definitions())})
    session.execute(read_init_file("repair_tables"))
    return TableRepairs(_told(session, "repaired_tables"), _told(session, "differing_tables"))


def _told(session: Statements, setting: str) -> tuple[str, ...]:
    return tuple(json.loads(session.value(f"select current_setting('relaybox_init.{setting}')") or "[]"))


def _compact(text: str) -> str:
    return json.dumps(json.loads(text), separators=(",", ":"))
