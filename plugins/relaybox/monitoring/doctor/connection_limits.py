"""Connections in use, against the limits of the server, the database and the login."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from relaybox.monitoring.doctor.check import Diagnosis, Examined, ok, warning

WARNING_SHARE = 0.8


class _Limit(NamedTuple):
    of: str
    used: int
    allowed: int
    raise_it: str


_LIMITS = """
select 'the server' as of, (select sum(d.numbackends)::integer from pg_stat_database d) as used,
    current_setting('max_connections')::integer - current_setting('superuser_reserved_connections')::integer
        - coalesce(current_setting('reserved_connections', true)::integer, 0) as allowed,
    'alter system set max_connections = ' || 2 * current_setting('max_connections')::integer || '; then restart the server.' as raise_it
union all
select format('database %%I', d.datname), pg_stat_get_db_numbackends(d.oid), d.datconnlimit,
    format('alter database %%I connection limit %%s', d.datname, greatest(2 * d.datconnlimit, 10)) || ';'
from pg_database d where d.datname = current_database() and d.datconnlimit >= 0
union all
select format('login %%I', r.rolname), (select count(*)::integer from pg_stat_activity a where a.usesysid = r.oid), r.rolconnlimit,
    format('alter role %%I connection limit %%s', r.rolname, greatest(2 * r.rolconnlimit, 10)) || ';'
from pg_roles r where r.rolname = current_user and r.rolconnlimit >= 0
"""


def check_connections(examined: Examined) -> Iterator[Diagnosis]:
    """There are connections left: a driver needs several, each worker of Spark one."""
    for limit in examined.session.rows(_Limit, _LIMITS, {}):
        said = f"{limit.used} of {limit.allowed} connections of {limit.of} are in use."
        if limit.used >= WARNING_SHARE * limit.allowed:
            yield warning(said, f"Close connections, put a pooler before applications, or as a superuser: {limit.raise_it}")
        else:
            yield ok(said)
