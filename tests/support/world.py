"""Three real stores and one route over them: what most tests run in."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg2
import yaml
from psycopg2.extensions import TRANSACTION_STATUS_INERROR, TRANSACTION_STATUS_INTRANS

from relaybox.hops.confirmations import SettleResult, settle_hop
from relaybox.hops.runners import ThreadRunner
from relaybox.hops.store_ids import StoreIds
from relaybox.hops.transfer import TransferSummary, transfer_hop
from relaybox.routes import Hop, Route, Routes, load_routes
from relaybox.stores.init.one_store import SchemaApplied, apply_routes, initialise_store
from relaybox.stores.init.server import record_server
from relaybox.stores.sessions.store_session import StoreSession
from tests.support.kept_sessions import kept_session
from tests.support.patience import Deadline

STORES = ("airline", "hub", "analytics")

_NOTHING_APPLIED = SchemaApplied((), (), False, (), False, (), ())

MAKE_SEGMENTS_ANEW = """
do $$ declare s record; begin
    for s in select segment from relaybox_internal.segments() loop execute format('drop table %s', s.segment); end loop;
end $$;
select relaybox_internal.ensure_outbox_segments(), (select array_agg(relaybox_internal.ensure_log_segments(i.log_id, 0))
    from relaybox_internal.hop_in i);
