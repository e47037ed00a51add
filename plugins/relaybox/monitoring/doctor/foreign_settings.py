"""Settings that a role or the database gives its sessions, and that are not those of Relaybox's own sessions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from relaybox.monitoring.doctor.check import Diagnosis, Examined, notice, ok
from relaybox.stores.sessions.settings import session_settings


class _Setting(NamedTuple):
    name: str
    value: str
    of: str


_SETTINGS = """
select split_part(c.setting, '=', 1) as name, substr(c.setting, strpos(c.setting, '=') + 1) as value,
    case
        when s.setrole = 0 and s.setdatabase = 0 then 'role all'
        when s.setrole = 0 then format('database %%I', current_database())
        when s.setdatabase = 0 then format('role %%I', current_user)
        else format('role %%I in database %%I', current_user, current_database())
    end as of
from pg_db_role_setting s
cross join unnest(s.setconfig) c (setting)
where s.setdatabase in (0, (select d.oid from pg_database d where d.datname = current_database()))
    and s.setrole in (0, (select r.oid from pg_roles r where r.rolname = current_user))
    and lower(split_part(c.setting, '=', 1)) = any(%s::text[])
order by 1, 3
"""


def check_settings(examined: Examined) -> Iterator[Diagnosis]:
    """Sessions of Relaybox set what they need themselves; those of applications have what the role and the database say."""
    ours = session_settings()
    differing = [
        one
        for one in examined.session.rows(_Setting, _SETTINGS, list(ours))
        if one.value.lower() != ours[one.name.lower()].lower()
    ]
    for one in differing:
        yield notice(
            f"{one.of.capitalize()} sets {one.name} to {one.value!r}. Sessions of Relaybox set {ours[one.name.lower()]!r} themselves; "
            "those of applications don't.",
            f"If applications don't need it: alter {one.of} reset {one.name};",
        )
    if not differing:
        yield ok("Neither the role nor the database sets what Relaybox sets otherwise.")
