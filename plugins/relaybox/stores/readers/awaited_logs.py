"""Logs of which retention keeps all, since relaybox.yaml gives them a reader that holds nothing there yet.

Either the reader has no subscription to their stream (stores.readers.awaited_readers). Or relaybox.yaml brings a topic of an open
subscription in their stream now, and nothing keeps its messages there until the subscription goes on with them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from relaybox.amounts import amount
from relaybox.stores.readers.awaited_readers import list_unsubscribed, named_readers
from relaybox.stores.readers.carried_topics import show_topics
from relaybox.stores.readers.orphaned_subscriptions import list_orphaned_subscriptions
from relaybox.stores.readers.reduced_subscriptions import list_reduced_subscriptions

if TYPE_CHECKING:
    from relaybox.routes import Routes, Store
    from relaybox.stores.sessions.store_session import StoreSession


class AwaitedLog(NamedTuple):
    """A log, one reader for which all of it is kept, and the first position that the log keeps.

    Attributes:
        reader: as it is shown: subscription billing, webhook orders ...
        what: why it needs the log, and from which log position on.
        next_step: what ends that.
    """

    log_id: int
    reader: str
    needs_from: int
    what: str
    next_step: str


def list_awaited_logs(session: StoreSession, store: Store, routes: Routes | None) -> list[AwaitedLog]:
    """The logs of a store with readers that await them, one for each reader; none without routes of relaybox.yaml.

    Reads no message. In the session's transaction.
    """
    if routes is None:
        return []
    unsubscribed = (
        AwaitedLog(one.log_id, one.reader.name, one.needs_from, one.what, one.next_step)
        for one in list_unsubscribed(session, named_readers(routes, store))
        if one.is_awaited
    )
    return [*unsubscribed, *_list_moved(session, store, routes)]


def first_by_log(awaited: Sequence[AwaitedLog]) -> dict[int, AwaitedLog]:
    """Of each log the first reader that is awaited; its next step says how many others are."""
    found: dict[int, AwaitedLog] = {}
    others = Counter(one.log_id for one in awaited)
    for one in awaited:
        if one.log_id not in found:
            more = others[one.log_id] - 1
            then = (
                f". {amount(more, 'more reader is', 'more readers are')} awaited. To list them, run: relaybox retention --dry-run"
            )
            found[one.log_id] = one._replace(next_step=f"{one.next_step}{then}") if more else one
    return found


class _Moved(NamedTuple):
    """Topics of an open subscription that another stream of its store has now, where nothing keeps them for it."""

    subscription: str
    stream: str
    topics: tuple[str, ...]
    next_step: str


class _Log(NamedTuple):
    stream: str
    log_id: int
    first_kept_position: int


_LOGS = """
select s.stream, i.log_id, i.first_kept_position
from relaybox_internal.stream s
join relaybox_internal.stream_log l on l.stream_id = s.stream_id
join relaybox_internal.hop_in i on i.log_id = l.log_id
where s.stream = any(%s)
order by s.stream, i.log_id
"""


def _list_moved(session: StoreSession, store: Store, routes: Routes) -> Iterator[AwaitedLog]:
    orphaned = (
        _Moved(one.subscription, stream, topics, one.next_step)
        for one in list_orphaned_subscriptions(session, store, routes)
        for stream, topics in one.elsewhere.items()
        if stream in one.unkept
    )
    reduced = (
        _Moved(one.subscription, stream, topics, one.next_step)
        for one in list_reduced_subscriptions(session, store, routes)
        for stream, topics in one.elsewhere.items()
    )
    moved = (*orphaned, *reduced)
    if not moved:
        return
    logs = session.rows(_Log, _LOGS, [one.stream for one in moved])
    for one in moved:
        for log in logs:
            if log.stream == one.stream:
                yield AwaitedLog(
                    log.log_id, f"subscription {one.subscription}", log.first_kept_position, _what(one, log), one.next_step
                )


def _what(one: _Moved, log: _Log) -> str:
    return (
        f"relaybox.yaml brings {show_topics(one.topics)} of subscription {one.subscription} in this stream now, where nothing keeps its "
        f"messages yet: it needs all from position {log.first_kept_position:,} on"
    )
