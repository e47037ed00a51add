"""Readers that relaybox.yaml names and that have no subscription: retention keeps the log of their stream until they have one.

A subscription holds what it has not acknowledged. Before it exists nothing in the store holds its messages, and it would begin after
those that were dropped, and not say so. The same holds for one of processed_by or of a sink that was ended while the file names it: what is
dropped meanwhile would count as processed once it exists again, or be missing where a sink with other settings goes on. A subscription of
processed_by that reads one topic does not count: the hop asks for all of the stream. Exports and derivations that were ended need nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC
from typing import TYPE_CHECKING, Literal, NamedTuple

from relaybox.amounts import amount
from relaybox.stores.readers.carried_topics import SETTINGS

if TYPE_CHECKING:
    from datetime import datetime

    from relaybox.routes import Hop, Routes, Store
    from relaybox.stores.sessions.store_session import StoreSession


@dataclass(frozen=True)
class NamedReader:
    """Who reads a stream of a store from `earliest`, `latest`, a stream position or a time on, as relaybox.yaml says.

    Attributes:
        name: as it is shown: subscription billing, webhook orders, kafka warehouse, export lake, derivation delays.
        subscription: its name in the store; of a derivation whose version has no start, with a star at its end: any version.
        stream: of the store.
        store: its name.
        next_step: how it subscribes, or is awaited no longer.
        next_step_if_ended: the same where a subscription of the name was ended; of a processor: one to another stream.
        next_step_if_open: the same where one to another stream is open.
        skips_kept: it starts at `latest`: nothing is kept for it before it subscribes.
        processed_by: the route that names it there; None: none does.
    """

    name: str
    subscription: str
    stream: str
    store: str
    next_step: str
    next_step_if_ended: str
    next_step_if_open: str
    skips_kept: bool = False
    processed_by: str | None = None

    @property
    def is_sink(self) -> bool:
        """Whether it is a webhook or a sink of Kafka, whose runs are refused once its subscription was ended."""
        return self.name.partition(" ")[0] in ("webhook", "kafka")


def named_readers(routes: Routes, store: Store) -> tuple[NamedReader, ...]:
    """The readers of the streams of a store that relaybox.yaml names."""
    return tuple(_named_readers(routes, store))


def _named_readers(routes: Routes, store: Store) -> Iterator[NamedReader]:
    for hop in routes.hops:
        if hop.destination == store:
            yield from named_processors(hop)
    for sink in routes.sinks:
        if sink.store == store:
            run = f"relaybox {sink.kind} run {sink.name}"
            steps = (
                _run_or_remove(run),
                _run_or_remove(f"{run} --begin-anew"),
                f"To see how it goes on in this stream, run: relaybox doctor {store.name}",
            )
            name = f"{sink.kind} {sink.name}"
            yield NamedReader(name, sink.subscription, sink.stream, store.name, *steps, skips_kept=sink.start == "latest")
    for export in routes.exports.values():
        if export.store == store:
            step = _run_or_remove(f"relaybox export {export.name}")
            name, skips_kept = f"export {export.name}", export.start == "latest"
            yield NamedReader(name, export.subscription, export.stream, store.name, step, step, step, skips_kept=skips_kept)
    for route in routes.routes.values():
        if (derivation := route.derivation) is not None and route.path[0] == store:
            step = _run_or_remove(f"relaybox derive {route.name}")
            # a version without a start begins behind what the one before it has done, which that one's subscription keeps
            version = "*" if derivation.start is None else str(derivation.version)
            name, subscription = f"derivation {route.name}", f"derive.{route.name}.v{version}"
            skips_kept = derivation.start == "latest"
            yield NamedReader(name, subscription, derivation.stream, store.name, step, step, step, skips_kept=skips_kept)


def named_processors(hop: Hop) -> Iterator[NamedReader]:
    """The subscriptions in processed_by of the route of a hop, at its destination."""
    store = hop.destination.name
    for name in hop.processed_by:
        step = _subscribe_or_remove(store, name, hop.stream, hop.route)
        instead = _subscribe_or_remove(store, name, hop.stream, hop.route, is_open_elsewhere=True)
        yield NamedReader(f"subscription {name}", name, hop.stream, store, step, step, instead, processed_by=hop.route)


def _subscribe_or_remove(
    store: str, subscription: str, stream: str, route: str, *, given: str = "", is_open_elsewhere: bool = False
) -> str:
    """`given`: to subscribe() beside name and stream. `is_open_elsewhere`: the name is in use for another stream."""
    subscribe = f"select relaybox.subscribe('{subscription}', '{stream}'{given});"
    remove = (
        f"or take {subscription} out of processed_by of route {route} (and policy, if no name is left) and run: relaybox init"
    )
    if not is_open_elsewhere:
        return f"In store {store}, run: {subscribe} {remove}"
    end = f"select relaybox.unsubscribe('{subscription}', 'REASON');"
    reads = (
        f"Subscription {subscription} reads another stream, or one topic alone. When it is 0 behind there, without delayed messages and "
        f"dead letters, which end with it, in store {store}, run:"
    )
    return f"{reads} {end} then run: {subscribe} {remove}"


def _run_or_remove(command: str) -> str:
    return f"Run: {command}; or, if it may skip all messages that are kept, write start: latest; or take it out of relaybox.yaml"


class UnsubscribedReader(NamedTuple):
    """A reader without an open subscription to the stream of a log, and the first position that the log keeps.

    Attributes:
        former: none: it has never subscribed to this stream, nor to another one; elsewhere_ended, elsewhere_open: to another one, or to
            one topic where all are needed; ended: to this one.
        ended_at, ended_by, reason: of the newest one to this stream; None: it never subscribed to it.
        done_stream_position: through which that one was done; None also where it is not recorded.
        next_step: how it subscribes, or is awaited no longer.
    """

    log_id: int
    reader: NamedReader
    needs_from: int
    former: Literal["none", "elsewhere_ended", "elsewhere_open", "ended"]
    ended_at: datetime | None
    ended_by: str | None
    reason: str | None
    done_stream_position: int | None
    next_step: str

    @property
    def is_awaited(self) -> bool:
        """Whether retention keeps the log for it."""
        if self.former == "ended" and self.reader.processed_by is None and not self.reader.is_sink:
            return False
        # latest skips what was there before it first subscribed, and nothing of what came since
        return not self.reader.skips_kept or (self.former == "ended" and self.reader.is_sink)

    @property
    def end(self) -> str:
        """By whom, when and why the subscription to this stream was ended, and how far it was done."""
        by = f" by {self.ended_by}" if self.ended_by else ""
        at = f" at {self.ended_at.astimezone(UTC):%Y-%m-%d %H:%M:%S UTC}" if self.ended_at else ""
        why = f" ({self.reason})" if self.reason else ""
        done = "" if self.done_stream_position is None else f", done through stream position {self.done_stream_position:,}"
        return f"was ended{by}{at}{why}{done}"

    @property
    def what(self) -> str:
        """As retention says it: the reader, and from which log position on something is kept for it."""
        state = (
            "whose subscription to this stream was ended, and which"
            if self.former == "ended"
            else "which has not subscribed to this stream yet and"
        )
        return f"relaybox.yaml names {self.reader.name}, {state} needs all from position {self.needs_from:,} on"


class _Unsubscribed(NamedTuple):
    number: int
    log_id: int
    first_kept_position: int
    former: Literal["none", "elsewhere_ended", "elsewhere_open", "ended"]
    ended_at: datetime | None
    ended_by: str | None
    reason: str | None
    done_stream_position: int | None
    next_stream_position: int
    repeated_count: int
    dead_letter_count: int
    settings: str
    is_open_elsewhere: bool


_UNSUBSCRIBED = """
select (reader.number - 1)::integer as number, i.log_id, i.first_kept_position,
    case
        when last.subscription_id is not null then 'ended'
        when other.has_open then 'elsewhere_open'
        when other.has_open is not null then 'elsewhere_ended'
        else 'none'
    end as former,
    last.ended_at, act.done_by as ended_by, act.reason, last.done_at_end as done_stream_position,
    greatest(coalesce(last.done_at_end, 0) + 1, s.first_kept_stream_position) as next_stream_position,
    coalesce(greatest(act.acknowledged_through - greatest(last.done_at_end, s.first_kept_stream_position - 1), 0), 0) as repeated_count,
    (
        select count(*) from relaybox_internal.dead_letter d
        where d.subscription_id = last.subscription_id and d.state in ('open', 'redriving')
    ) as dead_letter_count,
    {},
    coalesce(other.has_open, false) as is_open_elsewhere
