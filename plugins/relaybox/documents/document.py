"""What all JSON answers have in common."""

from __future__ import annotations

import json
import re
import uuid
from datetime import datetime
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, PlainSerializer, SerializationInfo, WithJsonSchema

from relaybox.exact_json import write_json

Time = Annotated[
    datetime,
    PlainSerializer(datetime.isoformat, return_type=str, when_used="json"),
    WithJsonSchema({"type": "string", "format": "date-time"}),
]
"""ISO 8601, in UTC."""

Ratio = Annotated[float, BeforeValidator(float), WithJsonSchema({"type": "number"})]
"""A fraction, as the nearest number that JSON has."""

Text = Annotated[str, BeforeValidator(str), WithJsonSchema({"type": "string"})]
"""What a value says of itself: an error, or the name of a kind."""


class _SentObjects:
    """The JSON objects of messages in one answer: each is written apart, since pydantic changes numbers and has a limit of depth."""

    def __init__(self, *, ensure_ascii: bool) -> None:
        self._mark, self._ensure_ascii = uuid.uuid4().hex, ensure_ascii
        self._texts: list[str] = []

    def stand_in(self, value: dict[str, Any]) -> str:
        """Text for pydantic to write in the place of the object."""
        self._texts.append(write_json(value, ensure_ascii=self._ensure_ascii))
        return f"{self._mark}{len(self._texts) - 1}"

    def put_into(self, text: str) -> str:
        """The answer with the objects in their places."""
        return re.sub(rf'"{self._mark}(\d+)"', lambda found: self._texts[int(found[1])], text) if self._texts else text


def _stand_in(value: dict[str, Any] | None, info: SerializationInfo[_SentObjects]) -> str | None:
    return None if value is None else info.context.stand_in(value)


SentObject = Annotated[
    dict[str, Any] | None,
    PlainSerializer(_stand_in, return_type=str | None, when_used="json"),
    WithJsonSchema({"anyOf": [{"type": "object"}, {"type": "null"}]}),
]
"""A JSON object of a message, as it was sent: `json_text`, `json_line` and `write` write each number with its exact value."""


class Document(BaseModel):
    """A JSON object. It is made from the attributes of what it tells, or by its `of`; it has no other members than those listed."""

    model_config = ConfigDict(
        from_attributes=True, frozen=True, extra="forbid", use_attribute_docstrings=True, serialize_by_alias=True
    )


def json_text(document: Document) -> str:
    """The answer of a page, without spaces."""
    objects = _SentObjects(ensure_ascii=False)
    return objects.put_into(document.model_dump_json(context=objects))


def json_line(document: Document) -> str:
    """One line of a command that answers with lines."""
    return _dumps(document, ensure_ascii=False, indent=None)


def write(document: Document) -> None:
    """Writes the answer of a command, the only one, to stdout."""
    print(_dumps(document, ensure_ascii=True, indent=2))


def _dumps(document: Document, *, ensure_ascii: bool, indent: int | None) -> str:
    objects = _SentObjects(ensure_ascii=ensure_ascii)
    values = document.model_dump(mode="json", context=objects)
    return objects.put_into(json.dumps(values, ensure_ascii=ensure_ascii, indent=indent))
