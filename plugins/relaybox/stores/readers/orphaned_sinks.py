"""Subscriptions of sinks that relaybox.yaml no longer contains: the sink was taken out of the file, or has another name or store now."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from relaybox.amounts import amount

if TYPE_CHECKING:
    from collections.abc import Sequence

    from relaybox.routes import Routes, Sink, Store
    from relaybox.stores.sessions.store_session import StoreSession


@dataclass(frozen=True)
class SinkSubscription:
    """An open subscription with the name of a sink, whether the file has that sink or not.

    Attributes:
        topic: None: all of the stream.
        waiting_count: stream positions that are not acknowledged, of all topics of the stream.
        dead_letter_count: that are open: no sink that takes its place sends them.
        next_stream_position: from which on a sink that takes its place misses nothing: the first that not every lane has acknowledged, or
            that of the first delayed message that was passed, if that is lower: these end with their subscription.
        lanes: as the others that follow, what its subscribe() was given.
    """

    store: str
    subscription: str
    stream: str
    topic: str | None
    waiting_count: int
    dead_letter_count: int
    next_stream_position: int
    lanes: int
    lane_by: str
    nack_limit: int
    hold_sender: bool
    retry_seconds: int
    lease_seconds: int
    delayed: str

    @property
    def kind(self) -> str:
        """webhook or kafka, as Sink.kind."""
        return self.subscription.partition(".")[0]

    @property
    def name(self) -> str:
        """Of the sink, when the file had it."""
        return self.subscription.partition(".")[2]

    @property
    def section(self) -> str:
        """Of relaybox.yaml, that has or had the sink."""
        return {"webhook": "webhooks"}.get(self.kind, self.kind)

    @property
    def waiting(self) -> str:
        letters = f", with {amount(self.dead_letter_count, 'open dead letter')}" if self.dead_letter_count else ""
        return f"{amount(self.waiting_count, 'stream position')} behind{letters}"

    @property
    def dead_letters_first(self) -> str:
        """What to do with them before the subscription ends, and a space; empty: there is none."""
        if not self.dead_letter_count:
            return ""
        return (
            "Before it ends, redrive or drop its dead letters (docs/outward.md, Dead letters of a sink that ends): no other sink sends "
            f"them, nor what waits behind them. To list them, run: relaybox dead-letters list {self.store} --subscription "
            f"{self.subscription}. "
        )

    def end(self, reason: str) -> str:
        """The statement that ends the subscription."""
        return f"select relaybox.unsubscribe('{self.subscription}', '{reason}')"

    @property
    def end_or_keep(self) -> str:
        """What to do where the file has no sink of this name in any store."""
        return (
            f"To keep it, write {self.section}.{self.name} into relaybox.yaml. If the sink has another name now and reads the same stream "
            f'of this store, write start: "{self.next_stream_position}" for the new name before its first run. {self.dead_letters_first}'
            f"To end it, when nothing is to be delivered by it any more, in store {self.store}, run: {self.end('REASON')};"
        )

    def moved_to(self, routes: Routes) -> Sink | None:
        """The sink of this name that the file has in another store now; None: in none."""
        return next((sink for sink in routes.sinks if (sink.kind, sink.name) == (self.kind, self.name)), None)

    def may_become(self, sink: Sink) -> bool:
        """Whether a sink may be this one by another name: the store does not know where either delivers."""
        return (sink.kind, sink.store.name, sink.stream, sink.topic) == (self.kind, self.store, self.stream, self.topic)


_SINK_SUBSCRIPTIONS = """
select s.subscription, s.stream, s.topic, s.stream_positions_behind as waiting_count,
    (
        select count(*) from relaybox_internal.dead_letter d
        join relaybox_internal.subscription n on n.subscription_id = d.subscription_id
        where n.subscription = s.subscription and n.ended_at is null and d.reason <> 'delayed' and d.state in ('open', 'redriving')
    ) as dead_letter_count,
    s.lanes, s.lane_by, s.nack_limit, s.hold_sender, s.retry_seconds, s.lease_seconds, s.delayed,
    least(s.done_stream_position + 1, (
        select min(d.stream_position) from relaybox_internal.dead_letter d
        join relaybox_internal.subscription n on n.subscription_id = d.subscription_id
        where n.subscription = s.subscription and n.ended_at is null and d.reason = 'delayed' and d.state in ('delayed', 'redriving')
    )) as next_stream_position
from relaybox.subscriptions s
where s.replay_of is null and s.subscription ~ '^(webhook|kafka)[.]'
order by s.subscription
"""


def list_sink_subscriptions(session: StoreSession, store: Store) -> list[SinkSubscription]:
    """The open subscriptions of a store with the names of sinks, by name. Reads no message. Runs in the session's transaction."""
    return session.rows(SinkSubscription, _SINK_SUBSCRIPTIONS, store=store.name)


def choose_orphaned(subscriptions: Sequence[SinkSubscription], store: Store, routes: Routes) -> list[SinkSubscription]:
    """Those of sinks that the file does not have in this store."""
    names = {sink.subscription for sink in routes.sinks if sink.store == store}
    return [one for one in subscriptions if one.subscription not in names]


def describe_renamed(session: StoreSession, store: Store, routes: Routes) -> list[str]:
    """For each sink that never ran and may be an orphaned one by another name: where it will begin, and how it begins there instead.

    Says nothing of a sink that begins where the other one stands. Names each orphaned one that has another store in the file. Runs in
    the session's transaction.
    """
    orphaned = choose_orphaned(list_sink_subscriptions(session, store), store, routes)
    if not orphaned:
        return []
    known = set(session.values("select subscription from relaybox.subscriptions"))
    renamed = [
        f"{sink.kind} {sink.name} is new, and its first run will begin at {sink.start} of stream {sink.stream}. {other.subscription} "
        f"reads the same stream, {other.waiting}, and relaybox.yaml has no {other.section}.{other.name} in store {store.name}. "
        f"{other.dead_letters_first}If {sink.name} takes its place: (1) End the processes of {other.name}. (2) Run relaybox init again and "
        f'write the start that it says into {other.section}.{sink.name}: start: "{other.next_stream_position}" (3) Run: relaybox '
        f"{sink.kind} run {sink.name} (4) In store {store.name}, run: {other.end(f'now {sink.name}')}; Or call it {other.name} again"
        for sink in routes.sinks
        if sink.store == store and sink.subscription not in known
        for other in orphaned
        if other.may_become(sink) and sink.start != str(other.next_stream_position)
    ]
    return renamed + [describe_moved(one, sink) for one in orphaned if (sink := one.moved_to(routes)) is not None]


def describe_moved(orphaned: SinkSubscription, sink: Sink) -> str:
    """What becomes of the subscription of a sink that the file has in another store now; and what to do."""
    former, home = orphaned.store, sink.store.name
    meaning = (
        f"if {sink.start} is a stream position of store {former}, it is another message there, and messages are lost or sent twice"
        if sink.start.isdigit()
        else f"a stream position of store {former} is another message there: take none over"
    )
    return (
        f'{orphaned.kind} {orphaned.name} is in store {home} now, and begins there at start: "{sink.start}" of relaybox.yaml: {meaning}. '
        f"{orphaned.subscription} stays in store {former}, {orphaned.waiting}: the store keeps what it has not acknowledged. "
        f"{orphaned.dead_letters_first}Begin as docs/outward.md, Another stream or store, says. Then, in store {former}, run: "
        f"{orphaned.end(f'in {home} now')}"
    )
