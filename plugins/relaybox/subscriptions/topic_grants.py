"""Topics that are granted to database roles, for those who administer a store."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from relaybox.stores.opening import store_session

if TYPE_CHECKING:
    from collections.abc import Sequence

    from relaybox.routes import Store

_APPLICATION = "relaybox topics"

_LIST = """
select
    g.topic, g.role_name::text as role, g.granted_at, g.granted_by,
    exists (select from pg_roles r where r.rolname = g.role_name) as role_exists,
    g.topic = '*' or exists (select from relaybox_internal.known_topics k where k.topic = g.topic) as topic_exists,
    store.bind_topics as is_enforced
from relaybox_internal.topic_role g
cross join relaybox_internal.store
order by g.topic, g.role_name
"""

_UNKNOWN = """
select t.topic from unnest(%s::text[]) with ordinality as t (topic, number)
where t.topic <> '*' and not exists (select from relaybox_internal.known_topics k where k.topic = t.topic)
order by t.number
"""

_READABLE = """
select t.topic
from unnest(%s::text[]) with ordinality as t (topic, number)
join pg_roles asked on asked.rolname = %s
where has_table_privilege(asked.oid, 'relaybox_internal.subscription'::regclass, 'select') or exists (
    select from relaybox_internal.topic_role g
    where g.topic in (t.topic, '*') and pg_has_role(asked.oid, to_regrole(quote_ident(g.role_name))::oid, 'usage')
)
order by t.number
"""


@dataclass(frozen=True)
class TopicGrant:
    """A role that may read a topic; `*`: every topic. `is_enforced`: the store refuses other roles."""

    store: str
    topic: str
    role: str
    granted_at: datetime
    granted_by: str
    role_exists: bool
    topic_exists: bool
    is_enforced: bool


def list_grants(store: Store) -> list[TopicGrant]:
    """The grants of a store, by topic and role, those to roles that were dropped or renamed included.

    Raises:
        StoreNotInitialised, StoreUnreachable, StoreUnusable: the store can't be asked.
    """
    with store_session(store, "reading its grants of topics", application_name=_APPLICATION) as session:
        return session.rows(TopicGrant, _LIST, store=store.name)


class _Topic(NamedTuple):
    topic: str


@dataclass(frozen=True)
class GrantedTopics:
    """What a grant changed. `unknown`: topics that no stream of the store has carried."""

    changed: tuple[str, ...]
    unknown: tuple[str, ...]
    is_enforced: bool


def grant_topics(store: Store, role: str, topics: Sequence[str]) -> GrantedTopics:
    """Lets a database role read topics; all of them or, after an error, none. Commits.

    Raises:
        RequestRefused: no name of a topic, or no such role.
        StoreUnusable: the login is not the owner's.
    """
    with store_session(store, f"granting topics to role {role}", application_name=_APPLICATION) as session:
        session.execute("set local synchronous_commit = on")
        changed = tuple(one for one in topics if session.call("relaybox_internal.grant_topic", one, role))
        unknown = tuple(row.topic for row in session.rows(_Topic, _UNKNOWN, list(topics)))
        is_enforced = bool(session.value("select s.bind_topics from relaybox_internal.store s"))
        session.commit()
    return GrantedTopics(changed, unknown, is_enforced)


@dataclass(frozen=True)
class RevokedTopics:
    """What a revoke changed. `readable`: topics that the role reads by another grant or right."""

    changed: tuple[str, ...]
    readable: tuple[str, ...]
    is_enforced: bool


def revoke_topics(store: Store, role: str, topics: Sequence[str]) -> RevokedTopics:
    """Takes grants back, also of a role that is gone. Commits."""
    with store_session(store, f"revoking topics from role {role}", application_name=_APPLICATION) as session:
        session.execute("set local synchronous_commit = on")
        changed = tuple(one for one in topics if session.call("relaybox_internal.revoke_topic", one, role))
        readable = tuple(row.topic for row in session.rows(_Topic, _READABLE, list(topics), role))
        is_enforced = bool(session.value("select s.bind_topics from relaybox_internal.store s"))
        session.commit()
    return RevokedTopics(changed, readable, is_enforced)