from unnest(%s::text[], %s::text[], %s::boolean[]) with ordinality reader (subscription, stream, needs_all_topics, number)
join relaybox_internal.stream s on s.stream = reader.stream
join relaybox_internal.stream_log l on l.stream_id = s.stream_id
join relaybox_internal.hop_in i on i.log_id = l.log_id
left join lateral (
    select n.* from relaybox_internal.subscription n
    where n.stream_id = s.stream_id and n.replay_of is null and not (reader.needs_all_topics and n.topic is not null) and (
        n.subscription = reader.subscription
        or right(reader.subscription, 1) = '*' and starts_with(n.subscription, rtrim(reader.subscription, '*'))
    )
    order by n.ended_at is null desc, n.subscription_id desc
    limit 1
) last on true
left join lateral (
    select a.done_by, a.reason, (
        select min(p.value::bigint) from jsonb_each_text(a.detail -> 'done_stream_positions') p
    ) as acknowledged_through
    from relaybox_internal.consumer_action a
    where a.subscription_id = last.subscription_id and a.action = 'unsubscribe'
    order by a.action_id desc
    limit 1
) act on true
cross join lateral (
    select bool_or(f.ended_at is null) as has_open from relaybox_internal.subscription f
    where f.subscription = reader.subscription and (f.stream_id <> s.stream_id or reader.needs_all_topics and f.topic is not null)
) other
where last.subscription_id is null or last.ended_at is not null
order by i.log_id, reader.number
"""


def list_unsubscribed(session: StoreSession, readers: Sequence[NamedReader]) -> list[UnsubscribedReader]:
    """Of the readers, for each log of their stream, those without an open subscription to it. In the session's transaction."""
    if not readers:
        return []
    names, streams = [reader.subscription for reader in readers], [reader.stream for reader in readers]
    needs_all_topics = [reader.processed_by is not None for reader in readers]
    found = session.rows(_Unsubscribed, _UNSUBSCRIBED.format(SETTINGS.format("last")), names, streams, needs_all_topics)
    return [
        UnsubscribedReader(
            one.log_id,
            reader,
            one.first_kept_position,
            one.former,
            one.ended_at,
            one.ended_by,
            one.reason,
            one.done_stream_position,
            _choose_step(reader, one),
        )
        for one in found
        for reader in (readers[one.number],)
    ]


