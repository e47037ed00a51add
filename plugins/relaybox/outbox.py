"""For producers in Python: one call that inserts a message in the caller's own transaction, and the clocks of causal senders.

An application needs nothing of this: an insert into relaybox.outbox says the same. Nothing here commits or rolls back. In an event loop
relaybox.aio has the same names.
"""

from __future__ import annotations

import functools
import hashlib
import json
from base64 import b64encode
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, TypeVar
from uuid import UUID, uuid4, uuid5

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

_INDEX_END = 2**63

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
_INSERT_MANY = f"""
with messages as (
    insert into relaybox.outbox (message_id, topic, sender, epoch, index, key, headers, payload, payload_bytes)
    select
        m.message_id, m.topic, cast({{sender}} as text), coalesce(cast({{epoch}} as integer), 1),
        cast({{first_index}} as bigint) + m.number - 1,
        m.key,
        case when m.deliver_in is null and m.expire_in is null then cast(m.headers as jsonb)
            else coalesce(cast(m.headers as jsonb), jsonb_build_object()) || jsonb_strip_nulls(jsonb_build_object(
                '{DELIVER_AFTER_HEADER}', extract(epoch from clock_timestamp() + make_interval(secs => m.deliver_in)),
                '{EXPIRES_AT_HEADER}', extract(epoch from clock_timestamp() + make_interval(secs => m.expire_in))
            ))
        end,
        m.payload, decode(m.payload_base64, 'base64')
    from json_to_recordset(cast(cast({{messages}} as text) as json)) as m (
        number integer, message_id uuid, topic text, key text, headers text, payload text, payload_base64 text,
        deliver_in double precision, expire_in double precision
    )
    order by m.number
    returning 1
)
select count(*) from messages
"""  # noqa: S608  # the headers are constants
"""One JSON text and no COPY, which a store with bind_senders refuses, and no cursor of its own, which SQLAlchemy hides."""
_STATEMENT_MESSAGES = 10_000
_STATEMENT_CHARACTERS = 8 * 2**20

_MARK_PUT = "select set_config('relaybox.put_transaction', cast({mark} as text), true)"
_RECORD_PUT = """
select case when current_setting('relaybox.put_transaction', true) = cast({mark} as text)
    then relaybox.record_put({sender}, {put_key}, {content}, cast({message_count} as integer)) end
"""
"""Null, and nothing is recorded, if the statement before was in another transaction: the session commits each statement."""
_PUT_IDS = UUID("6b1f0d52-0c4c-5d0e-9a53-5f2d6c9f1b58")
_PUT_KEY_BYTES = 1000

