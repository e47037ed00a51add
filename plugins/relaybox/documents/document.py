"""What all JSON answers have in common."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, PlainSerializer, WithJsonSchema

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


class Document(BaseModel):
    """A JSON object. It is made from the attributes of what it tells, or by its `of`; it has no other members than those listed."""

    model_config = ConfigDict(
        from_attributes=True, frozen=True, extra="forbid", use_attribute_docstrings=True, serialize_by_alias=True
    )


def write(document: Document) -> None:
    """Writes the answer of a command, the only one, to stdout."""
    print(json.dumps(document.model_dump(mode="json"), indent=2))
