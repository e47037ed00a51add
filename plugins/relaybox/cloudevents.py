"""Messages as CloudEvents 1.0, and CloudEvents as messages. Needs no package.

An event is a mapping in the JSON format of the specification: its attributes, and `data` or `data_base64`. A message keeps the attributes
of the event that it was put as, each in a header `ce_NAME`. A message that was put as something else has attributes too: they follow from
its columns. docs/contracts.md has both tables.
"""

from __future__ import annotations

import json
import re
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, NoReturn, TypedDict
from uuid import UUID, uuid5

from relaybox.exact_json import read_json, write_json

if TYPE_CHECKING:
    from relaybox.consumer import Message

SPECVERSION = "1.0"
HEADER_PREFIX = "ce_"
"""Of the headers that keep the attributes of an event, as in the binding of CloudEvents for Kafka."""

_REQUIRED = ("specversion", "id", "source", "type")
_DATA = ("data", "data_base64")
_NAME = re.compile(r"[a-z0-9]+")
_MEDIA_TYPE = re.compile(r"[A-Za-z0-9!#$&^_.+-]+/[A-Za-z0-9!#$&^_.+-]+( *;[ -~]*)?")
_JSON_TYPE = re.compile(r"(.*/|.*\+)json *(;.*)?", re.IGNORECASE)
_EVENT_IDS = UUID("5d0a3c0e-7a3e-5c55-9a8e-0d6f3c2b7a41")

Attribute = str | int | bool
Attributes = dict[str, Attribute]


class EventFields(TypedDict):
    """The arguments of `put` that an event gives: `put(session, topic, sender, **event_fields(event))`."""

    payload: str | bytes
    key: str | None
    headers: dict[str, Any]
    message_id: UUID


def event_fields(event: Any, *, headers: Mapping[str, Any] | None = None) -> EventFields:
    """Returns what `put` sends of an event: payload, key, headers and message id.

    The id follows from `source` and `id` of the event, which are unique together: an event that is put twice has one message id, and a
    route with a `message_id_window` delivers it once. The key is the attribute `partitionkey`, or else `subject`.

    Args:
        event: a mapping in the JSON format of CloudEvents, or an object with get_attributes() and get_data(), as the package cloudevents
            has them.
        headers: of the message, beside those of the event.

    Raises:
        ValueError: it is no event of CloudEvents 1.0; the message names the attribute and what is wrong with it.
        TypeError: it is neither of both.
    """
    attributes, data = _take_apart(event)
    media_type = attributes.get("datacontenttype")
    kept = {f"{HEADER_PREFIX}{name}": value for name, value in attributes.items()}
    if both := sorted(kept.keys() & (headers or {}).keys()):
        raise ValueError(f"header {both[0]}: it is an attribute of the event; change the event")
    key = attributes.get("partitionkey", attributes.get("subject"))
    return EventFields(
        payload=_payload(data, None if media_type is None else str(media_type)),
        key=None if key is None else str(key),
        headers={**(headers or {}), **kept},
        message_id=uuid5(_EVENT_IDS, f"{attributes['source']}\n{attributes['id']}"),
    )


def to_event(message: Message, stream: str) -> dict[str, Any]:
    """Returns a message as an event in the JSON format of CloudEvents: attributes, and `data` or `data_base64` unless it is empty.

    Args:
        message: as a consumer gets it.
        stream: where it was read: the `source` of messages that were not put as events.
    """
    event: dict[str, Any] = dict(event_attributes(message, stream))
    name, text = _data_member(message, str(event["datacontenttype"]))
    if name is not None:
        event[name] = read_json(text)
    return event


def event_attributes(message: Message, stream: str) -> Attributes:
    """Returns the attributes of a message: those of the event that it was put as, or else what follows from its columns."""
    kept = _kept_attributes(message)
    if kept is None:
        kept = {
            "specversion": SPECVERSION,
            "id": str(message.message_id),
            "source": f"/relaybox/{stream}/{message.sender}",
            "type": message.topic,
            "time": message.sent_at.isoformat(),
        }
        if message.key is not None:
            kept["subject"] = message.key
    media_type = kept.get("datacontenttype")
    if media_type is None or not _MEDIA_TYPE.fullmatch(str(media_type)):
        kept["datacontenttype"] = content_type(message)
    return kept


def is_event(message: Message) -> bool:
    """Whether a message was put as an event: its headers have each attribute that an event must have."""
    return _kept_attributes(message) is not None


def write_structured(message: Message, attributes: Mapping[str, Attribute]) -> bytes:
    """Returns an event as one JSON object in UTF-8. A payload that is JSON is in it as it was sent, character by character."""
    members = [f"{write_json(name)}: {write_json(value)}" for name, value in attributes.items()]
    name, text = _data_member(message, str(attributes["datacontenttype"]))
    if name is not None:
        members.append(f'"{name}": {text}')
    return f"{{{', '.join(members)}}}".encode("utf-8", "surrogatepass")


def binary_headers(attributes: Mapping[str, Attribute]) -> dict[str, str]:
    """Returns the headers of HTTP in binary mode: `ce-NAME` for each attribute, and `content-type`. Values are percent-encoded."""
    headers = {f"ce-{name}": _encode(value) for name, value in attributes.items() if name != "datacontenttype"}
    return {**headers, "content-type": str(attributes["datacontenttype"])}


