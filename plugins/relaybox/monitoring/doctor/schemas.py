"""The schema of the store: whether it is there, of which version, of which store, and with the hops of relaybox.yaml."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import NamedTuple

from relaybox import errors
from relaybox.monitoring.doctor.check import Diagnosis, Examined, error, grant_role, hidden, notice, ok
from relaybox.monitoring.doctor.record import may_read
from relaybox.retention.retiring import list_retired_hops
from relaybox.stores.schema.migrations import list_pending, newest_migration
from relaybox.stores.schema.namespaces import refuse_foreign_schemas, require_schemas

RUN_INIT = "Run: relaybox init"


def check_schema(examined: Examined) -> Iterator[Diagnosis]:
    """The schema is there, and of the version that this code needs."""
    session, known = examined.session, newest_migration().number
    if not examined.server.has_schema:
        try:
            refuse_foreign_schemas(session)
        except errors.StoreUnusable as refused:
            yield _refused(examined, refused)
            return
        yield error(f"The database has no schema of Relaybox; this code needs version {known}.", RUN_INIT)
        return
    if not may_read(session, "migration", "relaybox"):
        yield hidden(examined, "relaybox.migration")
        return
    found = int(session.value("select coalesce(max(m.number), 0) from relaybox.migration m"))
    try:
        pending = list_pending(session)
    except errors.StoreUnusable as refused:
        yield error(Exception.__str__(refused), refused.next_step)
        return
    if found > known:
        yield error(
            f"Its schema is version {found}, this Relaybox knows version {known}.",
            "Install the newer Relaybox here; it was used on this store already.",
        )
    elif pending:
        names = ", ".join(f"{one} ({one.phase})" for one in pending)
        yield error(f"Its schema is version {found}, this Relaybox needs version {known}. To be applied: {names}.", RUN_INIT)
    else:
        yield ok(f"Its schema is version {found}, as this Relaybox needs.")


def is_current(examined: Examined) -> bool:
    """Whether the schema is there, of the version of this code, and the login may see that; else check_schema() tells."""
    if not examined.server.has_schema:
        return False
    if not examined.session.value("select has_table_privilege('relaybox.migration', 'select')"):
        return False
    newest = examined.session.value("select max(m.number) from relaybox.migration m")
    return bool(newest == newest_migration().number and not list_pending(examined.session))


_IS_DRIVER = """
    select exists (
        select from pg_roles driver
        join pg_namespace schema on schema.nspname = 'relaybox'
        where driver.rolname = 'relaybox_driver' and pg_has_role(driver.oid, 'usage') and not pg_has_role(schema.nspowner, 'usage')
    )
"""


def check_owner(examined: Examined) -> Iterator[Diagnosis]:
    """The login has the rights of the schema's owner or of a driver, or may make the schema."""
    if examined.session.value(_IS_DRIVER):
        yield ok(
            f"Login {examined.server.login} is a member of relaybox_driver: it moves messages and alters no table. "
            "Init needs the owner's login."
        )
        return
    if examined.server.moves_nothing:
        yield notice(
            f"Login {examined.server.login} moves no messages: it is neither a member of relaybox_driver nor the owner of the schemas.",
            f"For the page and the triggerer relaybox_viewer is enough. If tasks use it: "
            f"{grant_role('relaybox_driver', examined.server.login)}",
        )
        return
    try:
        refuse_foreign_schemas(examined.session)
    except errors.StoreUnusable:
        return  # the check `schema` tells it
    try:
        require_schemas(examined.session)
    except errors.StoreUnusable as refused:
        yield _refused(examined, refused)
        return
    has = "owns the schemas" if examined.server.has_schema else "may make the schemas"
    yield ok(f"Login {examined.server.login} {has} of Relaybox.")


def check_name(examined: Examined) -> Iterator[Diagnosis]:
    """The database behind the service is this store."""
    if not examined.server.has_schema:
        return
    if not may_read(examined.session, "store"):
        yield hidden(examined, "relaybox_internal.store")
        return
    name = examined.session.value("select s.store from relaybox_internal.store s")
    if name == examined.store.name:
        yield ok(f"The database behind service {examined.store.service} is store {name}.")
    else:
        yield error(
            f"The database behind service {examined.store.service} is store {name}.",
            "Correct the service file, or the name in relaybox.yaml.",
        )


def check_hops(examined: Examined) -> Iterator[Diagnosis]:
    """The store knows its hops of relaybox.yaml, no init with another file has removed one, and none was retired."""
    if not examined.server.has_schema:
        return
    missing: list[str] = []
    for table, direction, hops in (
        ("hop_in", "in", [hop for hop in examined.routes.hops if hop.destination == examined.store]),
        ("hop_out", "out", [hop for hop in examined.routes.hops if hop.source == examined.store]),
    ):
        if not may_read(examined.session, table):
            yield hidden(examined, f"relaybox_internal.{table}")
            return
        known = set(examined.session.values(f"select hop from relaybox_internal.{table}"))  # noqa: S608
        missing += [f"{hop.name} {direction}" for hop in hops if hop.name not in known]
    if missing:
        yield error(f"It does not know {', '.join(missing)} of relaybox.yaml.", RUN_INIT)
    elif is_current(examined) and (retired := list_retired_hops(examined.session, examined.store, examined.routes)):
        for one in retired.values():
            yield error(one.what, one.next_step)
    elif is_current(examined) and (removed := _list_removed(examined)):
        told = ", ".join(f"{hop} ({removed_at:%Y-%m-%d %H:%M:%S} UTC by {removed_by})" for hop, removed_at, removed_by in removed)
        yield error(
            f"relaybox.yaml has hops that an init removed: {told}. Two files are in use.",
            "If the relaybox.yaml of that init is the newer one, update this one. Else run: relaybox init",
        )
    else:
        yield ok("It knows its hops of relaybox.yaml.")


class _Removed(NamedTuple):
    hop: str
    removed_at: datetime
    removed_by: str


def _list_removed(examined: Examined) -> list[_Removed]:
    """The hops of relaybox.yaml that leave the store and that the newest init did not have in its own."""
    return examined.session.rows(
        _Removed,
        """
        select h.hop, h.removed_at at time zone 'UTC' as removed_at, h.removed_by
        from relaybox_internal.hop_out h
        where h.hop = any(%s) and h.removed_at is not null and h.retired_at is null order by h.hop
        """,
        [hop.name for hop in examined.routes.hops if hop.source == examined.store],
    )


def _refused(examined: Examined, refused: errors.StoreUnusable) -> Diagnosis:
    """An error of init, without what doctor's answer says anyway."""
    what = Exception.__str__(refused).removeprefix(f"store {examined.store.name}: ")
    for said in (" Init changed nothing.", " Nothing was changed."):
        what = what.removesuffix(said)
    return error(f"{what[:1].upper()}{what[1:]}", refused.next_step)
