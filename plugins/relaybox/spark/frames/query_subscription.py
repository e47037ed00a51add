"""The subscription of a streaming query: retention, lag and `processed` know by it how far the query is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass

from relaybox.spark.frames.logins import login_of
from relaybox.stores.sessions.connections import connect
from relaybox.stores.sessions.store_session import StoreSession


@dataclass(frozen=True)
class QuerySubscription:
    """Belongs to one query: another one, also a second run of it with another checkpoint, is refused.

    Attributes:
        store: the libpq service.
        stream: the name of the stream.
        name: of the subscription.
        query: the id of the query, from its checkpoint.
    """

    store: str
    stream: str
    name: str
    query: str

    def begin(self, first: int) -> None:
        """Subscribes, unless the query has done that before. One transaction, durable.

        Args:
            first: the first stream position that the query reads.

        Raises:
            AlreadySubscribed: the subscription belongs to another query, or to a consumer.
            Transient, Terminal: the store refuses, or can't be asked.
        """
        with self._session() as session:
            session.value("select relaybox.begin_query(%s, %s, %s, %s)", self.name, self.stream, first, self.query)
            session.commit_durably("query_subscription")

    def ack(self, through: int) -> None:
        """Acknowledges what the query has done, through a stream position. One transaction, durable. Raises as begin()."""
        with self._session() as session:
            session.value("select relaybox.ack_query(%s, %s, %s)", self.name, self.query, through)
            session.commit_durably("query_ack")

    @contextmanager
    def _session(self) -> Iterator[StoreSession]:
        doing = f"acknowledging stream {self.stream} for a query"
        with (
            login_of(self.store),
            closing(StoreSession(connect(self.store, application_name="relaybox frame"), self.store, doing)) as session,
        ):
            yield session
