"""The login of the store's connection, and the roles of Relaybox in the cluster."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from relaybox.monitoring.doctor.check import Diagnosis, Examined, error, notice, ok, warning
from relaybox.stores.init.server import ROLES


class _Roles(NamedTuple):
    missing: list[str]
    may_create: bool


def check_roles(examined: Examined) -> Iterator[Diagnosis]:
    """The roles that init grants rights to exist, or init may make them."""
    found = examined.session.row(
        _Roles,
        """
        select array(
                select r.name from unnest(%s::text[]) r (name) where not exists (select from pg_roles p where p.rolname = r.name)
            ) as missing, o.rolsuper or o.rolcreaterole as may_create
        from pg_roles o where o.rolname = current_user
        """,
        list(ROLES),
    )
    if not found.missing:
        yield ok(f"The cluster has the roles {', '.join(ROLES)}.")
    elif found.may_create:
        told = f"The cluster has no role {', '.join(found.missing)}; login {examined.server.login} may make it."
        yield warning(told, "Run: relaybox init") if examined.server.has_schema else notice(told, "Run: relaybox init")
    else:
        yield error(
            f"The cluster has no role {', '.join(found.missing)}, and login {examined.server.login} may not make it.",
            f"As a superuser: {'; '.join(f'create role {role} nologin' for role in found.missing)}; then run: relaybox init",
        )


def check_login(examined: Examined) -> Iterator[Diagnosis]:
    """The login is no superuser, and sees what it has to watch."""
    server = examined.server
    if server.is_superuser:
        yield notice(f"Login {server.login} is a superuser; Relaybox needs none.", "See docs/logins.md, Roles in a store.")
    elif not server.reads_all_stats:
        yield notice(
            f"Login {server.login} does not see what other logins do: open transactions are not reported.",
            f"As a superuser: grant pg_read_all_stats to {server.login};",
        )
    else:
        yield ok(f"Login {server.login} is no superuser, and has pg_read_all_stats.")
