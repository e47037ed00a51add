"""Room for locks: a statement that reads a whole outbox or log locks every segment of it, and every index of each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from relaybox.monitoring.doctor.check import Diagnosis, Examined, ok, warning

WARNING_SHARE = 0.5


class _Locks(NamedTuple):
    """`room`: how many locks the server has room for, of all sessions together."""

    relations: int
    segments: int
    per_transaction: int
    sessions: int

    @property
    def room(self) -> int:
        return self.per_transaction * self.sessions


_LOCKS = """
select (count(*))::integer as relations, (count(*) filter (where c.relispartition and c.relkind = 'r'))::integer as segments,
    current_setting('max_locks_per_transaction')::integer as per_transaction,
    current_setting('max_connections')::integer + current_setting('max_prepared_transactions')::integer as sessions
from pg_class c join pg_namespace n on n.oid = c.relnamespace
where n.nspname in ('relaybox', 'relaybox_internal') and c.relkind in ('r', 'p', 'i', 'I')
"""


def check_locks(examined: Examined) -> Iterator[Diagnosis]:
    """The server has room for the locks of a dump, or of a query of all messages."""
    found = examined.session.row(_Locks, _LOCKS)
    said = (
        f"The store has {found.relations:,} tables and indexes, {found.segments:,} of them segments; the server has room for "
        f"{found.room:,} locks of all sessions"
    )
    if found.relations < WARNING_SHARE * found.room:
        yield ok(f"{said}.")
        return
    needed = max(2 * found.per_transaction, -(-4 * found.relations // found.sessions))
    yield warning(
        f'{said}. A dump, or a query of all messages, can end with "out of shared memory", also that of another session.',
        "Have retention drop segments. Or, as a superuser: "
        f"alter system set max_locks_per_transaction = {needed}; then restart the server.",
    )
