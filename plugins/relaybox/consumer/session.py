"""The session of a consumer: the handler's transaction, and the SQL functions of a subscription in it. The same for every library.

Each method is steps (relaybox.clients.steps): the I/O is the client session's, in a thread or in an event loop.
"""

from __future__ import annotations

import functools
import math
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from relaybox import errors
from relaybox.clients.answers import StoreAnswer, read_answer
from relaybox.clients.listening import server_process_told
from relaybox.clients.steps import Steps
from relaybox.consumer.messages import Message, UnreadLane, read_message
from relaybox.stores.sessions.sqlstates import store_error

LISTENING_SECONDS = 10.0
"""The longest rest of a session that listens: a notification may be lost."""

UPGRADE_CODES = frozenset({"0A000", "42703", "42804", "42883", "42P01", "XX000"})
"""What a call may fail with once when `relaybox init` upgrades the store under it: it had begun with the functions of before.

A cached plan, a column, a type, a function, a table or an object's number is no longer there.
"""

_PREPARED_ELSEWHERE = frozenset({"26000", "42P05"})
"""A prepared statement is not in this session of the server, or is there already: a pooler lends another one to each transaction."""

TRANSACTION_GONE = "the handler committed or rolled back the transaction that its message is acknowledged in"

_FETCH = """
select
    stream_position, lane, token, replayed, attempt, hop, "log_position", message_id, topic, sender, epoch, index, key,
    payload, payload_bytes, headers::text, clock::text, sent_at
from relaybox.fetch(
    cast({subscription} as text), cast({max_count} as integer), null, null, cast({lane} as integer), cast({worker} as text)
)
"""

_ACK_AND_FETCH = """
select
    current_setting('relaybox.consumer_transaction', true), stream_position, lane, token, replayed, attempt, hop, "log_position",
    message_id, topic, sender, epoch, index, key, payload, payload_bytes, headers::text, clock::text, sent_at
from (select) as one_row
left join relaybox.fetch(
    cast({subscription} as text), cast({max_count} as integer), cast({stream_position} as bigint), cast({token} as text),
    cast({lane} as integer), cast({worker} as text)
) on true
"""

_CAN_LISTEN = """
select
    pg_backend_pid(), to_regprocedure('relaybox.listen(text)') is not null,
    cast(extract(epoch from cast(current_setting('idle_session_timeout') as interval)) as double precision)
"""

_LISTEN = "select relaybox.listen(cast({subscription} as text))"

_REST = """
select
    relaybox.listen(cast({subscription} as text)),
    relaybox.rest_seconds(cast({subscription} as text), cast({lane} as integer), cast({longest} as double precision))
"""
"""A session that listens already listens once. A subscription that ended and began again may read another stream."""

_ACK = """
select
    current_setting('relaybox.consumer_transaction', true),
    relaybox.ack(cast({subscription} as text), cast({stream_position} as bigint), cast({token} as text))
"""

_NACK = """
select relaybox.nack(
    cast({subscription} as text), cast({stream_position} as bigint), cast({reason} as text), cast({token} as text)
)
"""

_RELEASE = "select relaybox.release(cast({subscription} as text), cast({token} as text))"

_MARK = "select set_config('relaybox.consumer_transaction', cast({mark} as text), true)"

_UNREAD = """
select
    lane, stream_positions_behind, case when leased_until > clock_timestamp() then worker end,
    case when leased_until > clock_timestamp() then leased_until end
from relaybox.lag(cast({subscription} as text))
where stream_positions_behind > 0 and not is_held and (cast({lane} as integer) is null or lane = cast({lane} as integer))
"""


