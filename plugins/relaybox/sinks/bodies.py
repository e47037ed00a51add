"""The body of a webhook: the payload of a message and what the store knows of it, as one JSON object. docs/outward.md lists the keys."""

from __future__ import annotations

from base64 import b64encode
from typing import TYPE_CHECKING

from relaybox.cloudevents import Attributes, event_attributes, is_json
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


def sink_attributes(message: Message, stream: str) -> Attributes:
    """Returns a message as attributes of CloudEvents, with an extension `relaybox...` for what the store knows of it.

    Numbers are texts in them, since a whole number of CloudEvents has 32 bits.
    """
    known: Attributes = {
        "relayboxid": str(message.message_id),
        "relayboxstream": stream,
        "relayboxposition": str(message.stream_position),
        "relayboxtopic": message.topic,
        "relayboxsender": message.sender,
        "relayboxepoch": str(message.epoch),
        "relayboxindex": str(message.index),
        "relayboxsentat": message.sent_at.isoformat(),
        "relayboxattempt": str(message.attempt),
        "relayboxreplayed": message.replayed,
    }
    if message.key is not None:
        known["relayboxkey"] = message.key
    kept = {name: value for name, value in event_attributes(message, stream).items() if not name.startswith("relaybox")}
    return {**kept, **known}


def _data(message: Message) -> tuple[str, str]:
    """How the payload is written, and the JSON text of it."""
    if message.payload is None:
        return "base64", f'"{b64encode(message.payload_bytes or b"").decode()}"'
    if is_json(message.payload):
        return "json", message.payload
    return "text", write_json(message.payload)
