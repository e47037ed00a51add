"""Subscriptions that are bound to database roles, for those who administer a store."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from relaybox.stores.opening import store_session

if TYPE_CHECKING:
    from relaybox.routes import Store

_LIST = """
select
    b.subscription, b.role_name::text as role, b.bound_at, b.bound_by,
    exists (select from pg_roles r where r.rolname = b.role_name) as role_exists, store.bind_subscriptions as is_enforced
from relaybox_internal.subscription_role b
cross join relaybox_internal.store
order by b.subscription, b.role_name
"""


@dataclass(frozen=True)
class SubscriptionBinding:
    """A role that may use a subscription. `is_enforced`: the store refuses other roles."""

    store: str
    subscription: str
    role: str
    bound_at: datetime
    bound_by: str
    role_exists: bool
    is_enforced: bool


def list_bindings(store: Store) -> list[SubscriptionBinding]:
    """The bindings of a store, by subscription and role, those to roles that were dropped or renamed included.

    Raises:
        StoreNotInitialised, StoreUnreachable, StoreUnusable: the store can't be asked.
    """
    with store_session(store, "reading its bindings", application_name="relaybox subscriptions") as session:
        return session.rows(SubscriptionBinding, _LIST, store=store.name)


class _Bound(NamedTuple):
    is_new: bool
    is_enforced: bool


def bind_subscription(store: Store, subscription: str, role: str) -> tuple[bool, bool]:
    """Lets a database role use a subscription. Whether that is new, and whether the store enforces bindings. Commits.

    Raises:
        RequestRefused: no name of a subscription, or no such role.
        StoreUnusable: the login is not the owner's.
    """
    with store_session(store, f"binding subscription {subscription}", application_name="relaybox subscriptions") as session:
        session.execute("set local synchronous_commit = on")
        bound = session.row(
            _Bound,
            "select relaybox_internal.bind_subscription(%s, %s) as is_new, s.bind_subscriptions as is_enforced "
            "from relaybox_internal.store s",
            *(subscription, role),
        )
        session.commit()
    return bound.is_new, bound.is_enforced


def unbind_subscription(store: Store, subscription: str, role: str) -> bool:
    """Takes a binding back; whether there was one. Commits."""
    with store_session(store, f"unbinding subscription {subscription}", application_name="relaybox subscriptions") as session:
        session.execute("set local synchronous_commit = on")
        was_bound = session.call("relaybox_internal.unbind_subscription", subscription, role)
        session.commit()
    return bool(was_bound)
