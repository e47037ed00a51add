"""What Spark makes of the demo's stream while Airflow runs it: the messages of a derivation, and a table of a lake."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from relaybox.local.java import find_spark_programs
from relaybox.spark.driver_options import driver_java_options
from relaybox.stores.sessions.connections import connect
from relaybox.stores.sessions.store_session import StoreSession

if TYPE_CHECKING:
    from relaybox.routes import Export, Route, Store
    from relaybox.spark.tasks import TaskSession

_PUBLISHED = """
    select
        count(*) as attempt_count, coalesce(sum(a.message_count), 0)::bigint as message_count,
        coalesce(sum(a.derived_count), 0)::bigint as derived_count
    from relaybox_internal.derivation_attempt a join relaybox_internal.derivation d using (derivation_id)
    where d.route = %s and a.state = 'published'
"""
_RECEIVED = "select published_position from relaybox_internal.hop_in where hop = %s"
_EXPORTED = "select coalesce(max(done_stream_position), 0) from relaybox.subscriptions where subscription = %s"
_FLIGHTS = """
    select m.airline, sum(m.flights)::bigint as flight_count, sum(m.late)::bigint as late_count
    from relaybox.inbox i cross join lateral jsonb_to_record(i.payload::jsonb) m (airline text, flights integer, late integer)
    where i.hop = %s group by m.airline
"""


class _Published(NamedTuple):
    attempt_count: int
    message_count: int
    derived_count: int


class _Airline(NamedTuple):
    airline: str
    flight_count: int
    late_count: int


@dataclass(frozen=True)
class SparkProgress:
    """How far derivation and export are.

    Attributes:
        attempt_count: of the derivation, that published.
        message_count: from which they derived.
        derived_count: messages that they sent.
        received_count: of these, at the last store.
        exported_count: messages in the table that the store knows of.
    """

    attempt_count: int
    message_count: int
    derived_count: int
    received_count: int
    exported_count: int

    def has_derived(self, message_count: int) -> bool:
        """Whether this number of messages is derived from, and all that came of it is at the last store."""
        return self.message_count == message_count and self.received_count == self.derived_count


@dataclass(frozen=True)
class DerivedFacts:
    """The derived messages at the last store.

    Attributes:
        route: whose messages they are.
        version: of the derivation.
        flights: by airline, as the messages say.
        late: of these, flights that left more than 15 minutes late.
    """

    route: str
    version: int
    progress: SparkProgress
    flights: Counter[str]
    late: Counter[str]


@dataclass(frozen=True)
class LakeFacts:
    """The table, compared with its stream row by row.

    Attributes:
        row_count: of the table.
        compared_count: messages of the stream.
        first_difference: the first stream position that is missing, doubled or different; None: none.
    """

    export: str
    path: str
    version: int
    row_count: int
    compared_count: int
    first_difference: int | None


class SparkProgressReader:
    """Sessions to the stores of a derived route and of an export."""

    def __init__(self, route: Route, export: Export) -> None:
        self._route, self._export = route, export
        self._sessions = {store.name: _open(store) for store in {route.path[0], route.path[-1], export.store}}

    def read(self) -> SparkProgress:
        published = self._at(self._route.path[0]).row(_Published, _PUBLISHED, self._route.name)
        received = self._at(self._route.path[-1]).value(_RECEIVED, self._route.hops[-1].name)
        exported = self._at(self._export.store).value(_EXPORTED, self._export.subscription)
        return SparkProgress(*published, received_count=received, exported_count=exported)

    def read_derived(self) -> DerivedFacts:
        """Adds up what the derived messages say."""
        airlines = self._at(self._route.path[-1]).rows(_Airline, _FLIGHTS, self._route.hops[-1].name)
        return DerivedFacts(
            self._route.name,
            self._route.require_derivation().version,
            self.read(),
            Counter({airline.airline: airline.flight_count for airline in airlines}),
            Counter({airline.airline: airline.late_count for airline in airlines}),
        )

    def _at(self, store: Store) -> StoreSession:
        return self._sessions[store.name]

    def close(self) -> None:
        for session in self._sessions.values():
            session.close()


def read_lake(export: Export) -> LakeFacts:
    """Compares the table with its stream, in a Spark of this process.

    Raises:
        LakeChanged, LakeFailed, SparkFailed, Transient, Terminal: as verify_lake().
    """
    from relaybox.spark.application import command_session  # imports Spark, which takes a second

    find_spark_programs()
    with command_session("relaybox demo", driver_java_options()) as session:
        return compare_lake(export, session)


def compare_lake(export: Export, session: TaskSession) -> LakeFacts:
    """The same where this session works."""
    from relaybox.spark.lake.verifying import verify_lake  # imports Spark, which takes a second

    found = verify_lake(export, session)
    return LakeFacts(
        export=export.name,
        path=export.path,
        version=found.version,
        row_count=sum(compared.lake_count for compared in found.ranges),
        compared_count=found.compared_count,
        first_difference=found.differences[0].first_difference if found.differences else None,
    )


def _open(store: Store) -> StoreSession:
    connection = connect(store.service, application_name="relaybox demo")
    connection.autocommit = True
    return StoreSession(connection, store.name, "asking how far Spark is")
