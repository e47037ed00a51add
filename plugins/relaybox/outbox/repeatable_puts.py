"""A put that may be repeated: its messages are sent by one transaction of a key, and no later one."""

from __future__ import annotations

import hashlib
import json
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid4, uuid5

from relaybox.exact_json import write_json
from relaybox.message_times import DELIVER_AFTER_HEADER, EXPIRES_AT_HEADER, MessageTime, add_times
from relaybox.outbox.puts import Payload, Producing, PutSteps, json_text, payload_columns, run_steps

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
_NUMBER_MANY = "select relaybox.next_indexes({sender}, cast({message_count} as integer)), relaybox.sender_epoch({sender})"


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
    return run_steps(session, put_once_steps(sender, put_key, drafts, numbered=numbered))


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
    payload, payload_bytes = payload_columns(draft.payload)
    timed = add_times(draft.headers, deliver_after=draft.deliver_after, expires_at=draft.expires_at)
    return write_json(
        {
            "number": number,
            "message_id": str(message_id),
            "topic": draft.topic,
            "key": draft.key,
            "headers": json_text(timed.headers),
            "payload": payload,
            "payload_base64": None if payload_bytes is None else b64encode(payload_bytes).decode(),
            "deliver_in": timed.deliver_in,
            "expire_in": timed.expire_in,
        }
    )


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