def _describe_rest(reader: NamedReader, found: _Unsubscribed) -> str:
    """What the ended subscription left that the next one must know of, as sentences with a space behind; empty: nothing."""
    repeated = found.repeated_count and (
        f"It ended with messages that it had passed as not due. The next one begins with the first of them, and gets the "
        f"{amount(found.repeated_count, 'stream position')} from there on again. "
    )
    letters = found.dead_letter_count and (
        f"It left {amount(found.dead_letter_count, 'open dead letter')}, which no consumer gets, and nothing behind them is settled before "
        f"they are dropped. To list them, run: relaybox dead-letters list {reader.store} --subscription {reader.subscription}. "
    )
    return f"{repeated or ''}{letters or ''}"


def _choose_step(reader: NamedReader, found: _Unsubscribed) -> str:
    if found.former == "ended" and reader.processed_by is not None:
        step = _subscribe_or_remove(
            *(reader.store, reader.subscription, reader.stream, reader.processed_by),
            given=f", '{found.next_stream_position}'{found.settings}",
            is_open_elsewhere=found.is_open_elsewhere,
        )
        return f"{_describe_rest(reader, found)}{step}"
    if found.former == "ended" and reader.is_sink and found.done_stream_position is not None:
        return f'To go on behind what it has done, first write start: "{found.next_stream_position}". {reader.next_step_if_ended}'
    return {
        "none": reader.next_step,
        "ended": reader.next_step_if_ended,
        "elsewhere_ended": reader.next_step_if_ended,
        "elsewhere_open": reader.next_step_if_open,
    }[found.former]
