"""The body of a webhook: the payload of a message and what the store knows of it, as one JSON object. docs/outward.md lists the keys."""

from __future__ import annotations

import json
from base64 import b64encode
from typing import TYPE_CHECKING, NoReturn

from relaybox.exact_json import write_json

if TYPE_CHECKING:
    from relaybox.consumer import Message


def webhook_body(message: Message, *, store: str, stream: str) -> bytes:
    """Returns the body, in UTF-8. A payload that is JSON is in it as it was sent, character by character: no number loses a digit."""
    encoding, data = _data(message)
    known = {
        "message_id": str(message.message_id),
        "store": store,
        "stream": stream,
        "stream_position": message.stream_position,
        "sender": message.sender,
        "epoch": message.epoch,
        "index": message.index,
        "key": message.key,
        "headers": message.headers,
        "attempt": message.attempt,
        "replayed": message.replayed,
    }
    members = (
        f'"type": {write_json(message.topic)}',
        f'"timestamp": "{message.sent_at.isoformat()}"',
        f'"data_encoding": "{encoding}"',
        f'"data": {data}',
        f'"relaybox": {write_json(known)}',
    )
    return f"{{{', '.join(members)}}}".encode("utf-8", "surrogatepass")


def content_type(message: Message) -> str:
    """Returns the media type of a payload that is sent as it is."""
    if message.payload is None:
        return "application/octet-stream"
    return "application/json" if _is_json(message.payload) else "text/plain; charset=utf-8"


def _data(message: Message) -> tuple[str, str]:
    """How the payload is written, and the JSON text of it."""
    if message.payload is None:
        return "base64", f'"{b64encode(message.payload_bytes or b"").decode()}"'
    if _is_json(message.payload):
        return "json", message.payload
    return "text", write_json(message.payload)


def _is_json(payload: str) -> bool:
    try:
        json.loads(payload, parse_constant=_refuse, parse_int=len, parse_float=len)  # no digit is read: there may be millions
    except (ValueError, RecursionError):  # too deep for most receivers, too: they get a text
        return False
    return True


def _refuse(word: str) -> NoReturn:
    """NaN and Infinity, which Python reads and JSON has not."""
    raise ValueError(word)
