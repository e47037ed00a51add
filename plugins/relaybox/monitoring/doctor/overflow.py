"""The overflow of the outbox: messages that came when no segment was there for them, until a driver makes one of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from relaybox.amounts import amount
from relaybox.monitoring.doctor.check import Diagnosis, Examined, hidden, notice, ok, warning
from relaybox.monitoring.doctor.numbers import show_duration
from relaybox.monitoring.doctor.record import may_read
from relaybox.stores.sessions.lock_holders import LIKELIEST_FIRST, LOCK_HOLDERS, LockHolder

MOST_COUNTED = 1_000_000

SOON_SECONDS = 60.0
"""A driver tries every ten seconds."""

_SHOWN_HOLDERS = 3


class _Overflow(NamedTuple):
    row_count: int
    first_seq: int
    last_seq: int
    seconds: float


# not to_regclass(): it refuses a login that may not use the schema
_IS_THERE = """
select exists (
    select from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where n.nspname = 'relaybox_internal' and c.relname = 'sealed_segment'
)
"""

_OVERFLOW = """
select
    (
        select count(*) from (
            select from relaybox_internal.sent_rows o where o.seq >= relaybox_internal.outbox_covered() limit %s
        ) counted
    ) as row_count,
    f.seq as first_seq,
    (select max(o.seq) from relaybox_internal.sent_rows o where o.seq >= relaybox_internal.outbox_covered()) as last_seq,
    extract(epoch from clock_timestamp() - f.sent_at)::float8 as seconds
from (
    select o.seq, o.sent_at from relaybox_internal.sent_rows o
    where o.seq >= relaybox_internal.outbox_covered() order by o.seq limit 1
) f
"""

_HOLDERS = f"""{LOCK_HOLDERS}
    and l.granted and l.relation = any(%(tables)s::regclass[])
{LIKELIEST_FIRST}
"""


def check_overflow(examined: Examined) -> Iterator[Diagnosis]:
    """Each message of the outbox is in a segment. Retention drops, and a driver seals, nothing of the overflow."""
    session = examined.session
    if not examined.server.has_schema or not session.value(_IS_THERE):
        return  # the check schema tells
    if not may_read(session, "sealed_segment"):
        yield hidden(examined, "relaybox_internal.sealed_segment")
        return
    found = session.row_if_any(_Overflow, _OVERFLOW, MOST_COUNTED + 1)
    if found is None:
        yield ok("Each message of the outbox is in a segment.")
        return
    count = (
        amount(found.row_count, "message") if found.row_count <= MOST_COUNTED else f"More than {amount(MOST_COUNTED, 'message')}"
    )
    verb = "is" if found.row_count == 1 else "are"
    said = (
        f"{count} of the outbox {verb} in no segment but in its overflow, seq {found.first_seq} to {found.last_seq}, "
        f"for {show_duration(found.seconds)}"
    )
    if found.seconds < SOON_SECONDS:
        yield notice(f"{said}. Hops move them; the next driver that reads the outbox makes a segment of them.")
        return
    holders = session.rows(LockHolder, _HOLDERS, {"tables": ["relaybox.outbox", "relaybox_internal.outbox_overflow"]})
    kept = "retention drops none of them, and polls and plans read them all again"
    if not holders:
        yield warning(
            f"{said}: {kept}. No transaction has the outbox now.",
            f"A driver makes a segment of them: run a transfer of a hop that reads the outbox. Or: {_drain(examined)}",
        )
        return
    more = len(holders) - _SHOWN_HOLDERS
    named = ", ".join(map(str, holders[:_SHOWN_HOLDERS])) + (f", and {more} more" if more > 0 else "")
    yield warning(
        f"{said}: {kept}. A segment is made of them when no transaction has the outbox for a moment. These have it: {named}.",
        f"Let a transaction that is open for long end, or end it: {holders[0].ends}. "
        f"If one is open at each moment, producers have to wait for a moment. {_drain(examined)}",
    )


def _drain(examined: Examined) -> str:
    """The statement that waits longer than a driver does. Producers wait behind it, so it is for a person to choose."""
    return (
        f"As the owner of store {examined.store.name}, producers wait until the open ones have ended, a minute at most: "
        "begin; set local lock_timeout = '60s'; lock table relaybox.outbox in access exclusive mode; "
        "select relaybox_internal.ensure_outbox_segments(); commit;"
    )
