"""Durability: what a COMMIT promises here, and the functions that tell one history of a cluster from another."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from relaybox.monitoring.doctor.check import Diagnosis, Examined, error, notice, ok, warning


class _Settings(NamedTuple):
    fsync: str
    full_page_writes: str
    synchronous_commit: str


def check_durability(examined: Examined) -> Iterator[Diagnosis]:
    """What is committed survives a crash of the server."""
    found = examined.session.row(
        _Settings,
        """
        select current_setting('fsync') as fsync, current_setting('full_page_writes') as full_page_writes,
            (select s.reset_val from pg_settings s where s.name = 'synchronous_commit') as synchronous_commit
        """,
    )
    off = [name for name in ("fsync", "full_page_writes") if getattr(found, name) != "on"]
    is_provided = _is_provided(examined)
    reason = examined.store.durability_reason if examined.record is None else examined.record.durability_reason
    if off and is_provided:
        yield notice(
            f"{' and '.join(off)} {'is' if len(off) == 1 else 'are'} off, and durability of the store is provider: {reason}."
        )
    elif off:
        yield error(
            f"{' and '.join(off)} {'is' if len(off) == 1 else 'are'} off: a crash of the server loses confirmed messages.",
            "As a superuser: " + "; ".join([*(f"alter system set {name} = on" for name in off), "select pg_reload_conf()"]) + ";",
        )
    if found.synchronous_commit == "off":
        yield warning(
            "synchronous_commit is off for new sessions: a message that an application has committed is lost if the server "
            "crashes within the next second. Sessions of Relaybox set it to on.",
            f"Run: alter database {examined.server.database} set synchronous_commit = on",
        )
    if not off and found.synchronous_commit != "off":
        yield ok(f"fsync and full_page_writes are on, synchronous_commit is {found.synchronous_commit}.")


def _is_provided(examined: Examined) -> bool:
    """The record decides (docs/decisions/0015-durability.md). The file does only for a database that init has not made a store yet."""
    if examined.record is not None:
        return examined.record.durability == "provider"
    return examined.store.durability == "provider" and not examined.server.has_schema


_WAL_FUNCTIONS = (
    "pg_control_system()",
    "pg_current_wal_insert_lsn()",
    "pg_walfile_name(pg_lsn)",
)


class _Wal(NamedTuple):
    system_identifier: int
    timeline: str
    wal_level: str


def check_wal(examined: Examined) -> Iterator[Diagnosis]:
    """The login may call the functions that tell a restored or promoted cluster from the one before (G11)."""
    session = examined.session
    missing = session.values(
        "select f.name from unnest(%s::text[]) f (name) where not has_function_privilege(f.name::regprocedure, 'execute')",
        list(_WAL_FUNCTIONS),
    )
    if missing:
        functions = ", ".join(missing)
        refused = f"Login {examined.server.login} may not call {functions}"
        if _is_provided(examined):
            yield notice(
                f"{refused}, and durability of the store is provider: a restored or promoted cluster is noticed only by its ledgers.",
                "If the provider can give it, as a superuser: "
                f"grant execute on function {functions} to {examined.server.login}. Then run: "
                f'relaybox attest {examined.store.name} --reason "..."',
            )
            return
        if examined.server.moves_nothing:
            yield notice(
                f"{refused}. This login moves no messages; whether that of the tasks may is not known to it.",
                "Run doctor as the login of the tasks.",
            )
            return
        yield error(
            f"{refused}: no hop that leaves the store is moved.",
            f"As a superuser: grant execute on function {functions} to {examined.server.login}; If the provider gives that to nobody: "
            "set durability of the store to provider, with a reason, and run: relaybox init",
        )
    elif not examined.server.is_standby:
        wal = session.row(
            _Wal,
            "select c.system_identifier, left(pg_walfile_name(pg_current_wal_insert_lsn()), 8) as timeline, "
            "current_setting('wal_level') as wal_level from pg_control_system() c",
        )
        yield ok(f"Cluster {wal.system_identifier}, timeline {int(wal.timeline, 16)}, wal_level {wal.wal_level}.")
    else:
        yield ok("The login may call the functions of the WAL.")
