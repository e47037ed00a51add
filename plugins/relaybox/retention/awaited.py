"""Readers that relaybox.yaml names and that have not subscribed yet: retention keeps the log of their stream for their first run.

A subscription holds what it has not acknowledged. Before it exists nothing in the store holds its messages, and it would begin after
those that were dropped, and not say so. A subscription that was ended needs nothing: it exists in the store, as ended.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

from relaybox.amounts import amount

if TYPE_CHECKING:
    from relaybox.routes import Routes, Store
    from relaybox.stores.sessions import StoreSession


@dataclass(frozen=True)
class NamedReader:
    """Who reads a stream of a store from `earliest`, a stream position or a time on, as relaybox.yaml says.

    Attributes:
        name: as it is shown: subscription billing, webhook orders, kafka warehouse, export lake, derivation delays.
        subscription: its name in the store; of a derivation, with a star at its end for its version.
        stream: of the store.
        next_step: how it subscribes, or is awaited no longer.
        next_step_if_ended: the same where a subscription of the name to another stream was ended.
        next_step_if_open: the same where one to another stream is open.
    """

    name: str
    subscription: str
    stream: str
    next_step: str
    next_step_if_ended: str
    next_step_if_open: str


def named_readers(routes: Routes, store: Store) -> tuple[NamedReader, ...]:
    """The readers of the streams of a store that relaybox.yaml names, but for those that start at `latest`."""
    return tuple(_named_readers(routes, store))


def _named_readers(routes: Routes, store: Store) -> Iterator[NamedReader]:
    for hop in routes.hops:
        if hop.destination == store:
            for name in hop.processed_by:
                subscribe = f"select relaybox.subscribe('{name}', '{hop.stream}');"
                remove = f"or take {name} out of processed_by of route {hop.route} (and policy, if no name is left) and run: relaybox init"
                step = f"In store {store.name}, run: {subscribe} {remove}"
                end = f"select relaybox.unsubscribe('{name}', 'REASON');"
                instead = (
                    f"Subscription {name} reads another stream. In store {store.name}, run: {end} then run: {subscribe} {remove}"
                )
                yield NamedReader(f"subscription {name}", name, hop.stream, step, step, instead)
    for sink in routes.sinks:
        if sink.store == store and sink.start != "latest":
            run = f"relaybox {sink.kind} run {sink.name}"
            steps = (
                _run_or_remove(run),
                _run_or_remove(f"{run} --begin-anew"),
                f"To see how it goes on in this stream, run: relaybox doctor {store.name}",
            )
            yield NamedReader(f"{sink.kind} {sink.name}", sink.subscription, sink.stream, *steps)
    for export in routes.exports.values():
        if export.store == store and export.start != "latest":
            step = _run_or_remove(f"relaybox export {export.name}")
            yield NamedReader(f"export {export.name}", export.subscription, export.stream, step, step, step)
    for route in routes.routes.values():
        if (derivation := route.derivation) is not None and route.path[0] == store and derivation.start != "latest":
            step = _run_or_remove(f"relaybox derive {route.name}")
            yield NamedReader(f"derivation {route.name}", f"derive.{route.name}.v*", derivation.stream, step, step, step)


def _run_or_remove(command: str) -> str:
    return f"Run: {command}; or, if it may skip all messages that are kept, write start: latest; or take it out of relaybox.yaml"


def describe_awaited(name: str, needs_from: int) -> str:
    """A named reader, and from which log position on something is kept for it."""
    return (
        f"relaybox.yaml names {name}, which has not subscribed to this stream yet and needs all from position {needs_from:,} on"
    )


class AwaitedReader(NamedTuple):
    """A reader that has never subscribed to the stream of a log, and the first position that the log keeps."""

    log_id: int
    reader: NamedReader
    needs_from: int
    next_step: str


class _Unsubscribed(NamedTuple):
    number: int
    log_id: int
    first_kept_position: int
    former: Literal["none", "ended", "open"]


_UNSUBSCRIBED = """
select (reader.number - 1)::integer as number, i.log_id, i.first_kept_position,
    (
        select case when count(*) = 0 then 'none' when bool_or(f.ended_at is null) then 'open' else 'ended' end
        from relaybox_internal.subscription f where f.subscription = reader.subscription
    ) as former
from unnest(%s::text[], %s::text[]) with ordinality reader (subscription, stream, number)
join relaybox_internal.stream s on s.stream = reader.stream
join relaybox_internal.stream_log l on l.stream_id = s.stream_id
join relaybox_internal.hop_in i on i.log_id = l.log_id
where not exists (
    select from relaybox_internal.subscription n
    where n.stream_id = s.stream_id and (
        n.subscription = reader.subscription
        or right(reader.subscription, 1) = '*' and starts_with(n.subscription, rtrim(reader.subscription, '*'))
    )
)
order by i.log_id, reader.number
"""


def list_awaited(session: StoreSession, readers: Sequence[NamedReader]) -> list[AwaitedReader]:
    """Of the readers, for each log of their stream, those that have never subscribed to it. In the session's transaction."""
    if not readers:
        return []
    names, streams = [reader.subscription for reader in readers], [reader.stream for reader in readers]
    found = session.rows(_Unsubscribed, _UNSUBSCRIBED, names, streams)
    return [
        AwaitedReader(one.log_id, reader, one.first_kept_position, _choose_step(reader, one.former))
        for one in found
        for reader in (readers[one.number],)
    ]


def _choose_step(reader: NamedReader, former: Literal["none", "ended", "open"]) -> str:
    return {"none": reader.next_step, "ended": reader.next_step_if_ended, "open": reader.next_step_if_open}[former]


def first_by_log(awaited: Sequence[AwaitedReader]) -> dict[int, AwaitedReader]:
    """Of each log the first reader that is awaited; its next step says how many others are."""
    found: dict[int, AwaitedReader] = {}
    others = Counter(one.log_id for one in awaited)
    for one in awaited:
        if one.log_id not in found:
            more = others[one.log_id] - 1
            then = (
                f". {amount(more, 'more reader is', 'more readers are')} awaited. To list them, run: relaybox retention --dry-run"
            )
            found[one.log_id] = one._replace(next_step=f"{one.next_step}{then}") if more else one
    return found
