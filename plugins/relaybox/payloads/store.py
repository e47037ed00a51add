"""Writes and reads the payloads of a place: a directory, or a bucket of an object store."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from relaybox.errors import ConfigurationError, PayloadDiffers, PayloadMissing, PayloadReferenceInvalid, PayloadsUnavailable
from relaybox.exact_json import write_json
from relaybox.payloads.files import DirectoryFiles, PlaceFiles
from relaybox.payloads.references import HEADER, LargePayload, PayloadReference, reference_of

MARK = ".relaybox-payloads.json"
"""The file that makes a directory a place of payloads: without it a disk that is not mounted would look empty."""

TRASH = ".trash"
"""The folder of what a collection has removed, until it removes it for good: TRASH/time of the collection/name."""


class PayloadStore:
    """A place that all senders and consumers of large payloads reach: a directory under some path, or an object store.

    Args:
        location: the directory, or `s3://bucket/prefix`, whose login is in the environment.
    """

    def __init__(self, location: str | Path) -> None:
        self.files = open_files(location)

    @property
    def directory(self) -> Path:
        """The directory of a place that is one."""
        return Path(self.files.where)

    def prepare(self) -> str:
        """Makes a place of payloads, and returns its id. Again, or twice at once: no change, the same id.

        Raises:
            PayloadsUnavailable: it can't be written.
        """
        self.files.prepare()
        self.files.create(MARK, json.dumps({"place": str(uuid.uuid4())}).encode(), "preparing it")
        return self.read_place("preparing it")  # who was first has chosen the id

    def write(
        self, payload: str | bytes | Mapping[str, Any] | list[Any], *, headers: Mapping[str, Any] | None = None
    ) -> LargePayload:
        """Writes a payload into a new file, and returns when file and name are durable. The message is sent after that.

        Of a transaction that rolls back the file stays, and no message refers to it: `relaybox payloads collect` removes it.

        Args:
            payload: text, bytes, or a mapping or list that is written as JSON.
            headers: other headers of the message.

        Raises:
            PayloadsUnavailable: the place can't be reached or written, or its disk is full. Nothing refers to what was written.
            ValueError: `headers` has a relaybox-payload already.
        """
        if headers is not None and HEADER in headers:
            raise ValueError(f"headers has {HEADER} already: write() makes this header")
        content = (
            payload if isinstance(payload, bytes) else (payload if isinstance(payload, str) else write_json(payload)).encode()
        )
        place, now = self.read_place("writing a payload"), datetime.now(UTC)
        ref = f"{now:%Y-%m-%d}/{now:%Y%m%dT%H%M%SZ}-{uuid.uuid4().hex}"
        self.files.write_new(ref, content, f"writing {ref}")
        column = "payload_bytes" if isinstance(payload, bytes) else "payload"
        reference = PayloadReference(place, ref, digest_of(content), len(content), column)
        header = {HEADER: vars(reference)}
        return LargePayload(reference, header, {**(headers or {}), **header})

    def read(self, message: Any) -> str | bytes:
        """Returns the payload of a message: from its file if it refers to one, else as it is in the message.

        Args:
            message: of a consumer, or anything with the attributes headers, payload and payload_bytes.

        Raises:
            PayloadMissing: the file is not in the place, though the place is there.
            PayloadDiffers: the file has another length or another content than the message says.
            PayloadReferenceInvalid: the header is no reference, refers to another place than this one, or calls bytes a text.
            PayloadsUnavailable: the place can't be reached; a retry may help.
        """
        reference = reference_of(message)
        if reference is None:
            kept: str | bytes = message.payload if message.payload is not None else message.payload_bytes
            return kept
        doing = f"reading {reference.ref}"
        place = self.read_place(doing)
        if place != reference.place:
            raise PayloadReferenceInvalid(
                f"payloads in {self.files.where}: the message refers to {reference.ref} of place {reference.place}, this is place {place}.",
                next_step=f"Read it with the PayloadStore of the place whose {MARK} has {reference.place}.",
            )
        try:
            content = self.files.read(reference.ref, doing, at_most=reference.bytes + 1)
        except FileNotFoundError:
            raise PayloadMissing(
                f"payloads in {self.files.where}: {reference.ref} is missing; expected {reference.bytes} bytes.",
                next_step=RESTORE_STEP,
            ) from None
        found = f"{len(content)} bytes with {digest_of(content)}"
        if len(content) > reference.bytes:
            found = f"more than {reference.bytes} bytes"
        if len(content) != reference.bytes or digest_of(content) != reference.digest:
            raise PayloadDiffers(
                f"payloads in {self.files.where}: {reference.ref} has {found}; "
                f"expected {reference.bytes} bytes with {reference.digest}.",
                next_step=RESTORE_STEP,
            )
        try:
            return content if reference.column == "payload_bytes" else content.decode()
        except UnicodeDecodeError as error:
            raise PayloadReferenceInvalid(
                f"payloads in {self.files.where}: the message says that {reference.ref} is text, but it is no UTF-8: {error}.",
                next_step='Send a reference whose column is "payload_bytes".',
            ) from error

    def has_mark(self, doing: str) -> bool:
        """Whether it is a place already, perhaps with a damaged mark. Raises PayloadsUnavailable if it can't be reached."""
        try:
            self.files.read(MARK, doing)
        except FileNotFoundError:
            return False
        return True

    def read_place(self, doing: str) -> str:
        """The id of the place.

        Args:
            doing: for the error.

        Raises:
            PayloadsUnavailable: it has no mark, or can't be reached.
        """
        try:
            return str(json.loads(self.files.read(MARK, doing))["place"])
        except FileNotFoundError:
            raise PayloadsUnavailable(
                f"payloads in {self.files.where}: while {doing}: there is no {MARK}. The disk is not mounted, or the place is new.",
                next_step="Mount it. Only a new place, which relaybox.yaml names under payloads: relaybox payloads prepare PLACE",
            ) from None
        except (ValueError, KeyError, TypeError) as error:
            raise PayloadsUnavailable(
                f"payloads in {self.files.where}: while {doing}: {MARK} is damaged: {error}.",
                next_step="Restore this file from a backup of the place.",
            ) from error


RESTORE_STEP = (
    "Bring it back from the trash: relaybox payloads restore PLACE. Or restore it from a backup. Then redrive the dead letter."
)


def open_files(location: str | Path) -> PlaceFiles:
    """The files of a place.

    Raises:
        ConfigurationError: obstore, which reads and writes an object store, is not installed.
    """
    if not is_object_store(str(location)):
        return DirectoryFiles(location)
    try:
        from relaybox.payloads.object_files import ObjectFiles
    except ImportError as error:
        raise ConfigurationError(
            f"payloads in {location}: an object store is read and written with obstore, which is not installed: {error}.",
            next_step="Run: pip install obstore",
        ) from error
    return ObjectFiles(str(location))


def is_object_store(location: str) -> bool:
    """Whether it is the URI of an object store, not a directory."""
    return location.startswith("s3://")


def digest_of(content: bytes) -> str:
    """As a reference has it."""
    return f"sha256:{hashlib.sha256(content).hexdigest()}"
