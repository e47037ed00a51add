"""What relaybox.yaml says, written into a store: its hops, streams and topics, what is kept of them, and the switches of the store."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from relaybox.contracts.store_checks import write_store_checks

if TYPE_CHECKING:
    from relaybox.routes import Hop, Retention, Routes, Store
    from relaybox.stores.schema.statements import Statements
    from relaybox.stores.sessions.store_session import StoreSession


def register_hops(session: Statements, store: Store, routes: Routes, recorded_by: str | None = None) -> dict[str, str]:
    """Registers the hops that arrive in the store and leave it, and frees streams that an earlier init held; returns what it did.

    Records as well which of the hops that leave the store are in the file, for who retires a hop; recorded_by as initialise_store().
    """
    done = {f"{hop.name} in": _register_hop_in(session, hop) for hop in routes.hops if hop.destination == store}
    done |= {f"{hop.name} out": _register_hop_out(session, hop) for hop in routes.hops if hop.source == store}
    session.call("relaybox_internal.record_hops_of_file", [hop.name for hop in routes.hops if hop.source == store], recorded_by)
    _release_topics(session, [hop for hop in routes.hops if hop.destination == store])
    session.execute("update relaybox_internal.stream set rules_pending = false where rules_pending")
    return done


def _release_topics(session: Statements, hops: Sequence[Hop]) -> None:
    """Records that a stream no longer carries what no route of the file gives it: a subscription by topic finds the stream that does.

    Args:
        session: the session.
        hops: all that arrive in the store.
    """
    carried = [(hop.stream, topic) for hop in hops for topic in hop.topics]
    session.execute(
        """
        update relaybox_internal.stream_topic k set
            carried_by = 'nobody', left_after_subscription = (select max(n.subscription_id) from relaybox_internal.subscription n)
        from relaybox_internal.stream s
        where s.stream_id = k.stream_id and k.carried_by = 'file' and not exists (
            select from unnest(%s::text[], %s::text[]) c (stream, topic) where c.stream = s.stream and c.topic = k.topic
        )
        """,
        [stream for stream, _ in carried],
        [topic for _, topic in carried],
    )


def _register_hop_in(session: Statements, hop: Hop) -> str:
    registered = session.value("select registered from relaybox_internal.register_hop_in(%s, %s)", hop.name, hop.source.name)
    stream = session.call(
        "relaybox_internal.register_stream",
        *(hop.name, hop.stream, hop.origin.name, hop.order, hop.message_id_window),
        *(hop.limits.holdback_rows, hop.limits.fragments),
    )
    kept = _keep_log(session, hop.name, hop.log_retention)
    session.execute(
        """
        update relaybox_internal.stream set topics_by_subscription = %(asked)s
        where stream = %(stream)s and topics_by_subscription <> %(asked)s
        """,
        {"asked": hop.topics_by_subscription, "stream": hop.stream},
    )
    session.call("relaybox_internal.register_topics", hop.stream, list(hop.topics))
    return "registered" if registered else "changed" if kept else str(stream)


def _register_hop_out(session: Statements, hop: Hop) -> str:
    registered = session.value(
        """
        select relaybox_internal.register_hop_out(%(hop)s, %(destination)s, %(upstream)s, t.topics, %(policy)s, %(processed_by)s)
        from (
            select case
                when s.topics <@ %(topics)s::text[] then %(topics)s::text[]
                else array(
                    select u.topic from unnest(%(topics)s::text[] || s.topics) u (topic) group by u.topic order by u.topic collate "C"
                )
            end as topics
            from (
                select coalesce(relaybox_internal.keep_subscribed_topics(%(hop)s, %(topics)s, %(by_subscription)s), '{}') as topics
            ) s
            offset 0
        ) t
        """,
        {
            "hop": hop.name,
            "destination": hop.destination.name,
            "upstream": hop.upstream,
            "topics": list(hop.topics),
            "policy": hop.policy,
            "processed_by": list(hop.processed_by) or None,
            "by_subscription": hop.topics_by_subscription,
        },
    )
    kept = _keep_outbox(session, hop.name, hop.outbox_retention)
    return "changed" if kept and registered == "unchanged" else str(registered)


def _keep_outbox(session: Statements, hop: str, retention: Retention) -> bool:
    """Writes down how long what a hop reads is kept; tells whether that is new."""
    kept = (retention.replay_window_seconds, retention.stopped_consumer)
    changed = session.execute(
        """
        update relaybox_internal.hop_out set replay_window_seconds = %s, stopped_consumer = %s
        where hop = %s and (replay_window_seconds, stopped_consumer) is distinct from (%s::bigint, %s)
        """,
        *(*kept, hop, *kept),
    )
    return changed > 0


def _keep_log(session: Statements, hop: str, retention: Retention) -> bool:
    """The same of a hop's log, which may be detached too."""
    kept = (
        *(retention.replay_window_seconds, retention.stopped_consumer),
        *(retention.detach_after_seconds, retention.detach_to),
    )
    changed = session.execute(
        """
        update relaybox_internal.hop_in
        set replay_window_seconds = %s, stopped_consumer = %s, detach_after_seconds = %s, detach_to = %s
        where hop = %s and (replay_window_seconds, stopped_consumer, detach_after_seconds, detach_to)
            is distinct from (%s::bigint, %s, %s::bigint, %s)
        """,
        *(*kept, hop, *kept),
    )
    return changed > 0


def renew_payload_checks(session: Statements, store: Store, routes: Routes) -> Any:
    """Has the store check messages by their schemas as relaybox.yaml says; returns what changed. The trigger comes after the commit.

    Raises:
        ConfigurationError: a schema can't be read or checked in SQL, or a version refuses what the one before it took.
    """
    return session.call("relaybox_internal.renew_payload_checks", write_store_checks(routes, store))


def set_switches(session: Statements, store: Store) -> tuple[str, str, str, str]:
    """Switches what the store binds or asks for on or off, as relaybox.yaml says; returns what it did, in words."""
    return (
        _switch(session, "relaybox_internal.bind_senders", asked=store.bind_senders),
        _switch(session, "relaybox_internal.bind_subscriptions", asked=store.bind_subscriptions),
        _switch(session, "relaybox_internal.bind_topics", asked=store.bind_topics),
        _switch(session, "relaybox_internal.require_approvals", asked=store.require_approval),
    )


def _switch(session: Statements, function: str, *, asked: bool | None) -> str:
    """Calls a function that switches a binding on or off; what it did, in words. Nothing is asked where the file has no such key."""
    if asked is None:
        return "unchanged"
    is_switched = session.call(function, asked)
    return ("switched on" if asked else "switched off") if is_switched else "unchanged"


class _Switches(NamedTuple):
    """What is on in a store, by the keys of relaybox.yaml."""

    bind_senders: bool
    bind_subscriptions: bool
    bind_topics: bool
    require_approval: bool


def list_switches_kept_on(session: StoreSession, store: Store) -> Iterator[str]:
    """An owner who takes the key out of the file may expect that it is off now."""
    recorded = session.row(
        _Switches,
        """
        select o.relrowsecurity as bind_senders, s.bind_subscriptions, s.bind_topics, s.require_approval
        from relaybox_internal.store s join pg_class o on o.oid = 'relaybox.outbox'::regclass
        """,
    )
    for key, is_on in recorded._asdict().items():
        if is_on and getattr(store, key) is None:
            yield key
