"""A stream in a real store whose logs are written by the test: arrivals, decisions, and what came out."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from psycopg2.extras import Json, execute_values

from tests.delivery.brute import Declaration, Row
from tests.delivery.histories import LOGS, History
from tests.delivery.outcomes import Outcome, read_outcome

EMPTY = """
delete from relaybox_internal.held; delete from relaybox_internal.seen; delete from relaybox_internal.index_range; delete
    from relaybox_internal.sender_state;
delete from relaybox_internal.dead_letter; delete from relaybox_internal.decision; delete from relaybox_internal.delivery; delete
    from relaybox_internal.skip;
delete from relaybox_internal.stream_log; delete from relaybox_internal.stream; delete from relaybox_internal.sender;
delete from relaybox_internal.arrival; delete from relaybox_internal.receipt; delete
    from relaybox_internal.log; update relaybox_internal.hop_in set published_batch = 0, published_position = 0;
"""
FORGET = """
delete from relaybox_internal.held; delete from relaybox_internal.seen; delete from relaybox_internal.index_range; delete
    from relaybox_internal.sender_state;
delete from relaybox_internal.dead_letter; delete from relaybox_internal.decision; delete from relaybox_internal.delivery;
update relaybox_internal.stream set arrival_seq = 0, last_stream_position = 0, recheck = false;
update relaybox_internal.stream_log set decided_batch = 0, decided_position = 0;
"""
BEGAN = datetime(2026, 1, 1, tzinfo=UTC)


class StoredStream:
    """The stream `all` over logs of LOGS in one store; used again for each history."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self._logs: dict[str, int] = {}
        for log in LOGS:
            self._logs[log] = self._execute(
                "select (relaybox_internal.register_hop_in(%s, %s)).log_id", log, log.removesuffix("/1")
            )[0][0]
        self.commit()

    def begin(self, history: History, *, holdback_rows: int = 10_000, fragments: int = 1_000_000) -> None:
        """Everything is in the logs; nothing is published yet, and no sender known. Commits."""
        self.roll_back()  # an example before this one may have failed anywhere
        self._execute(EMPTY)
        self._execute("select relaybox_internal.make_published_sender()")
        for log, origin in history.origins.items():
            self._execute(
                "select relaybox_internal.register_stream(%s, 'all', %s, %s, %s, %s, %s)",
                log, origin, history.order, history.message_id_window, holdback_rows, fragments,
            )  # fmt: skip
        self._write(row for rows in history.logs.values() for row in rows)
        self.commit()

    def publish(self, log: str, row_count: int, *, knows_kind: bool) -> None:
        """The next rows arrive as one batch; `knows_kind` false: as if published by an older release. Commits."""
        ((generation, batch, log_position),) = self._execute(
            "select generation, published_batch + 1, published_position from relaybox_internal.hop_in where log_id = %s",
            self._logs[log],
        )
        plan = str(uuid.uuid4())
        self._execute(
            "insert into relaybox_internal.receipt (log_id, batch, slice, plan_id, row_count, attempt) values (%s, %s, 1, %s, %s, 1)",
            self._logs[log], batch, plan, row_count,
        )  # fmt: skip
        self._execute(
            "select relaybox_internal.publish_batch(%s, %s, %s, %s, %s, %s, 1, 1, 1)",
            self._logs[log], generation, batch, plan, log_position + 1, log_position + row_count,
        )  # fmt: skip
        if not knows_kind:
            self._execute(
                "update relaybox_internal.arrival set has_own_indexes = null where log_id = %s and batch = %s",
                self._logs[log],
                batch,
            )
        self.commit()

    def decide(self, log: str) -> bool:
        """Decides on the log's next batch in the open transaction; false if there is none."""
        return bool(self._execute("select (relaybox_internal.deliver_next(%s)).batch is not null", self._logs[log])[0][0])

    def skip(self, sender: str, last_index: int) -> None:
        """Gives up the sender's gap through an index. Commits."""
        self._execute("select relaybox_internal.skip_gap('all', %s, %s, 'lost', 'test')", sender, last_index)
        self.commit()

    def set_aside(self, sender: str, index: int) -> None:
        """Gives up the sender's next message, which is here and waits for its clock. Commits."""
        self._execute("select relaybox_internal.skip_gap('all', %s, %s, 'lost', 'test', with_held => true)", sender, index)
        self.commit()

    def carry(self, declarations: Iterable[Declaration]) -> None:
        """A hop has brought these declarations. Commits."""
        rows = [(d.origin, d.sender, d.epoch, d.kind, moment(d.declared_at)) for d in declarations]
        self._insert("relaybox_internal.sender (origin, sender, epoch, kind, declared_at)", rows)
        self.commit()

    def forget_decisions(self) -> list[str]:
        """The store has its logs and every declaration, and no decision any more. Commits.

        Returns the logs in the order in which their batches were decided on.
        """
        decided = self._execute(
            "select i.hop from relaybox_internal.decision d join relaybox_internal.hop_in i using (log_id) order by d.first_arrival_seq"
        )
        self._execute(FORGET)
        self.commit()
        return [log for (log,) in decided]

    def commit(self) -> None:
        self._connection.commit()

    def roll_back(self) -> None:
        self._connection.rollback()

    def outcome(self) -> Outcome:
        return read_outcome(self._execute, "all")

    def _write(self, rows: Iterable[Row]) -> None:
        self._insert(
            "relaybox_internal.log (log_id, log_position, sender, epoch, index, sent_at, message_id, topic, payload, clock)",
            [
                (
                    self._logs[row.log], row.log_position, row.sender, row.epoch, row.index, moment(row.sent_at),
                    str(uuid.uuid5(uuid.NAMESPACE_OID, row.message_id)), "flights", row.content[0],
                    None if row.clock is None else Json(row.clock),
                )
                for row in rows
            ],
        )  # fmt: skip

    def _insert(self, into: str, rows: list[tuple[Any, ...]]) -> None:
        with self._connection.cursor() as cursor:
            execute_values(cursor, f"insert into {into} values %s", rows, page_size=1000)

    def _execute(self, statement: str, *arguments: Any, **named: Any) -> list[tuple[Any, ...]]:
        with self._connection.cursor() as cursor:
            cursor.execute(statement, named or arguments or None)
            return list(cursor.fetchall()) if cursor.description else []


def moment(seconds: float) -> datetime:
    return BEGAN + timedelta(seconds=seconds)
