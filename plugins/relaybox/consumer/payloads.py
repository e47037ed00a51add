"""Payloads as types: what a consumer's `payload_type` makes of the bytes of a message."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Reader = Callable[[str | bytes], Any]


class PayloadMismatch(Exception):
    """The payload is not of the type; the message says where."""


def payload_reader(payload_type: Any) -> Reader:
    """Makes a function that reads JSON of a payload as this type: a model of pydantic, or what pydantic's TypeAdapter takes.

    The function raises PayloadMismatch if the payload is no JSON of the type. No part of the payload is in its message: a dead letter
    keeps that, and people who may not read messages read dead letters.
    """
    from pydantic import TypeAdapter, ValidationError

    adapter = TypeAdapter(payload_type)
    name = getattr(payload_type, "__qualname__", str(payload_type))

    def read(payload: str | bytes) -> Any:
        try:
            return adapter.validate_json(payload)
        except ValidationError as error:
            defects = [
                f"{'.'.join(map(str, defect['loc'])) or 'payload'}: {defect['msg']}"
                for defect in error.errors(include_url=False, include_context=False, include_input=False)
            ]
            raise PayloadMismatch(f"the payload is no {name}: {'; '.join(defects)}") from None

    return read
