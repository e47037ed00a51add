"""The export in its store: a subscription, so that retention keeps what the table does not have yet."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, NamedTuple

from relaybox.errors import AlreadySubscribed, ExportSuperseded, LakeChanged
from relaybox.stores.sessions.connections import connect
from relaybox.stores.sessions.store_session import StoreSession

if TYPE_CHECKING:
    from relaybox.routes import Export

_SUBSCRIPTION = """
    select stream, topic, lanes, first_stream_position as first, done_stream_position as done
    from relaybox.subscriptions where subscription = %s
"""
_SUBSCRIBE = "select relaybox.subscribe(%s, %s, %s, crash_limit => 2147483647, delayed => 'ignore')"
_ACK = "select relaybox_internal.ack_through(%s, %s, 'export')"


class Subscribed(NamedTuple):
    """`done`: the stream position that is acknowledged; first - 1 before any."""

    stream: str
    topic: str | None
    lanes: int
    first: int
    done: int


class ExportSubscription:
    """A session that lives as long as the run."""

    def __init__(self, session: StoreSession, export: Export) -> None:
        self.session = session
        self.export = export

    def read(self) -> Subscribed | None:
        """How far it is acknowledged; None: nobody has subscribed.

        Raises:
            LakeChanged: somebody subscribed under its name to something else.
        """
        found = self.session.row_if_any(Subscribed, _SUBSCRIPTION, self.export.subscription)
        self.session.rollback()
        if found is not None and (found.stream, found.topic, found.lanes) != (self.export.stream, None, 1):
            raise LakeChanged(
                f"store {self.session.store}: subscription {self.export.subscription} reads stream {found.stream}"
                f"{f', topic {found.topic}' if found.topic else ''} in {found.lanes} lanes; "
                f"expected stream {self.export.stream} in 1 lane.",
                next_step=f"Give the export another name, or: select relaybox.unsubscribe('{self.export.subscription}', 'REASON').",
            )
        return found

    def subscribe(self, start: str) -> int:
        """Subscribes, and returns the first stream position. One transaction, durable.

        Raises:
            ExportSuperseded: another run has subscribed since this one looked.
            NoLongerKept, Detached, RequestRefused: the store has no such start.
        """
        try:
            first: int = self.session.value(_SUBSCRIBE, self.export.subscription, self.export.stream, start)
        except AlreadySubscribed as error:
            raise ExportSuperseded(
                f"export {self.export.name}: another run has subscribed it at this moment. This run writes nothing.",
                next_step="Nothing is lost. Run one export at a time.",
            ) from error
        self.session.commit_durably("lake_subscription")
        return first

    def ack(self, position: int) -> None:
        """Acknowledges what the table has, through a stream position. One transaction."""
        self.session.value(_ACK, self.export.subscription, position)
        self.session.commit_durably("lake_ack")


@contextmanager
def open_subscription(export: Export) -> Iterator[ExportSubscription]:
    """A session until the block ends."""
    connection = connect(export.store.service, application_name=f"relaybox export {export.name}")
    with closing(StoreSession(connection, export.store.name, f"exporting stream {export.stream}")) as session:
        yield ExportSubscription(session, export)