# the counter first: it is locked from here on, and with it the epoch
_NUMBER = "select relaybox.next_index({sender}), relaybox.sender_epoch({sender})"
_NUMBER_MANY = "select relaybox.next_indexes({sender}, cast({message_count} as integer)), relaybox.sender_epoch({sender})"


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
    return _run(session, put_steps(topic, sender, payload, key=key, headers=headers, message_id=message_id, **numbers, **times))


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
    payload_text, payload_bytes = _payloads(payload)
    timed = add_times(headers, deliver_after=deliver_after, expires_at=expires_at)
    values = {
        "message_id": None if message_id is None else str(message_id),
        "topic": topic,
        "sender": sender,
        "epoch": epoch,
        "index": index,
        "key": key,
        "headers": _json(timed.headers),
        "payload": payload_text,
        "payload_bytes": payload_bytes,
        "clock": _json(clock),
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


@dataclass(frozen=True, slots=True)
class Draft:
    """A message to put: what `put` takes of it, but for its sender and its id."""

    topic: str
    payload: Payload
    key: str | None = None
    headers: Mapping[str, Any] | None = None
    deliver_after: MessageTime | None = None
    expires_at: MessageTime | None = None


def put_once(session: Producing, sender: str, put_key: str, drafts: Sequence[Draft], *, numbered: bool = False) -> bool:
    """Sends these messages in the caller's transaction, unless a transaction that committed has sent them under this key.

    The key decides, for as long as the store exists: retention of the outbox does not forget it. The ids of the messages follow from
    sender, key and place in the list. So a store that was restored to a time before the put sends the same ids again, and routes with a
    `message_id_window` deliver them once. Waits for another open transaction of the key. Statements hold up to 10,000 messages each.

    Args:
        session: as put().
        sender: who says it. Each sender has its own keys.
        put_key: names the put. Of one with more than 1,000 bytes the store keeps a digest.
        drafts: the messages, in the order in which they are sent; none is a put too.
        numbered: the sender is gapless: each message gets the next index of its counter.

    Returns:
        Whether they are sent by this transaction; False: they were sent before.

    Raises:
        ValueError: the session commits each statement (autocommit). Nothing is recorded.
        the driver's own error: RB024, other messages were sent under this key. Else as put(). The transaction is to be rolled back.
    """
    return _run(session, put_once_steps(sender, put_key, drafts, numbered=numbered))


def put_once_steps(sender: str, put_key: str, drafts: Sequence[Draft], *, numbered: bool = False) -> PutSteps[bool]:
    """The steps of put_once()."""
    values = {"sender": sender, "put_key": _kept_key(put_key), "content": _digest(drafts), "message_count": len(drafts)}
    is_first = yield from _record(values)
    if not is_first:
        return False
    first_index = epoch = None
    if numbered and drafts:
        first_index, epoch = yield _NUMBER_MANY, {"sender": sender, "message_count": len(drafts)}
    for messages in _statements(sender, put_key, drafts):
        values = {"sender": sender, "epoch": epoch, "first_index": first_index, "messages": f"[{','.join(messages)}]"}
        (inserted,) = yield _INSERT_MANY, values
        if inserted != len(messages):
            raise RuntimeError(
                f"sender {sender}, put {put_key}: {inserted} of {len(messages)} messages were inserted. A trigger or rule of others on "
                "relaybox.outbox drops the rest. Roll back; relaybox doctor names it."
            )
    return True


def _record(values: Mapping[str, Any]) -> PutSteps[bool]:
    """Returns whether the put is the first one under its key."""
    mark = str(uuid4())
    yield _MARK_PUT, {"mark": mark}
    (is_first,) = yield _RECORD_PUT, {**values, "mark": mark}
    if is_first is None:
        raise ValueError(
            f"sender {values['sender']}, put {values['put_key']}: the session commits each statement (autocommit), so an error could "
            "record the put and lose its messages. Nothing was sent. Turn autocommit off, or begin a transaction, and commit it."
        )
    return bool(is_first)


def _statements(sender: str, put_key: str, drafts: Sequence[Draft]) -> Iterator[list[str]]:
    """The messages of each insert, as JSON texts: a number of them, or fewer large ones; a message of any size alone."""
    messages: list[str] = []
    characters = 0
    for number, draft in enumerate(drafts, start=1):
        message = _message(number, put_message_id(sender, put_key, number), draft)
        if messages and (len(messages) == _STATEMENT_MESSAGES or characters + len(message) > _STATEMENT_CHARACTERS):
            yield messages
            messages, characters = [], 0
        messages.append(message)
        characters += len(message)
    if messages:
        yield messages


def _message(number: int, message_id: UUID, draft: Draft) -> str:
    payload, payload_bytes = _payloads(draft.payload)
    timed = add_times(draft.headers, deliver_after=draft.deliver_after, expires_at=draft.expires_at)
    return write_json(
        {
            "number": number,
            "message_id": str(message_id),
            "topic": draft.topic,
            "key": draft.key,
            "headers": _json(timed.headers),
            "payload": payload,
            "payload_base64": None if payload_bytes is None else b64encode(payload_bytes).decode(),
            "deliver_in": timed.deliver_in,
            "expire_in": timed.expire_in,
        }
    )


def _payloads(payload: Payload) -> tuple[str | None, bytes | None]:
    """The values of the columns payload and payload_bytes, one of which is None."""
    if isinstance(payload, bytes):
        return None, payload
    return payload if isinstance(payload, str) else _json(payload), None


def put_message_id(sender: str, put_key: str, number: int) -> UUID:
    """The id of the message at this place, from 1, in the list of a put_once()."""
    return uuid5(_PUT_IDS, f"{sender}\n{number}\n{put_key}")


def _kept_key(put_key: str) -> str:
    encoded = put_key.encode()
    return put_key if len(encoded) <= _PUT_KEY_BYTES else f"sha256:{hashlib.sha256(encoded).hexdigest()}"


def _digest(drafts: Sequence[Draft]) -> str:
    """The same for equal messages: the order of the members of an object says nothing. A span counts as the span, not as when it ends."""
    digest = hashlib.sha256()
    for draft in drafts:
        payload = draft.payload.hex() if isinstance(draft.payload, bytes) else _in_order(draft.payload)
        kind = type(draft.payload).__name__ if isinstance(draft.payload, str | bytes) else "json"
        said = [draft.topic, draft.key, _in_order(draft.headers), kind, payload]
        if draft.deliver_after is not None or draft.expires_at is not None:  # else as before there were times
            said += list(add_times({}, deliver_after=draft.deliver_after, expires_at=draft.expires_at))
        digest.update(write_json(said).encode("utf-8", "surrogatepass"))
        digest.update(b"\n")
    return digest.hexdigest()


def _in_order(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _in_order(value[name]) for name in sorted(value, key=_name)}
    return [_in_order(one) for one in value] if isinstance(value, list | tuple) else value


def _name(name: Any) -> str:
    """A member's name as JSON has it, which need not be text here: 1, True and None are names too."""
    return name if isinstance(name, str) else json.dumps(name)


class SenderClock:
    """What one sender of a causal route has received: the clock of its next message."""

    def __init__(self, sender: str, clock: Clock | None = None) -> None:
        """Continues with a saved clock; by default nothing was received yet."""
        self.sender = sender
        self._heard: dict[str, tuple[int, int]] = {}
        self._merge(clock or {})

    @property
    def clock(self) -> dict[str, list[int]]:
        """The newest [epoch, index] received, by sender; sends only, and never the sender itself."""
        return {sender: list(number) for sender, number in self._heard.items()}

    def delivered(self, message: Any) -> None:
        """Merges a message that was read from the stream: it, and what its sender had received.

        Args:
            message: a row of relaybox.read_stream: a mapping, or with attributes, with sender, epoch, index and clock.

        Raises:
            ValueError: its sender gave it no index (epoch 0): nothing can be made to wait for it. Or its clock has an entry that is no
                clock's: a causal stream sets such a message aside. Nothing of it is merged.
        """
        sender, epoch, index, clock = (_field(message, name) for name in ("sender", "epoch", "index", "clock"))
        if epoch < 1:
            raise ValueError(
                f"the message of sender {sender} at index {index} has no index of its own (epoch 0): no causal order"
            )
        try:
            self._merge({**(clock or {}), sender: [epoch, index]})
        except ValueError as error:
            raise ValueError(f"clock of sender {sender} at index {index}: {error}") from None

    def put_steps(self, topic: str, payload: Payload, **options: Any) -> PutSteps[UUID]:
        """The steps of CausalSender.put()."""
        index, epoch = yield _NUMBER, {"sender": self.sender}
        numbers = {"index": index, "epoch": epoch, "clock": self.clock}
        return (yield from put_steps(topic, self.sender, payload, **options, **numbers))

    def _merge(self, clock: Clock) -> None:
        numbers = {sender: _number(sender, entry) for sender, entry in clock.items()}
        for sender, number in numbers.items():
            if sender != self.sender:  # its own messages are in order by their index
                self._heard[sender] = max(number, self._heard.get(sender, number))


class CausalSender(SenderClock):
    """One sender of a causal route: its messages name what it had received, so that no consumer reads an answer before its question.

    The sender is declared gapless at its store. Each process that sends as it and receives for it keeps one of these, tells it
    every message that it reads from the stream, and saves `clock` with its cursor, or reads the stream again after a restart.
    Not for several threads at once.
    """

    def put(
        self,
        session: Producing,
        topic: str,
        payload: Payload,
        *,
        key: str | None = None,
        headers: Mapping[str, Any] | None = None,
        message_id: UUID | None = None,
        deliver_after: MessageTime | None = None,
        expires_at: MessageTime | None = None,
    ) -> UUID:
        """Sends a message that comes after everything delivered so far, numbered by relaybox.next_index().

        From here on other transactions of this sender wait until the caller's ends; if it is rolled back, the number is free again.
        """
        times: dict[str, Any] = {"deliver_after": deliver_after, "expires_at": expires_at}
        return _run(session, self.put_steps(topic, payload, key=key, headers=headers, message_id=message_id, **times))


def _number(sender: str, entry: Any) -> tuple[int, int]:
    """The epoch and index of an entry. The stream compares some of them as numbers: for it 5.0 is 5.

    Raises:
        ValueError: it is neither an index nor [epoch, index].
    """
    numbers = entry if isinstance(entry, list | tuple) else (1, entry)
    if len(numbers) != 2 or not all(_is_whole(number) for number in numbers):
        raise ValueError(f"the entry of sender {sender} is neither an index nor [epoch, index] of whole numbers from 1")
    return int(numbers[0]), int(numbers[1])


def _is_whole(number: Any) -> bool:
    if isinstance(number, bool) or not isinstance(number, int | float | Decimal):
        return False
    return 1 <= number < _INDEX_END and number == int(number)


def _run(session: Producing, steps: PutSteps[Result]) -> Result:
    """Runs the statements of the steps in the session, and returns the steps' result."""
    try:
        asked = next(steps)
        while True:
            asked = steps.send(one_row(session, *asked))
    except StopIteration as ended:
        result: Result = ended.value
        return result


def _field(message: Any, name: str) -> Any:
    """A column of a row; SQLAlchemy's rows have a method `index`, so theirs are read by their mapping."""
    message = getattr(message, "_mapping", message)
    return message[name] if isinstance(message, Mapping) else getattr(message, name)


def _json(value: object) -> str | None:
    return None if value is None else write_json(value)
