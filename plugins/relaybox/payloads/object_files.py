"""The files of a place that is a bucket of an object store, or a prefix of it; see PlaceFiles."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager

import obstore
from obstore import exceptions

from relaybox.errors import ConfigurationError, PayloadsUnavailable
from relaybox.object_stores import open_object_store
from relaybox.payloads.files import FoundFile
from relaybox.payloads.references import PARTIAL

REQUEST_SECONDS = 300
"""Of one request, with the whole payload."""

_OBJECTS_PER_PAGE = 1000
_GONE = (exceptions.NotFoundError, FileNotFoundError)


class ObjectFiles:
    """Objects below a URI. What the object store has confirmed is durable, and whole. There are no folders."""

    def __init__(self, uri: str) -> None:
        self._uri = uri.rstrip("/")
        self._store = open_object_store(self._uri, timeout_seconds=REQUEST_SECONDS)

    @property
    def where(self) -> str:
        return self._uri

    def prepare(self) -> None:
        """Raises ConfigurationError too: the object store ignores the condition of a put, so two could make the place at once."""
        probe = f".probe-{uuid.uuid4().hex}{PARTIAL}"
        try:
            self.create(probe, b"", "preparing it")
            is_replaced = self.create(probe, b"", "preparing it")
        finally:
            self.remove(probe)
        if is_replaced:
            raise ConfigurationError(
                f"payloads in {self.where}: the object store has no conditional put: it replaced an object that it was told to create "
                "only if there was none (If-None-Match).",
                next_step="Use an object store or a version of it that has conditional puts.",
            )

    def list_files(self, below: str = "") -> Iterator[FoundFile]:
        with self._reaching("listing it"):
            for page in obstore.list(self._store, below or None, chunk_size=_OBJECTS_PER_PAGE):
                yield from (FoundFile(one["path"], one["size"], one["last_modified"]) for one in page)

    def read(self, name: str, doing: str, at_most: int | None = None) -> bytes:
        with self._reaching(doing):
            try:
                found = obstore.get(self._store, name)
                if at_most is None or found.meta["size"] <= at_most:
                    return bytes(found.bytes())
                return bytes(obstore.get_range(self._store, name, start=0, length=at_most))
            except _GONE as error:
                missing = FileNotFoundError(_line(error))
        raise missing

    def write_new(self, name: str, content: bytes, doing: str) -> None:
        """It replaces nothing. That an object of this name is there means that an earlier request has written it, whose answer was lost."""
        self.create(name, content, doing)

    def create(self, name: str, content: bytes, doing: str) -> bool:
        with self._reaching(doing):
            try:
                obstore.put(self._store, name, content, mode="create")
            except exceptions.AlreadyExistsError:
                return False
        return True

    def replace(self, name: str, content: bytes, doing: str) -> None:
        with self._reaching(doing):
            obstore.put(self._store, name, content, use_multipart=False)

    def move(self, name: str, to: str) -> bool:
        """A copy, made by the object store, and then the removal: killed in between, both are there, and the next run removes one."""
        with self._reaching(f"moving {name}"):
            try:
                obstore.copy(self._store, name, to)
            except _GONE:
                return False
        return self.remove(name)

    def remove(self, name: str) -> bool:
        """Of an object that was gone already, object stores say the same."""
        with self._reaching(f"removing {name}"):
            try:
                obstore.delete(self._store, name)
            except _GONE:
                return False
        return True

    def remove_empty_folders(self, above: str) -> None:
        """There are no folders."""

    @contextmanager
    def _reaching(self, doing: str) -> Iterator[None]:
        try:
            yield
        except (exceptions.BaseError, OSError) as error:
            is_refused = isinstance(error, exceptions.PermissionDeniedError | exceptions.UnauthenticatedError)
            raise PayloadsUnavailable(
                f"payloads in {self.where}: while {doing}: {_line(error)}.",
                next_step="Let the login of the environment read and write it."
                if is_refused
                else "Correct what the error says, and try again.",
            ) from error


def _line(error: Exception) -> str:
    """Its first line: the others are the answer of the server, and the settings of the client."""
    first = (str(error).splitlines() or [type(error).__name__])[0]
    return first.partition(": <?xml")[0].rstrip(".")
