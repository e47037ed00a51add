"""One message: its insert in the caller's own transaction, as steps that a thread and an event loop run."""

from __future__ import annotations

import functools
from collections.abc import Generator, Mapping
from typing import Any, TypeVar
from uuid import UUID

from relaybox.clients.rows import one_row
from relaybox.exact_json import write_json
from relaybox.message_times import DELIVER_AFTER_HEADER, EXPIRES_AT_HEADER, MessageTime, add_times

Producing = Any
"""A session or connection of SQLAlchemy, a connection or cursor of psycopg 3, a cursor of psycopg2, a connection of Django."""

Payload = str | bytes | Mapping[str, Any] | list[Any]

Result = TypeVar("Result")
PutSteps = Generator[tuple[str, Mapping[str, object]], Any, Result]
"""Yields statements and their values, is sent the row of each, and does no I/O: relaybox.aio runs the same steps in an event loop."""

Clock = Mapping[str, int | list[int]]
"""What a message's sender had received when it sent: index by sender, or [epoch, index]; an index alone is of epoch 1."""

_CASTS = {
    "message_id": "cast(cast({message_id} as text) as uuid)",
    "epoch": "cast({epoch} as integer)",
    "index": "cast({index} as bigint)",
    "headers": "cast(cast({headers} as text) as jsonb)",
    "payload_bytes": "cast({payload_bytes} as bytea)",
    "clock": "cast(cast({clock} as text) as jsonb)",
}
"""The columns of a message that libraries may give as texts. As text first: asyncpg would write JSON by a codec of the application's."""
_SPANS = {"deliver_in": DELIVER_AFTER_HEADER, "expire_in": EXPIRES_AT_HEADER}
"""Values of an insert that are no columns: spans from the clock of the store on, in seconds, which end in a header."""


def put(
    session: Producing,
    topic: str,
    sender: str,
    payload: Payload,
    *,
    key: str | None = None,
    headers: Mapping[str, Any] | None = None,
    message_id: UUID | None = None,
    index: int | None = None,
    epoch: int | None = None,
    clock: Clock | None = None,
    deliver_after: MessageTime | None = None,
    expires_at: MessageTime | None = None,
) -> UUID:
    """Sends one message: one insert in the caller's transaction, which decides whether the message exists.

    After a commit whose answer got lost, repeat the transaction with the same `message_id`: routes with a `message_id_window`
    deliver it once, and so do routes of any kind if the sender is declared and the `index` is the same too.

    Args:
        session: a session or connection of SQLAlchemy, a connection or cursor of psycopg 3, a cursor of psycopg2, or a connection of
            Django. In an event loop: relaybox.aio.put.
        topic: what routes choose messages by, 1 to 48 of a-z 0-9 _ . -
        sender: who says it, 1 to 48 of A-Z a-z 0-9 _ . : -
        payload: text, bytes, or a mapping or list that is sent as JSON.
        key: at most 200 characters.
        headers: a JSON object, at most 64 KiB.
        message_id: an id of your own choice; by default a new one.
        index: only for declared senders: the message's own number, from 1.
        epoch: the sender's epoch that the index counts in, from 1; by default 1.
        clock: only in causal routes; CausalSender writes it.
        deliver_after: consumers get it then and no earlier: a time with its time zone, or a span from the clock of the store on. What
            becomes of the messages behind it, each subscription says (docs/consuming.md, "Messages that are delivered later").
        expires_at: when it is no longer wanted, in the same forms, and later than deliver_after.

    Returns:
        The message's id.

    Raises:
        ValueError: an epoch without an index; a time without a time zone, or also in the headers.
        TypeError: the session is of none of these kinds, or a time is neither a datetime nor a timedelta.
        the library's own error: what the outbox refuses. The constraint's name is the reason; the transaction is to be rolled back.
    """
    numbers: dict[str, Any] = {"index": index, "epoch": epoch, "clock": clock}
    times: dict[str, Any] = {"deliver_after": deliver_after, "expires_at": expires_at}
    return run_steps(
        session, put_steps(topic, sender, payload, key=key, headers=headers, message_id=message_id, **numbers, **times)
    )


def put_steps(
    topic: str,
    sender: str,
    payload: Payload,
    *,
    key: str | None = None,
    headers: Mapping[str, Any] | None = None,
    message_id: UUID | None = None,
    index: int | None = None,
    epoch: int | None = None,
    clock: Clock | None = None,
    deliver_after: MessageTime | None = None,
    expires_at: MessageTime | None = None,
) -> PutSteps[UUID]:
    """The steps of put()."""
    if epoch is not None and index is None:
        raise ValueError("epoch without index: a message that has no number of its own belongs to no epoch")
    payload_text, payload_bytes = payload_columns(payload)
    timed = add_times(headers, deliver_after=deliver_after, expires_at=expires_at)
    values = {
        "message_id": None if message_id is None else str(message_id),
        "topic": topic,
        "sender": sender,
        "epoch": epoch,
        "index": index,
        "key": key,
        "headers": json_text(timed.headers),
        "payload": payload_text,
        "payload_bytes": payload_bytes,
        "clock": json_text(clock),
        "deliver_in": timed.deliver_in,
        "expire_in": timed.expire_in,
    }
    values = {name: value for name, value in values.items() if value is not None or name in ("topic", "sender")}
    (given,) = yield _insert(tuple(values)), values
    return UUID(str(given))


@functools.cache
def _insert(columns: tuple[str, ...]) -> str:
    """The insert of a message that has these values: the server reads and computes nothing for those that it has not."""
    values = {name: _CASTS.get(name, f"{{{name}}}") for name in columns if name not in _SPANS}
    if spans := [name for name in columns if name in _SPANS]:
        headers = values.get("headers", "jsonb_build_object()")
        values["headers"] = " || ".join((headers, *map(_span_header, spans)))
    return f"insert into relaybox.outbox ({', '.join(values)}) values ({', '.join(values.values())}) returning message_id"  # noqa: S608  # the columns are above


def _span_header(span: str) -> str:
    """The header that a span ends in: an object of one member."""
    seconds = f"make_interval(secs => cast({{{span}}} as double precision))"
    return f"jsonb_build_object('{_SPANS[span]}', extract(epoch from clock_timestamp() + {seconds}))"


def payload_columns(payload: Payload) -> tuple[str | None, bytes | None]:
    """The values of the columns payload and payload_bytes, one of which is None."""
    if isinstance(payload, bytes):
        return None, payload
    return payload if isinstance(payload, str) else json_text(payload), None


def run_steps(session: Producing, steps: PutSteps[Result]) -> Result:
    """Runs the statements of the steps in the session, and returns the steps' result."""
    try:
        asked = next(steps)
        while True:
            asked = steps.send(one_row(session, *asked))
    except StopIteration as ended:
        result: Result = ended.value
        return result


def json_text(value: object) -> str | None:
    """A value as JSON; None: there is none."""
    return None if value is None else write_json(value)
