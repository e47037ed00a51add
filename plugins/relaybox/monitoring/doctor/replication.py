"""Replication: synchronous standbys that are missing, and slots that keep WAL."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from relaybox.monitoring.doctor.check import Diagnosis, Examined, error, notice, ok, warning
from relaybox.monitoring.doctor.numbers import show_bytes


class _Standbys(NamedTuple):
    names: str
    connected_count: int
    synchronous_count: int


def check_standbys(examined: Examined) -> Iterator[Diagnosis]:
    """A COMMIT that waits for synchronous standbys has one that answers."""
    found = examined.session.row(
        _Standbys,
        """
        select current_setting('synchronous_standby_names') as names, count(r.pid)::integer as connected_count,
            (count(*) filter (where r.sync_state in ('sync', 'quorum')))::integer as synchronous_count
        from pg_stat_replication r
        """,
    )
    said = f"{found.connected_count} standbys are connected"
    if not found.names:
        yield ok(f"{said}; COMMIT waits for none.")
    elif not examined.server.reads_all_stats:
        yield notice(
            f"{said}. Whether one of them is synchronous is hidden from login {examined.server.login}.",
            f"As a superuser: grant pg_read_all_stats to {examined.server.login};",
        )
    elif found.synchronous_count:
        yield ok(f"{said}, {found.synchronous_count} of them synchronous.")
    else:
        yield error(
            f"{said}, and none of them is synchronous; synchronous_standby_names is {found.names!r}: every COMMIT waits.",
            "Start the standby. Or, as a superuser, go on without one: "
            "alter system set synchronous_standby_names = ''; select pg_reload_conf();",
        )


class _Slot(NamedTuple):
    name: str
    active: bool
    wal_status: str | None
    kept_bytes: int | None
    has_limit: bool


_SLOTS = """
select s.slot_name::text as name, s.active, s.wal_status,
    (case when pg_is_in_recovery() then null else pg_current_wal_lsn() - s.restart_lsn end)::bigint as kept_bytes,
    current_setting('max_slot_wal_keep_size') <> '-1' as has_limit
from pg_replication_slots s
order by 1
"""


def check_slots(examined: Examined) -> Iterator[Diagnosis]:
    """No replication slot keeps WAL that nothing reads."""
    slots = examined.session.rows(_Slot, _SLOTS)
    idle = [slot for slot in slots if not slot.active and slot.kept_bytes is not None]
    for slot in idle:
        kept = f"Replication slot {slot.name} is not in use and keeps {show_bytes(slot.kept_bytes or 0)} of WAL"
        if slot.has_limit:
            yield notice(f"{kept}, up to max_slot_wal_keep_size.", _drop(slot))
        else:
            yield warning(f"{kept}. It keeps more and more: max_slot_wal_keep_size has no limit.", _drop(slot))
    if not idle:
        kept_bytes = show_bytes(max((slot.kept_bytes or 0 for slot in slots), default=0))
        yield ok(f"{len(slots)} replication slots{f', which keep {kept_bytes} of WAL' if slots else ''}.")


def _drop(slot: _Slot) -> str:
    return f"Start what reads it. If nothing does, as a superuser: select pg_drop_replication_slot('{slot.name}');"
