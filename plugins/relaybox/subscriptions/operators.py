"""Operators of streams: database roles that act on all subscriptions of a stream, for those who administer a store."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from relaybox.stores.opening import store_session

if TYPE_CHECKING:
    from relaybox.routes import Store

_APPLICATION = "relaybox operators"

_LIST = """
select
    b.stream, b.role_name::text as role, b.bound_at, b.bound_by,
    exists (select from pg_roles r where r.rolname = b.role_name) as role_exists,
    exists (
        select from pg_roles r
        where r.rolname = b.role_name and pg_has_role(r.oid, to_regrole('relaybox_operator')::oid, 'usage')
    ) as role_is_operator,
    exists (select from relaybox_internal.stream s where s.stream = b.stream) as stream_exists,
    store.bind_subscriptions as is_enforced
from relaybox_internal.stream_role b
cross join relaybox_internal.store
order by b.stream, b.role_name
"""

_BOUND = """
select
    exists (
        select from pg_roles r
        where r.rolname = %s and pg_has_role(r.oid, to_regrole('relaybox_operator')::oid, 'usage')
    ) as role_is_operator,
    exists (select from relaybox_internal.stream s where s.stream = %s) as stream_exists,
    store.bind_subscriptions as is_enforced
from relaybox_internal.store
"""


@dataclass(frozen=True)
class StreamOperator:
    """A role that acts on all subscriptions of a stream.

    Attributes:
        role_exists: False: the role was dropped or renamed.
        role_is_operator: the role inherits relaybox_operator. If not, the binding has an effect only for members that do so themselves.
        stream_exists: the store has such a stream.
        is_enforced: the store binds subscriptions to roles. If not, every consumer acts on every subscription.
    """

    store: str
    stream: str
    role: str
    bound_at: datetime
    bound_by: str
    role_exists: bool
    role_is_operator: bool
    stream_exists: bool
    is_enforced: bool


def list_operators(store: Store) -> list[StreamOperator]:
    """The operators of a store, by stream and role, roles and streams that are gone included.

    Raises:
        StoreNotInitialised, StoreUnreachable, StoreUnusable: the store can't be asked.
    """
    with store_session(store, "reading its operators", application_name=_APPLICATION) as session:
        return session.rows(StreamOperator, _LIST, store=store.name)


@dataclass(frozen=True)
class BoundOperator:
    """What a binding changed, and what it still needs to have an effect: as in StreamOperator."""

    changed: bool
    role_is_operator: bool
    stream_exists: bool
    is_enforced: bool


def bind_operator(store: Store, stream: str, role: str) -> BoundOperator:
    """Makes a database role an operator of a stream. Commits.

    Raises:
        RequestRefused: no name of a stream, or no such role.
        StoreUnusable: the login is not the owner's.
    """
    with store_session(store, f"binding an operator of stream {stream}", application_name=_APPLICATION) as session:
        session.execute("set local synchronous_commit = on")
        changed = bool(session.call("relaybox_internal.bind_operator", stream, role))
        bound = session.row(BoundOperator, _BOUND, *(role, stream), changed=changed)
        session.commit()
    return bound


def unbind_operator(store: Store, stream: str, role: str) -> bool:
    """Takes a binding back, also of a role or a stream that is gone; whether there was one. Commits."""
    with store_session(store, f"unbinding an operator of stream {stream}", application_name=_APPLICATION) as session:
        session.execute("set local synchronous_commit = on")
        was_bound = session.call("relaybox_internal.unbind_operator", stream, role)
        session.commit()
    return bool(was_bound)
