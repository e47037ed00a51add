"""What a message says of its large payload, and how the files are named. No I/O."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from relaybox.errors import PayloadReferenceInvalid

HEADER = "relaybox-payload"
"""The header of a message whose payload is in a file."""

PARTIAL = ".partial"
"""How the name of a file ends that is being written, or was when its writer was killed."""

_REFERENCE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}/([0-9]{8}T[0-9]{6}Z)-[0-9a-f]{32}")
_TIME = "%Y%m%dT%H%M%SZ"
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_MEMBERS = {"place": str, "ref": str, "digest": str, "bytes": int, "column": str}


@dataclass(frozen=True)
class PayloadReference:
    """Where a payload is, and what it must be.

    Attributes:
        place: the id of the directory.
        ref: the file, below the directory: the day and the time of the write in UTC, and a random part. No two writes share a file.
        digest: `sha256:` and 64 hexadecimal digits.
        bytes: the length of the file.
        column: payload (text) or payload_bytes: where the payload would be without a file.
    """

    place: str
    ref: str
    digest: str
    bytes: int
    column: str


@dataclass(frozen=True)
class LargePayload:
    """A payload that is durable in its file: what `put` takes in its place.

    Attributes:
        reference: to the file.
        payload: of the message: the reference as JSON.
        headers: of the message, with the reference in `relaybox-payload`.
    """

    reference: PayloadReference
    payload: Mapping[str, Any]
    headers: Mapping[str, Any]


def reference_of(message: Any) -> PayloadReference | None:
    """The reference of a message, or None: it has its payload itself.

    Raises:
        PayloadReferenceInvalid: its header relaybox-payload is no reference. No path outside the directory is one.
    """
    header = (message.headers or {}).get(HEADER)
    if header is None:
        return None
    is_reference = (
        isinstance(header, Mapping)
        and all(type(header.get(name)) is kind for name, kind in _MEMBERS.items())
        and _REFERENCE.fullmatch(header["ref"])
        and _DIGEST.fullmatch(header["digest"])
        and header["bytes"] >= 0
        and header["column"] in {"payload", "payload_bytes"}
    )
    if not is_reference:
        raise PayloadReferenceInvalid(
            f"the header {HEADER} of a message is no reference; expected an object with {', '.join(_MEMBERS)}.",
            next_step="Let the producer send the headers that PayloadStore.write() returned: see docs/large-messages.md",
        )
    return PayloadReference(**{name: header[name] for name in _MEMBERS})


def written_at(ref: str) -> datetime | None:
    """When a file was written, by the clock of its writer, as its name says; None: it is no name that write() gives."""
    found = _REFERENCE.fullmatch(ref)
    return None if found is None else parse_time(found[1])


def show_time(at: datetime) -> str:
    """As names of files have it: 20261128T032700Z."""
    return f"{at.astimezone(UTC):{_TIME}}"


def parse_time(text: str) -> datetime | None:
    """The other way around; None: it is no time."""
    try:
        return datetime.strptime(text, _TIME).replace(tzinfo=UTC)
    except ValueError:  # such as a 13th month
        return None
