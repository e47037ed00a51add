"""What a fetch gives: messages with their stream positions; and the lanes that it leaves unread."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any

from relaybox.exact_json import read_json


@dataclass(frozen=True, slots=True)
class Message:
    """One message as it was sent, with its stream position in the stream.

    Attributes:
        stream_position: in the stream of this store; rises.
        token: proves in an acknowledgement which fetch gave the message; the same for all messages of a fetch.
        replayed: it was acknowledged before, and is read again because of a replay.
        attempt: 1 the first time; more if it was fetched or refused before.
        message_id: stable in every store and every replay: what a foreign system deduplicates by.
        headers, clock: a number in them is an int, or a float if that has the value as it was sent, or else a Decimal.
        body: the payload as the consumer's `payload_type`; None without one.
    """

    stream_position: int
    lane: int
    token: str
    replayed: bool
    attempt: int
    hop: str
    log_position: int
    message_id: uuid.UUID
    topic: str
    sender: str
    epoch: int
    index: int
    key: str | None
    payload: str | None
    payload_bytes: bytes | None
    headers: dict[str, Any] | None
    clock: dict[str, Any] | None
    sent_at: datetime
    body: Any = None


@dataclass(frozen=True, slots=True)
class UnreadLane:
    """A lane that has stream positions to read although a fetch gave nothing of it.

    Attributes:
        stream positions: from where the lane is done to the end of the stream, of all lanes and topics.
        worker: the worker that has leased it, until `leased_until`. None: no worker; then a refused message waits for its next attempt, a
            replay for its rate, an open transaction holds the lane, or messages were delivered just now.
    """

    lane: int
    stream_positions: int
    worker: str | None
    leased_until: datetime | None


_COLUMNS = [field.name for field in fields(Message)][:-1]
_MESSAGE_ID, _PAYLOAD_BYTES, *_OBJECTS = map(_COLUMNS.index, ("message_id", "payload_bytes", "headers", "clock"))
"""Where a row of `fetch` has them: its columns are the fields of a message, in their order."""


def read_message(row: Sequence[Any]) -> Message:
    """Makes the message of a row that `fetch` gave; headers and clock are the text of their JSON.

    The driver does not read them: what it can't read in one message would end the fetch of all.
    """
    values = list(row)
    values[_MESSAGE_ID] = _read_id(values[_MESSAGE_ID])
    if values[_PAYLOAD_BYTES] is not None:
        values[_PAYLOAD_BYTES] = bytes(values[_PAYLOAD_BYTES])
    for place in _OBJECTS:
        if values[place] is not None:
            values[place] = read_json(values[place])
    return Message(*values)


def _read_id(given: Any) -> uuid.UUID:
    """Libraries give text, the standard library's UUID, or one of their own (asyncpg)."""
    if type(given) is uuid.UUID:
        return given
    return uuid.UUID(int=given.int) if isinstance(given, uuid.UUID) else uuid.UUID(given)