def payload_bytes(message: Message) -> bytes:
    """Returns the payload as it is sent where it stands alone."""
    return message.payload_bytes or b"" if message.payload is None else message.payload.encode("utf-8", "surrogatepass")


def content_type(message: Message) -> str:
    """Returns the media type of a payload that is sent as it is."""
    if message.payload is None:
        return "application/octet-stream"
    return "application/json" if is_json(message.payload) else "text/plain; charset=utf-8"


def is_json(payload: str) -> bool:
    """Whether a text is JSON that receivers can read."""
    try:
        json.loads(payload, parse_constant=_refuse, parse_int=len, parse_float=len)  # no digit is read: there may be millions
    except (ValueError, RecursionError):  # too deep for most receivers, too: they get a text
        return False
    return True


def _refuse(word: str) -> NoReturn:
    """NaN and Infinity, which Python reads and JSON has not."""
    raise ValueError(word)


def _take_apart(event: Any) -> tuple[Attributes, Any]:
    """The attributes of an event, checked, and its data; None: it has none."""
    if isinstance(event, Mapping):
        members = {name: value for name, value in event.items() if name not in _DATA}
        data = _data_of_members(event)
    elif hasattr(event, "get_attributes") and hasattr(event, "get_data"):
        members, data = event.get_attributes(), event.get_data()
    else:
        raise TypeError(f"{type(event).__name__}: expected a mapping, or an event of the package cloudevents")
    attributes = dict(_checked(members))
    for name in _REQUIRED:
        if not isinstance(attributes.get(name), str) or not attributes[name]:
            raise ValueError(f"attribute {name}: an event needs it, as a text that is not empty")
    if attributes["specversion"] != SPECVERSION:
        raise ValueError(f"attribute specversion: got {attributes['specversion']}; expected {SPECVERSION}")
    media_type = attributes.get("datacontenttype")
    if media_type is not None and not _MEDIA_TYPE.fullmatch(str(media_type)):
        raise ValueError(f"attribute datacontenttype: got {media_type!r}; expected a media type such as application/json")
    return attributes, data


def _data_of_members(event: Mapping[str, Any]) -> Any:
    if event.get("data_base64") is None:
        return event.get("data")
    if event.get("data") is not None:
        raise ValueError("the event has data and data_base64; expected one of them")
    try:
        return b64decode(event["data_base64"], validate=True)
    except (TypeError, ValueError) as error:
        raise ValueError(f"data_base64: it is no base64: {error}") from None


def _checked(members: Mapping[Any, Any]) -> Iterator[tuple[str, Attribute]]:
    for name, value in members.items():
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise ValueError(f"attribute {name!r}: a name has only a-z and 0-9")
        if value is None:
            continue
        if isinstance(value, datetime):
            if value.tzinfo is None:
                raise ValueError(f"attribute {name}: the time {value} has no time zone")
            yield name, value.isoformat()
        elif isinstance(value, bytes):
            yield name, b64encode(value).decode()
        elif isinstance(value, str | int):  # a bool is an int
            yield name, value
        else:
            told = f"attribute {name}: got a {type(value).__name__}; expected a text, a whole number, a bool or a time"
            raise ValueError(told)  # noqa: TRY004 - as each other attribute that is wrong


def _payload(data: Any, media_type: str | None) -> str | bytes:
    """An event without data is a message with an empty payload."""
    if data is None:
        return ""
    if isinstance(data, bytes | bytearray | memoryview):
        return bytes(data)
    if isinstance(data, str) and media_type is not None and not _JSON_TYPE.fullmatch(media_type):
        return data
    return write_json(data)


def _kept_attributes(message: Message) -> Attributes | None:
    """What the headers keep of an event. None: the message was not put as one."""
    headers = message.headers
    if not headers or headers.get(f"{HEADER_PREFIX}specversion") != SPECVERSION:
        return None
    kept: Attributes = {
        name: value
        for header, value in headers.items()
        if header.startswith(HEADER_PREFIX)
        and _NAME.fullmatch(name := header.removeprefix(HEADER_PREFIX))
        and name not in _DATA
        and isinstance(value, str | int)
    }
    return kept if all(isinstance(kept.get(name), str) and kept[name] for name in _REQUIRED) else None


def _data_member(message: Message, media_type: str) -> tuple[str | None, str]:
    """The member that has the payload, and the JSON text of its value; no name: the payload is empty."""
    if message.payload is None:
        return "data_base64", f'"{b64encode(message.payload_bytes or b"").decode()}"'
    if not message.payload:
        return None, ""
    if not _JSON_TYPE.fullmatch(media_type):
        return "data", write_json(message.payload)
    if is_json(message.payload):
        return "data", message.payload
    # its headers say JSON, and it is none: as data it would be a string of JSON
    return "data_base64", f'"{b64encode(message.payload.encode("utf-8", "surrogatepass")).decode()}"'


def _encode(value: Attribute) -> str:
    """As the binding for HTTP says: all but printable ASCII, and blanks, quotes and percent signs, as %XX of their UTF-8."""
    text = str(value).lower() if isinstance(value, bool) else str(value)
    octets = text.encode("utf-8", "surrogatepass")
    return "".join(chr(octet) if 0x21 <= octet <= 0x7E and octet not in (0x22, 0x25) else f"%{octet:02X}" for octet in octets)
