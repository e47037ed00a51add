"""Senders of a store, for those who administer it: what is declared, in which epoch, and which database roles may speak for whom."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from psycopg2 import errors as postgres_errors

from relaybox import errors
from relaybox.stores.opening import store_session

if TYPE_CHECKING:
    from relaybox.routes import Store

_LIST = """
with declared as (
    select distinct on (s.origin, s.sender) s.* from relaybox_internal.sender s order by s.origin, s.sender, s.epoch desc
),
bound as (
    select here.store as origin, b.sender, array_agg(b.role_name::text order by b.role_name) as roles
    from relaybox.sender_role b
    cross join relaybox_internal.store here
    group by here.store, b.sender
)
select
    here.store, sender, origin, coalesce(d.kind, 'assigned') as kind, coalesce(d.epoch, 0) as epoch, d.declared_at, d.declared_by,
    case when d.kind = 'gapless' and origin = here.store then c.last_index end as last_index, coalesce(b.roles, '{}') as roles
from declared d
full join bound b using (origin, sender)
cross join relaybox_internal.store here
left join relaybox_internal.sender_counter c using (sender)
order by origin, sender
"""


@dataclass(frozen=True)
class DeclaredSender:
    """A sender as a store knows it. `last_index` is its counter, where it is declared gapless here; `roles` are bound here.

    A sender with roles and without a declaration is `assigned`, in epoch 0.
    """

    store: str
    sender: str
    origin: str
    kind: str
    epoch: int
    declared_at: datetime | None
    declared_by: str | None
    last_index: int | None
    roles: tuple[str, ...]


def list_senders(store: Store) -> list[DeclaredSender]:
    """The senders of a store in their newest epochs, those that were carried to it included, by origin and name.

    Raises:
        StoreNotInitialised, StoreUnreachable, StoreUnusable: the store can't be asked.
    """
    with store_session(store, "reading its senders", application_name="relaybox senders") as session:
        return [replace(sender, roles=tuple(sender.roles)) for sender in session.rows(DeclaredSender, _LIST)]


def declare_sender(store: Store, sender: str, kind: str) -> int:
    """Declares a sender at its store, durably; returns its epoch. Declaring the same again changes nothing. Commits.

    Raises:
        SenderRefused: another kind than it is declared as, or none that can be declared.
    """
    return int(_call(store, f"declaring sender {sender}", "select relaybox.declare_sender(%s, %s)", sender, kind))


def begin_epoch(store: Store, sender: str, kind: str | None = None) -> int:
    """Starts a sender anew; returns its new epoch, whose first index is 1. Commits.

    Raises:
        SenderRefused: the sender is not declared here.
    """
    return int(_call(store, f"beginning an epoch of {sender}", "select relaybox.new_epoch(%s, %s)", sender, kind))


class SenderBound(NamedTuple):
    """Whether the binding is new, and whether the store refuses roles that are not bound."""

    is_new: bool
    is_enforced: bool


def bind_sender(store: Store, sender: str, role: str) -> SenderBound:
    """Lets a database role send as a sender. Commits.

    Raises:
        SenderRefused: no name of a sender.
        ConfigurationError: there is no such role.
    """
    statement = """
        select array[relaybox_internal.bind_sender(%s, %s), o.relrowsecurity] from pg_class o where o.oid = 'relaybox.outbox'::regclass
    """
    return SenderBound(*_call(store, f"binding sender {sender}", statement, sender, role))


def unbind_sender(store: Store, sender: str, role: str) -> bool:
    """Takes a binding back; whether there was one. Commits."""
    return bool(_call(store, f"unbinding sender {sender}", "select relaybox_internal.unbind_sender(%s, %s)", sender, role))


def _call(store: Store, activity: str, statement: str, *arguments: str | None) -> Any:
    """The value of one statement, committed."""
    with store_session(store, activity, application_name="relaybox senders") as session:
        session.execute("set local synchronous_commit = on")
        with session.cursor() as cursor:
            try:
                cursor.execute(statement, arguments)
            except postgres_errors.UndefinedObject as error:
                raise errors.ConfigurationError(
                    f"store {store.name}: while {activity}: {error.diag.message_primary}.",
                    next_step=error.diag.message_hint or "",
                ) from error
            ((answer,),) = cursor.fetchall()
        session.commit()
    return answer
