"""Readers that relaybox.yaml names and that have not subscribed yet: retention keeps the log of their stream for their first run.

A subscription holds what it has not acknowledged. Before it exists nothing in the store holds its messages, and it would begin behind
those that were dropped, without a word. A subscription that was ended needs nothing: it exists in the store, as ended.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

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
        next_step: what ends that it is awaited.
    """

    name: str
    subscription: str
    stream: str
    next_step: str


def named_readers(routes: Routes, store: Store) -> tuple[NamedReader, ...]:
    """The readers of the streams of a store that relaybox.yaml names, but for those that start at `latest`."""
    return tuple(_named_readers(routes, store))


def _named_readers(routes: Routes, store: Store) -> Iterator[NamedReader]:
    for hop in routes.hops:
        if hop.destination == store:
            for name in hop.processed_by:
                subscribe = f"run at {store.name}: select relaybox.subscribe('{name}', '{hop.stream}')"
                remove = f"take the name out of processed_by of route {hop.route} and run: relaybox init"
                yield NamedReader(f"subscription {name}", name, hop.stream, f"{subscribe}; or {remove}")
    for sink in routes.sinks:
        if sink.store == store and sink.start != "latest":
            step = _run_or_remove(f"relaybox {sink.kind} run {sink.name}")
            yield NamedReader(f"{sink.kind} {sink.name}", sink.subscription, sink.stream, step)
    for export in routes.exports.values():
        if export.store == store and export.start != "latest":
            step = _run_or_remove(f"relaybox export {export.name}")
            yield NamedReader(f"export {export.name}", export.subscription, export.stream, step)
    for route in routes.routes.values():
        if (derivation := route.derivation) is not None and route.path[0] == store and derivation.start != "latest":
            step = _run_or_remove(f"relaybox derive {route.name}")
            yield NamedReader(f"derivation {route.name}", f"derive.{route.name}.v*", derivation.stream, step)


def _run_or_remove(command: str) -> str:
    return f"run: {command}; or write start: latest, or take it out of relaybox.yaml"


def describe_awaited(name: str) -> str:
    """A named reader, and why something is kept for it."""
    return f"{name}, which relaybox.yaml names and which has not subscribed yet"


class AwaitedReader(NamedTuple):
    """A reader that has never subscribed to the stream of a log, and the first position that the log keeps."""

    log_id: int
    reader: NamedReader
    needs_from: int


class _Unsubscribed(NamedTuple):
    number: int
    log_id: int
    first_kept_position: int


_UNSUBSCRIBED = """
select (reader.number - 1)::integer as number, i.log_id, i.first_kept_position
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
    return [AwaitedReader(one.log_id, readers[one.number], one.first_kept_position) for one in found]
