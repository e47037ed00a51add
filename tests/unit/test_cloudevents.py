"""Events of CloudEvents as messages, and messages as events; judged by the package of CloudEvents itself."""

from __future__ import annotations

import json
from base64 import b64encode
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from cloudevents.core.bindings.http import HTTPMessage, from_http_event
from cloudevents.core.v1.event import CloudEvent
from hypothesis import given
from hypothesis import strategies as st

from relaybox.cloudevents import (
    binary_headers,
    event_attributes,
    event_fields,
    is_event,
    payload_bytes,
    to_event,
    write_structured,
)
from relaybox.consumer import Message
from relaybox.sinks.bodies import sink_attributes

SENT_AT = datetime(2026, 7, 1, 12, 0, 0, 123456, tzinfo=UTC)
EVENT = {
    "specversion": "1.0",
    "id": "A 231/7",
    "source": "https://airline.example.com/flights",
    "type": "com.example.flight.boarded",
    "subject": "UA 231",
    "time": "2026-07-01T11:59:59+00:00",
    "datacontenttype": "application/json",
    "gate": 17,
    "late": True,
    "data": {"seats": 120, "name": "Zürich"},
}


def message(**changes: Any) -> Message:
    values: dict[str, Any] = {
        "stream_position": 17,
        "lane": 0,
        "token": "t",
        "replayed": False,
        "attempt": 1,
        "hop": "flights/1",
        "log_position": 17,
        "message_id": UUID(int=7),
        "topic": "flights",
        "sender": "UA",
        "epoch": 0,
        "index": 17,
        "key": None,
        "payload": None,
        "payload_bytes": None,
        "headers": None,
        "clock": None,
        "sent_at": SENT_AT,
        **changes,
    }
    return Message(**values)


def put(event: Any) -> Message:
    """What a consumer gets of an event that was put: headers went through JSON."""
    fields = event_fields(event)
    payload, headers = fields["payload"], json.loads(json.dumps(fields["headers"]))
    return message(
        **{"payload_bytes" if isinstance(payload, bytes) else "payload": payload},
        headers=headers,
        key=fields["key"],
        message_id=fields["message_id"],
    )


def test_an_event_that_is_put_is_the_same_event_for_a_consumer() -> None:
    """With attributes of its own, in their types. Its id and source make the id of the message."""
    sent = put(EVENT)
    assert to_event(sent, "flights") == EVENT
    assert (sent.key, is_event(sent)) == ("UA 231", True)
    assert sent.message_id == put({**EVENT, "data": {}}).message_id
    assert len({put({**EVENT, name: "other"}).message_id for name in ("id", "source")} | {sent.message_id}) == 3


texts = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\x00"), min_size=1, max_size=20)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)


@given(
    data=values,
    extensions=st.dictionaries(
        st.from_regex(r"x[a-z0-9]{1,9}", fullmatch=True), texts | st.integers(0, 9) | st.booleans(), max_size=3
    ),
    media_type=st.sampled_from([None, "application/json", "application/vnd.flight+json", "text/plain"]),
)
def test_any_event_survives(data: Any, extensions: dict[str, Any], media_type: str | None) -> None:
    if media_type == "text/plain" and not isinstance(data, str):
        media_type = None
    event = {**{name: EVENT[name] for name in ("specversion", "id", "source", "type")}, **extensions, "data": data}
    if media_type is not None:
        event["datacontenttype"] = media_type
    found = to_event(put(event), "flights")
    assert found.pop("datacontenttype") == (media_type or found_type(data))
    assert found == {name: value for name, value in event.items() if name != "datacontenttype" and value is not None}


def found_type(data: Any) -> str:
    return "text/plain; charset=utf-8" if data is None else "application/json"