"""
SMALL_SEGMENTS = f"update relaybox_internal.store set segment_rows = 10; {MAKE_SEGMENTS_ANEW}"


def routes_file(
    directory: Path, *, route: Mapping[str, object] | None = None, more_routes: Mapping[str, object] | None = None
) -> Path:
    """Writes a relaybox.yaml with the route `flights` over the three stores; `route` overrides its keys, `more_routes` adds others."""
    path = directory / "relaybox.yaml"
    flights = {"topics": ["flights"], "path": list(STORES), **(route or {})}
    path.write_text(
        yaml.safe_dump({"stores": {store: {} for store in STORES}, "routes": {"flights": flights, **(more_routes or {})}})
    )
    return path


def wait_until(
    condition: Callable[[], bool],
    what: str,
    *,
    deadline_seconds: float = 30.0,
    poll_seconds: float = 0.02,
    progress: Callable[[], object] = lambda: None,
) -> None:
    """Polls a condition; fails with `what` after the deadline (tests.support.patience), which begins anew whenever `progress` changes.

    A condition that costs the asked one much is polled less often.
    """
    deadline, reached = Deadline(deadline_seconds), progress()
    while not condition():
        if deadline.is_over():
            before, reached = reached, progress()
            assert reached != before, f"not within {deadline}: {what}"
            deadline.restart()
        time.sleep(poll_seconds)


@dataclass(frozen=True)
class World:
    """The stores `airline`, `hub`, `analytics`, initialised, empty, reachable by libpq service names of the same names."""

    path: Path
    options: str = ""
    """What the sessions of a test set, as libpq's `options` says it."""

    @property
    def routes(self) -> Routes:
        return load_routes(self.path)

    @property
    def route(self) -> Route:
        return self.routes.route("flights")

    @property
    def first_hop(self) -> Hop:
        return self.route.hops[0]

    @property
    def second_hop(self) -> Hop:
        return self.route.hops[1]

    def change_route(self, **changes: object) -> None:
        """Rewrites relaybox.yaml and registers its routes."""
        routes_file(self.path.parent, route=changes)
        self.register()

    def register(self) -> None:
        """Does of an init what relaybox.yaml asks for, in stores that this run initialised: a tenth of the work of initialise()."""
        routes = self.routes
        for store in routes.stores.values():
            with self.store_session(store.name) as session:
                record_server(session, store)
                apply_routes(session, store, routes, _NOTHING_APPLIED)
                session.commit("init")
                session.call("relaybox_internal.ensure_outbox_segments")
                session.commit("outbox_segments")
                session.call("relaybox_internal.place_payload_trigger")
                session.commit("payload_trigger")

    def initialise(self, *, segment_rows: int = 10_000) -> None:
        """As `relaybox init` does it: looks at all that a store has."""
        routes = self.routes
        for store in routes.stores.values():
            initialise_store(store, routes, segment_rows=segment_rows)

    def cut_small_segments(self, segment_rows: int = 10) -> None:
        """Segments of this number of rows, in stores that have no messages yet."""
        for store in STORES:
            with self.session(store, autocommit=True) as connection, connection.cursor() as cursor:
                cursor.execute("update relaybox_internal.store set segment_rows = %s", (segment_rows,))
                cursor.execute(MAKE_SEGMENTS_ANEW)

    @contextmanager
    def session(self, store: str = "airline", *, autocommit: bool = False) -> Iterator[Any]:
        """A plain session of an application. Its transaction has ended with the block: a busy server may notice later that a session did."""
        connection = psycopg2.connect(service=store, options=self.options)
        connection.autocommit = autocommit
        try:
            yield connection
        finally:
            if connection.info.transaction_status in (TRANSACTION_STATUS_INTRANS, TRANSACTION_STATUS_INERROR):
                with suppress(psycopg2.Error):  # the server has ended the session
                    connection.rollback()
            connection.close()

    @contextmanager
    def store_session(self, store: str = "airline") -> Iterator[StoreSession]:
        """The same as the library's functions take it."""
        with self.session(store) as connection:
            yield StoreSession(connection, store)

    def query(self, store: str, query: str, *arguments: object) -> list[tuple[Any, ...]]:
        """Rows of one statement, committed."""
        with kept_session(store, self.options, query) as connection, connection.cursor() as cursor:
            cursor.execute(query, arguments)
            return list(cursor.fetchall()) if cursor.description else []

    def value(self, store: str, query: str, *arguments: object) -> Any:
        return self.query(store, query, *arguments)[0][0]

    def send(self, *payloads: str, sender: str = "UA", topic: str = "flights") -> None:
        """One committed transaction with one message per payload."""
        with self.session() as connection:
            insert(connection, *payloads, sender=sender, topic=topic)
            connection.commit()

    def send_many(self, count: int, *, sender: str = "UA", prefix: str = "m", topic: str = "flights") -> None:
        """One committed transaction with `count` messages prefix1 .. prefix<count>."""
        self.query(
            "airline",
            "insert into relaybox.outbox (topic, sender, payload) select %s, %s, %s || n from generate_series(1, %s) n",
            topic,
            sender,
            prefix,
            count,
        )

    def transfer(self, hop: Hop | None = None, **options: Any) -> TransferSummary:
        with ThreadRunner(2) as runner:
            return transfer_hop(hop or self.first_hop, runner, recorded_by="test", **options)

    def transfer_all(self) -> None:
        for hop in self.route.hops:
            self.transfer(hop)

    def settle_all(self) -> list[SettleResult]:
        """Settles the last hop first, as the cascade does."""
        return [settle_hop(self.route, hop, recorded_by="test") for hop in reversed(self.route.hops)]

    def payloads(self, hop: str = "flights/1") -> list[str]:
        """What a consumer of a hop's log reads, in order."""
        return [
            row[0] for row in self.query(self.destination(hop), "select payload from relaybox.read_log(%s, 0, 10000000)", hop)
        ]

    def log_positions(self, hop: str = "flights/1") -> list[int]:
        return [
            row[0]
            for row in self.query(self.destination(hop), "select log_position from relaybox.read_log(%s, 0, 10000000)", hop)
        ]

    def destination(self, hop: str) -> str:
        return self.routes.hop(hop).destination.name

    def store_ids(self, hop: Hop | None = None) -> StoreIds:
        """The ids of the two stores of a hop, as its driver learns them."""
        hop = hop or self.first_hop
        ends = (hop.source.name, hop.destination.name)
        return StoreIds(*(self.value(store, "select store_id::text from relaybox_internal.store") for store in ends))

    def sent(self) -> list[str]:
        """Payloads of all committed messages, in the outbox's order."""
        return [row[0] for row in self.query("airline", "select payload from relaybox.outbox order by seq")]


def insert(connection: Any, *payloads: str, sender: str = "UA", topic: str = "flights") -> None:
    """Inserts messages in the connection's open transaction."""
    with connection.cursor() as cursor:
        for payload in payloads:
            cursor.execute("insert into relaybox.outbox (topic, sender, payload) values (%s, %s, %s)", (topic, sender, payload))
