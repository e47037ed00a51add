"""Settings that write the text of statements, and so payloads of messages, into the log of the server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from relaybox.monitoring.doctor.check import Diagnosis, Examined, notice, ok


class _Setting(NamedTuple):
    """`reset`: the statement that ends it."""

    name: str
    value: str
    of: str
    reset: str


_SETTINGS = """
with said as (
    select s.name, s.setting as value, 'the server' as of, format('alter system reset %%s; select pg_reload_conf()', s.name) as reset
    from pg_settings s where s.source not in ('database', 'user', 'database user', 'session')
    union all
    select split_part(c.setting, '=', 1), substr(c.setting, strpos(c.setting, '=') + 1), p.of,
        format('alter %%s reset %%s', p.of, split_part(c.setting, '=', 1))
    from pg_db_role_setting s
    left join pg_roles r on r.oid = s.setrole
    cross join unnest(s.setconfig) c (setting)
    cross join lateral (
        select case
            when s.setrole = 0 and s.setdatabase = 0 then 'role all'
            when s.setrole = 0 then format('database %%I', current_database())
            when s.setdatabase = 0 then format('role %%I', r.rolname)
            else format('role %%I in database %%I', r.rolname, current_database())
        end
    ) p (of)
    where s.setdatabase in (0, (select d.oid from pg_database d where d.datname = current_database()))
)
select s.name, s.value, s.of, s.reset from said s
where s.name = 'log_statement' and s.value in ('mod', 'all')
    or s.name in ('log_min_duration_statement', 'log_min_duration_sample', 'auto_explain.log_min_duration') and s.value <> '-1'
    or s.name = 'log_transaction_sample_rate' and s.value <> '0'
    or s.name = 'pgaudit.log' and s.value ~* '\\m(all|write)\\M'
order by s.name, s.of
"""


def check_statement_logs(examined: Examined) -> Iterator[Diagnosis]:
    """No setting has the server write what applications send into its log."""
    found = examined.session.rows(_Setting, _SETTINGS, {})
    for one in found:
        yield notice(
            f"{one.name} of {one.of} is {one.value!r}: statements of applications are written into the server's log, with the payloads "
            "in them or in their parameters.",
            f"If payloads may not be there, as a superuser: {one.reset};",
        )
    if not found:
        yield ok("No setting writes statements into the server's log, except those that fail.")