class ConsumerSession:
    """One session at a time: opened by the first statement, closed by `close` and by each error of the store."""

    def __init__(self, client: Any, *, store: str, subscription: str) -> None:
        """Takes a session of relaybox.clients."""
        self.store, self.subscription = store, subscription
        self._client = client
        self._mark = ""
        self._maybe_upgraded_while: set[str] = set()
        self._asked: Any = None
        self._listener: Any = None
        self._channel = ""
        self._may_listen = False  # the server's session, also where the client was cut off in the middle
        self._longest_rest = math.inf

    @property
    def connection(self) -> Any:
        """The open connection."""
        connection = self._client.connection
        if connection is None:
            raise errors.RequestRefused(
                f"subscription {self.subscription}: the consumer has no session now; it is not in its loop."
            )
        return connection

    def is_lost(self) -> bool:
        """Whether there is no session, or a statement found it broken; asks the library, not the server."""
        return bool(self._client.is_lost())

    def is_aborted(self) -> bool:
        """Whether a statement failed in the open transaction, so that it can't commit; asks the library, not the server."""
        return bool(self._client.is_aborted())

    def begin(self) -> Steps[None]:
        """Begins the handlers' transaction and marks it: a Session bound to the connection joins it and never commits it.

        The mark is a setting of this transaction only. Every COMMIT and ROLLBACK removes it.

        Raises:
            RequestRefused: the sessions commit each statement.
        """
        yield from self._mark_transaction()
        if self.has_ended_transaction():  # an earlier handler left the session in autocommit
            yield from self.discard()
            yield from self._mark_transaction()
        if self.has_ended_transaction():
            yield from self.discard()
            raise errors.RequestRefused(
                f"store {self.store}: subscription {self.subscription}: the sessions commit each statement (autocommit), "
                "so work and acknowledgement can't be one transaction.",
                next_step="Give the consumer an engine or connections without autocommit.",
            )

    def _mark_transaction(self) -> Steps[None]:
        self._mark = str(uuid.uuid4())
        yield from self._execute(_MARK, {"mark": self._mark}, "beginning the work")
        if hasattr(self._client, "note_transaction"):
            self._client.note_transaction()

    def has_ended_transaction(self) -> bool:
        """Whether the transaction that `begin` began has ended; asks the library, which does not see all: the mark does."""
        return bool(self._client.has_ended())

    def discard(self) -> Steps[None]:
        """Rolls back and ends the session itself: no pool hands out what a handler changed in it."""
        yield from self.rollback()
        self._asked, self._listener, self._may_listen = None, None, False
        yield self._client.discard

    def fetch(self, worker: str, max_count: int, lane: int | None) -> Steps[list[Message]]:
        """Leases the next messages, in a transaction of its own."""
        values = {"subscription": self.subscription, "max_count": max_count, "lane": lane, "worker": worker}
        rows = yield from self._execute(_FETCH, values, "fetching")
        return [read_message(row) for row in rows]

    def ack_and_fetch(self, message: Message, worker: str, max_count: int, lane: int | None) -> Steps[list[Message]]:
        """Acknowledges through a message and leases those that follow.

        Raises:
            TransactionEnded: this is not the transaction that `begin` began. It must not be committed.
        """
        values = {**self._acked(message), "max_count": max_count, "lane": lane, "worker": worker}
        rows = yield from self._execute_marked(message, _ACK_AND_FETCH, values, "acknowledging and fetching")
        return [read_message(row) for row in rows if row[0] is not None]

    def ack(self, message: Message) -> Steps[None]:
        """Acknowledges through a message.

        Raises:
            TransactionEnded: as ack_and_fetch().
        """
        yield from self._execute_marked(message, _ACK, self._acked(message), "acknowledging")

    def _acked(self, message: Message) -> dict[str, object]:
        return {"subscription": self.subscription, "stream_position": message.stream_position, "token": message.token}

    def _execute_marked(
        self, message: Message, statement: str, values: Mapping[str, object], doing: str
    ) -> Steps[list[Sequence[Any]]]:
        """Runs a statement in the handlers' transaction, and compares the mark that it returns in its first column."""
        rows: list[Sequence[Any]] = []
        is_gone = self.has_ended_transaction()
        if not is_gone:
            rows = yield from self._execute(statement, values, doing)
            is_gone = rows[0][0] != self._mark
        if is_gone:
            raise errors.TransactionEnded(
                f"store {self.store}: subscription {self.subscription}, stream position {message.stream_position}: "
                f"{TRANSACTION_GONE}.",
                next_step="Leave both to the consumer; take work back with a savepoint (connection.begin_nested()).",
            )
        return [row[1:] for row in rows]

    def nack(self, message: Message, reason: str) -> Steps[bool]:
        """Refuses a message; whether it is a dead letter now."""
        rows = yield from self._execute(_NACK, {**self._acked(message), "reason": reason}, "refusing a message")
        return bool(rows[0][0])

    def release(self, message: Message) -> Steps[None]:
        """Gives the lane of a fetched message back."""
        values = {"subscription": self.subscription, "token": message.token}
        yield from self._execute(_RELEASE, values, "releasing the lane")

    def find_unread(self, lane: int | None) -> Steps[tuple[UnreadLane, ...]]:
        """Returns the lanes that have stream positions to read."""
        values = {"subscription": self.subscription, "lane": lane}
        rows = yield from self._execute(_UNREAD, values, "looking for unread lanes")
        return tuple(UnreadLane(*row) for row in rows)

    def listen(self) -> Steps[bool]:
        """Has the session listen; whether it does so only now: what was delivered before is still to be fetched.

        A session of a pooler does not listen: the pooler would give its notifications to others, or to nobody.
        """
        if self._asked is not None and self._asked is self._client.driver_connection():
            return False
        self._listener, self._may_listen = None, False
        rows = yield from self._execute(_CAN_LISTEN, {}, "asking whether the session can listen")
        ((server_process, can_listen, idle_seconds),) = rows
        self._asked = self._client.driver_connection()
        if not can_listen or server_process_told(self._asked) != server_process:
            yield from self.commit()
            return False
        self._may_listen = True
        [(self._channel,)] = yield from self._execute(_LISTEN, {"subscription": self.subscription}, "listening")
        yield from self.commit()
        self._listener = yield from self._translated(functools.partial(self._client.open_listener, self._channel), "listening")
        self._longest_rest = idle_seconds / 2 if idle_seconds else math.inf
        return True

    def rest(self, stop: Any, lane: int | None, poll_seconds: float, wait: Callable[[float], object]) -> Steps[None]:
        """Waits until something may be there to fetch: for a notification, if the session listens, else for `poll_seconds`.

        A session that the server ends when it idles (idle_session_timeout) rests half as long at most. Where the subscription reads another
        stream now, the session is closed and nothing is waited for: the next one fetches, and listens to the channel of that stream.

        Args:
            stop: the StopEvent of the worker, which ends the rest.
            lane: the worker's only one; None: any.
            poll_seconds: how long it rests without listening.
            wait: waits for these seconds or until it is stopped.

        Raises:
            StoreUnreachable: the server ended the session.
        """
        if self._listener is None:
            yield functools.partial(wait, poll_seconds)
            return
        values = {"subscription": self.subscription, "lane": lane, "longest": max(poll_seconds, LISTENING_SECONDS)}
        [(channel, seconds)] = yield from self._execute(_REST, values, "asking how long to rest")
        yield from self.commit()
        if channel != self._channel:
            yield from self.close()
            return
        waiting = functools.partial(stop.wait_for_notification, self._listener, min(seconds, self._longest_rest))
        yield from self._translated(waiting, "waiting for messages")

    def _execute(self, statement: str, values: Mapping[str, object], doing: str) -> Steps[list[Any]]:
        rows: list[Any] = yield from self._translated(functools.partial(self._client.run, statement, values), doing)
        self._maybe_upgraded_while.discard(doing)
        return rows

    def commit(self) -> Steps[None]:
        """Commits the handler's work with what was said of its messages."""
        yield from self._translated(self._client.commit, "committing")

    def rollback(self) -> Steps[None]:
        """Takes back the handler's work; a session that broke has done so by itself, and the next statement opens another."""
        yield self._client.rollback

    def _translated(self, call: Any, doing: str) -> Steps[Any]:
        try:
            return (yield call)
        except errors.RelayboxError:
            raise
        except Exception as error:
            answer = read_answer(error)
            if answer is None:
                raise
            yield from self.close()
            raise self._read_error(answer, doing) from error

    def _read_error(self, answer: StoreAnswer, doing: str) -> errors.RelayboxError:
        if answer.sqlstate in _PREPARED_ELSEWHERE:
            return errors.ConfigurationError(
                f"store {self.store}: while {doing} for subscription {self.subscription}: {answer.said} ({answer.sqlstate}).",
                next_step=(
                    "A connection pooler stands between, and the library prepares statements. Switch that off: asyncpg.connect(..., "
                    "statement_cache_size=0); psycopg.connect(..., prepare_threshold=None); SQLAlchemy with asyncpg: "
                    "connect_args={'statement_cache_size': 0, 'prepared_statement_cache_size': 0}. Or let PgBouncer track prepared "
                    "statements (max_prepared_statements)."
                ),
            )
        translated = store_error(
            store=self.store,
            doing=f"{doing} for subscription {self.subscription}",
            sqlstate=answer.sqlstate,
            said=answer.said,
            hint=answer.hint,
            login=answer.login,
            is_broken=answer.is_broken,
        )
        if answer.sqlstate in UPGRADE_CODES and doing not in self._maybe_upgraded_while:
            self._maybe_upgraded_while.add(doing)  # the same call with a new session tells
            return errors.StoreBusy(f"{translated} The store may have been upgraded under this call.")
        return translated

    def close(self) -> Steps[None]:
        """Closes the session, if there is one; what was not committed is rolled back."""
        listens, self._asked, self._listener, self._may_listen = self._may_listen, None, None, False
        yield self._client.discard if listens else self._client.close  # no pool gives a session that listens to others