@pytest.mark.parametrize("data", [{"seats": 120}, "text", None, b"\x00\xff"])
def test_events_of_the_package_are_put(data: Any) -> None:
    event = CloudEvent({**{name: EVENT[name] for name in EVENT if name != "data"}, "time": SENT_AT}, data)
    if isinstance(data, bytes):
        event = CloudEvent({**event.get_attributes(), "datacontenttype": "application/octet-stream"}, data)
    found = to_event(put(event), "flights")
    assert found["time"] == SENT_AT.isoformat()
    given_data = {"data_base64": b64encode(data).decode()} if isinstance(data, bytes) else {} if data is None else {"data": data}
    assert {name: found[name] for name in ("data", "data_base64") if name in found} == given_data


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"id": None}, "attribute id: an event needs it, as a text that is not empty"),
        ({"source": ""}, "attribute source: an event needs it"),
        ({"type": 7}, "attribute type: an event needs it"),
        ({"specversion": "0.3"}, r"attribute specversion: got 0\.3; expected 1\.0"),
        ({"Gate": "17"}, "attribute 'Gate': a name has only a-z and 0-9"),
        ({"gate": [17]}, "attribute gate: got a list; expected a text"),
        ({"time": datetime(2026, 7, 1)}, "attribute time: the time .* has no time zone"),  # noqa: DTZ001
        ({"datacontenttype": "json\r\nx: y"}, "attribute datacontenttype: got 'json.*expected a media type"),
        ({"data_base64": "AA=="}, "the event has data and data_base64"),
        ({"data": None, "data_base64": "A"}, "data_base64: it is no base64"),
    ],
)
def test_what_is_no_event_is_refused(changes: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        event_fields({**EVENT, **changes})


def test_other_objects_and_headers_that_contradict_are_refused() -> None:
    with pytest.raises(TypeError, match="list: expected a mapping, or an event of the package cloudevents"):
        event_fields([EVENT])
    with pytest.raises(ValueError, match="header ce_id: it is an attribute of the event"):
        event_fields(EVENT, headers={"ce_id": "8"})
    assert event_fields(EVENT, headers={"trace": "7"})["headers"]["trace"] == "7"


def test_a_message_that_was_not_put_as_an_event_has_attributes_too() -> None:
    expected = {
        "specversion": "1.0",
        "id": str(UUID(int=7)),
        "source": "/relaybox/flights/UA",
        "type": "flights",
        "time": SENT_AT.isoformat(),
        "datacontenttype": "application/json",
    }
    assert event_attributes(message(payload='{"a": 1}'), "flights") == expected
    assert event_attributes(message(payload="{}", key="k"), "flights")["subject"] == "k"
    assert to_event(message(payload="no json"), "flights")["data"] == "no json"
    assert to_event(message(payload_bytes=b"\x00"), "flights")["data_base64"] == "AA=="


@pytest.mark.parametrize("lacks", ["specversion", "id", "source", "type"])
def test_headers_that_are_no_whole_event_are_none(lacks: str) -> None:
    """An application may have headers with such names: half of an event is none."""
    headers = {f"ce_{name}": value for name, value in EVENT.items() if name not in ("data", lacks)}
    assert not is_event(message(payload="{}", headers=headers))
    assert event_attributes(message(payload="{}", headers=headers), "flights")["type"] == "flights"


def test_json_that_is_none_is_not_sent_as_a_string_of_json() -> None:
    """Headers say JSON, and the payload is another one: an application wrote both itself."""
    sent = replace(put(EVENT), payload="{")
    assert to_event(sent, "flights")["data_base64"] == b64encode(b"{").decode()


@pytest.mark.parametrize("mode", ["binary", "structured"])
@pytest.mark.parametrize(
    "sent",
    [
        put(EVENT),
        put({**EVENT, "subject": 'a "b" 100 % \u20ac\n\U0001f600', "data": "text"}),
        message(payload='{"a": 1}', key="ü \r\nx: y"),
        message(payload="no json"),
        message(payload_bytes=b"\x00\xff"),
    ],
    ids=["event", "unusual", "json", "text", "bytes"],
)
def test_receivers_read_both_modes_with_the_package(mode: str, sent: Message) -> None:
    """Both modes say the same, and no value gets out of its header."""
    attributes = sink_attributes(sent, "flights")
    if mode == "binary":
        headers, body = binary_headers(attributes), payload_bytes(sent)
        assert all(value.isascii() and value.isprintable() for value in headers.values())
    else:
        headers, body = {"content-type": "application/cloudevents+json; charset=utf-8"}, write_structured(sent, attributes)
    event = from_http_event(HTTPMessage(headers, body))
    expected = {name: value for name, value in attributes.items() if name != "time"}
    found = event.get_attributes()
    assert found.pop("time") == datetime.fromisoformat(str(attributes["time"]))
    if mode == "binary":  # a header has no types
        expected = {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in expected.items()}
    assert found == expected
    data = event.get_data()
    if sent.payload is None:
        assert data == sent.payload_bytes
    elif attributes["datacontenttype"] == "application/json":
        assert data == json.loads(sent.payload)
    else:
        assert data in (sent.payload, sent.payload.encode())


def test_an_event_cannot_forge_what_the_store_knows() -> None:
    """Not even one that came from another webhook of Relaybox."""
    sent = put({**EVENT, "relayboxsender": "forged", "relayboxtenant": "forged"})
    attributes = sink_attributes(sent, "flights")
    assert attributes["relayboxsender"] == "UA"
    assert "relayboxtenant" not in attributes
    assert attributes["relayboxkey"] == "UA 231"
