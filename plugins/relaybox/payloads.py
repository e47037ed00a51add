"""Large payloads beside the message: a file that is durable before the message commits, and a header that refers to it.

```python
payloads = PayloadStore("/srv/payloads")
large = payloads.write(picture)
put(session, "pictures", "camera-7", large.payload, headers=large.headers)
```

A consumer calls `payloads.read(message)`: it returns the payload, and only if its length and its SHA-256 are those of the reference.
Needs no package. Each call reads or writes a file, so an event loop makes it with asyncio.to_thread.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from relaybox.errors import PayloadDiffers, PayloadMissing, PayloadReferenceInvalid, PayloadsUnavailable
from relaybox.exact_json import write_json

HEADER = "relaybox-payload"
"""The header of a message whose payload is in a file."""

MARK = ".relaybox-payloads.json"
"""The file that makes a directory a place of payloads: without it a disk that is not mounted would look empty."""

_PARTIAL = ".partial"
_REFERENCE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}/[0-9]{8}T[0-9]{6}Z-[0-9a-f]{32}")
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


class PayloadStore:
    """A directory that all senders and consumers of large payloads reach under some path."""

    def __init__(self, directory: str | Path) -> None:
        self.directory = Path(directory)

    def prepare(self) -> str:
        """Makes the directory a place of payloads, and returns its id. Again, or twice at once: no change, the same id.

        Raises:
            PayloadsUnavailable: it can't be written.
        """
        with self._reaching("preparing it"):
            self.directory.mkdir(parents=True, exist_ok=True)
            partial = self.directory / f"{MARK}.{uuid.uuid4().hex}{_PARTIAL}"
            _write_flushed(partial, json.dumps({"place": str(uuid.uuid4())}).encode())
            try:
                (self.directory / MARK).hardlink_to(partial)
            except FileExistsError:
                pass  # who was first has chosen the id
            finally:
                partial.unlink()
            _flush_directory(self.directory)
            _flush_directory(self.directory.parent)
        return self._place("preparing it")

    def write(
        self, payload: str | bytes | Mapping[str, Any] | list[Any], *, headers: Mapping[str, Any] | None = None
    ) -> LargePayload:
        """Writes a payload into a new file, and returns when file and name are flushed. The message is sent after that.

        Of a transaction that rolls back the file stays, and no message refers to it.

        Args:
            payload: text, bytes, or a mapping or list that is written as JSON.
            headers: other headers of the message.

        Raises:
            PayloadsUnavailable: the directory can't be reached or written, or its disk is full. Nothing refers to what was written.
            ValueError: `headers` has a relaybox-payload already.
        """
        if headers is not None and HEADER in headers:
            raise ValueError(f"headers has {HEADER} already: write() makes this header")
        content = (
            payload if isinstance(payload, bytes) else (payload if isinstance(payload, str) else write_json(payload)).encode()
        )
        place, now = self._place("writing a payload"), datetime.now(UTC)
        ref = f"{now:%Y-%m-%d}/{now:%Y%m%dT%H%M%SZ}-{uuid.uuid4().hex}"
        path = self.directory / ref
        with self._reaching(f"writing {ref}"):
            if not path.parent.exists():
                path.parent.mkdir(exist_ok=True)
                _flush_directory(self.directory)
            partial = path.with_name(path.name + _PARTIAL)
            _write_flushed(partial, content)
            partial.rename(path)
            _flush_directory(path.parent)
        column = "payload_bytes" if isinstance(payload, bytes) else "payload"
        reference = PayloadReference(place, ref, _digest(content), len(content), column)
        header = {HEADER: vars(reference)}
        return LargePayload(reference, header, {**(headers or {}), **header})

    def read(self, message: Any) -> str | bytes:
        """Returns the payload of a message: from its file if it refers to one, else as it is in the message.

        Args:
            message: of a consumer, or anything with the attributes headers, payload and payload_bytes.

        Raises:
            PayloadMissing: the file is not in the directory, though the directory is there.
            PayloadDiffers: the file has another length or another content than the message says.
            PayloadReferenceInvalid: the header is no reference, or refers to another directory than this one.
            PayloadsUnavailable: the directory can't be reached; a retry may help.
        """
        reference = reference_of(message)
        if reference is None:
            kept: str | bytes = message.payload if message.payload is not None else message.payload_bytes
            return kept
        doing = f"reading {reference.ref}"
        place = self._place(doing)
        if place != reference.place:
            raise PayloadReferenceInvalid(
                f"payloads in {self.directory}: the message refers to {reference.ref} of place {reference.place}, this is place {place}.",
                next_step=f"Read it with the PayloadStore of the directory whose {MARK} has {reference.place}.",
            )
        with self._reaching(doing):
            try:
                content = (self.directory / reference.ref).read_bytes()
            except FileNotFoundError:
                raise PayloadMissing(
                    f"payloads in {self.directory}: {reference.ref} is missing; expected {reference.bytes} bytes.",
                    next_step="Restore the file from a backup of the directory, then redrive the dead letter.",
                ) from None
        if len(content) != reference.bytes or _digest(content) != reference.digest:
            raise PayloadDiffers(
                f"payloads in {self.directory}: {reference.ref} has {len(content)} bytes with {_digest(content)}; "
                f"expected {reference.bytes} bytes with {reference.digest}.",
                next_step="Restore the file from a backup of the directory, then redrive the dead letter.",
            )
        return content if reference.column == "payload_bytes" else content.decode()

    def _place(self, doing: str) -> str:
        """The id of the directory."""
        with self._reaching(doing):
            try:
                return str(json.loads((self.directory / MARK).read_text(encoding="utf-8"))["place"])
            except (FileNotFoundError, NotADirectoryError):
                raise PayloadsUnavailable(
                    f"payloads in {self.directory}: while {doing}: there is no {MARK}. The disk is not mounted, or the place is new.",
                    next_step=f'Mount it. Only for a new place: python -c "from relaybox.payloads import PayloadStore; '
                    f"PayloadStore('{self.directory}').prepare()\"",
                ) from None
            except (ValueError, KeyError, TypeError) as error:
                raise PayloadsUnavailable(
                    f"payloads in {self.directory}: while {doing}: {MARK} is damaged: {error}.",
                    next_step="Restore this file from a backup of the directory.",
                ) from error

    @contextmanager
    def _reaching(self, doing: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            step = (
                "Free space, or make the disk larger."
                if error.errno in (errno.ENOSPC, errno.EDQUOT)
                else "Mend it, and try again."
            )
            raise PayloadsUnavailable(f"payloads in {self.directory}: while {doing}: {error}.", next_step=step) from error


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


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def _write_flushed(path: Path, content: bytes) -> None:
    with path.open("xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _flush_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
