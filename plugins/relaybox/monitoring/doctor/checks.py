"""All checks of a store, in the order of the answer. A new check is one function and one line here."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from relaybox.monitoring.doctor.adopted_tables import check_adopted_tables
from relaybox.monitoring.doctor.check import Check
from relaybox.monitoring.doctor.clocks import check_clock
from relaybox.monitoring.doctor.connection_limits import check_connections
from relaybox.monitoring.doctor.dead_letters import check_dead_letters
from relaybox.monitoring.doctor.disk import check_disk
from relaybox.monitoring.doctor.durability import check_durability, check_wal
from relaybox.monitoring.doctor.endpoints import check_endpoints
from relaybox.monitoring.doctor.event_triggers import check_event_triggers
from relaybox.monitoring.doctor.foreign_objects import check_extensions, check_foreign_objects
from relaybox.monitoring.doctor.foreign_settings import check_settings
from relaybox.monitoring.doctor.links import check_pooler, check_tls
from relaybox.monitoring.doctor.locks import check_locks
from relaybox.monitoring.doctor.logins import check_login, check_roles
from relaybox.monitoring.doctor.overflow import check_overflow
from relaybox.monitoring.doctor.payloads import check_payloads
from relaybox.monitoring.doctor.repairs import (
    check_functions_version,
    check_objects,
    check_rights,
    check_tables,
)
from relaybox.monitoring.doctor.replication import check_slots, check_standbys
from relaybox.monitoring.doctor.schema_checks import check_schema_checks
from relaybox.monitoring.doctor.schemas import check_hops, check_name, check_owner, check_schema
from relaybox.monitoring.doctor.servers import check_encoding, check_primary, check_version
from relaybox.monitoring.doctor.sinks import check_sinks
from relaybox.monitoring.doctor.statement_logs import check_statement_logs
from relaybox.monitoring.doctor.subscriptions import check_subscriptions
from relaybox.monitoring.doctor.switches import check_switches
from relaybox.monitoring.doctor.transactions import check_open_transactions, check_prepared_transactions
from relaybox.monitoring.doctor.unlogged import check_unlogged
from relaybox.monitoring.doctor.vacuum import check_autovacuum, check_dead_rows, check_wraparound

CHECKS: Mapping[str, Check] = MappingProxyType({
    "pooler": check_pooler,
    "tls": check_tls,
    "clock": check_clock,
    "version": check_version,
    "primary": check_primary,
    "encoding": check_encoding,
    "durability": check_durability,
    "unlogged": check_unlogged,
    "wal": check_wal,
    "settings": check_settings,
    "statement_logs": check_statement_logs,
    "standbys": check_standbys,
    "replication_slots": check_slots,
    "disk": check_disk,
    "connections": check_connections,
    "locks": check_locks,
    "open_transactions": check_open_transactions,
    "prepared_transactions": check_prepared_transactions,
    "overflow": check_overflow,
    "autovacuum": check_autovacuum,
    "dead_rows": check_dead_rows,
    "wraparound": check_wraparound,
    "extensions": check_extensions,
    "event_triggers": check_event_triggers,
    "foreign_objects": check_foreign_objects,
    "login": check_login,
    "roles": check_roles,
    "owner": check_owner,
    "schema": check_schema,
    "functions": check_functions_version,
    "objects": check_objects,
    "tables": check_tables,
    "rights": check_rights,
    "store_name": check_name,
    "switches": check_switches,
    "hops": check_hops,
    "subscriptions": check_subscriptions,
    "sinks": check_sinks,
    "dead_letters": check_dead_letters,
    "endpoints": check_endpoints,
    "adopted_tables": check_adopted_tables,
    "payloads": check_payloads,
    "schema_checks": check_schema_checks,
})  # fmt: skip

CONNECTION, STORE_CLOCKS = "connection", "store_clocks"
"""What stands for the checks of a store that can't be asked, and for what is compared between stores."""
