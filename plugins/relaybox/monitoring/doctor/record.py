"""What the store has on record of its own rules. Init writes it; until the next init the record decides, not relaybox.yaml."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from relaybox.stores.sessions.store_session import StoreSession


class StoreRecord(NamedTuple):
    """The rules of a store that relaybox.yaml can switch. A store of an earlier version has the defaults of what it does not know."""

    durability: str
    durability_reason: str | None
    durability_said_by: str | None
    bind_senders: bool
    bind_subscriptions: bool
    bind_topics: bool
    require_approval: bool


_RECORD = """
select coalesce(r.row ->> 'durability', 'server') as durability, r.row ->> 'durability_reason' as durability_reason,
    r.row ->> 'durability_said_by' as durability_said_by,
    coalesce((select o.relrowsecurity from pg_class o where o.oid = to_regclass('relaybox.outbox')), false) as bind_senders,
    coalesce((r.row ->> 'bind_subscriptions')::boolean, false) as bind_subscriptions,
    coalesce((r.row ->> 'bind_topics')::boolean, false) as bind_topics,
    coalesce((r.row ->> 'require_approval')::boolean, false) as require_approval
from (select to_jsonb(s) as row from relaybox_internal.store s) r
"""


def read_record(session: StoreSession) -> StoreRecord | None:
    """None: there is no store, or its record is hidden from the login."""
    return session.row_if_any(StoreRecord, _RECORD) if may_read(session, "store") else None


def may_read(session: StoreSession, table: str, schema: str = "relaybox_internal") -> bool:
    """Whether the table exists, and the login may read it; a login without rights on the schema is told by no error."""
    return bool(
        session.value(
            """
            select coalesce(bool_and(has_schema_privilege(n.oid, 'usage') and has_table_privilege(c.oid, 'select')), false)
            from pg_class c join pg_namespace n on n.oid = c.relnamespace where n.nspname = %s and c.relname = %s
            """,
            schema,
            table,
        )
    )
