"""The JSON Schemas of topics: read from the files that relaybox.yaml names, and checked against messages."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from relaybox import errors
from relaybox.contracts.evolution import Break, list_breaks
from relaybox.contracts.schema_documents import Schema

if TYPE_CHECKING:
    from jsonschema.protocols import Validator

VERSION_HEADER = "schema_version"
"""The header of a message with the version of the schema that it was checked against."""

MAX_BYTES = 1024 * 1024


class SchemaViolation(ValueError):
    """A payload that the schema of its topic refuses.

    Attributes:
        topic: of the message.
        version: of the schema.
        at: where in the payload, as in `/passengers/0/name`; empty: the whole payload.
    """

    def __init__(self, topic: str, version: int, at: str, reason: str) -> None:
        super().__init__(f"topic {topic}, schema version {version}: {at or 'the payload'}: {reason}")
        self.topic, self.version, self.at = topic, version, at


@dataclass(frozen=True)
class SchemaBreak:
    """A version that does not take what the one before it took."""

    topic: str
    before: int
    after: int
    found: Break

    def __str__(self) -> str:
        return f"topic {self.topic}, version {self.after} after {self.before}: {self.found}"


class TopicSchemas:
    """The schemas of some topics, by version.

    Args:
        documents: the JSON Schema of each version of each topic.

    Raises:
        ConfigurationError: one of them is no JSON Schema, or the package jsonschema is missing.
    """

    def __init__(self, documents: Mapping[str, Mapping[int, Schema]]) -> None:
        self.documents = documents
        self._validators = {
            topic: {version: _validator(topic, version, document) for version, document in sorted(versions.items())}
            for topic, versions in documents.items()
        }

    @classmethod
    def read(cls, files: Mapping[str, Sequence[str]], folder: Path) -> TopicSchemas:
        """Reads the files that relaybox.yaml names: of `routes = load_routes(...)` the files are `routes.schemas`.

        Args:
            files: of each topic, the path of each version, version 1 first.
            folder: where relative paths begin: the folder of relaybox.yaml.

        Raises:
            ConfigurationError: a file is missing, too large, no JSON, or no JSON Schema.
        """
        return cls(
            {
                topic: {version: _read(topic, version, folder / path) for version, path in enumerate(paths, start=1)}
                for topic, paths in files.items()
            }
        )

    def require(
        self,
        topic: str,
        payload: str | bytes | Mapping[str, Any] | list[Any],
        *,
        version: int | None = None,
        headers: Mapping[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Checks a payload before it is put, and returns the headers to put with it.

        Args:
            topic: of the message. A topic without schemas takes every payload.
            payload: as `put` takes it: text and bytes are read as JSON.
            version: of the schema; None: the newest.
            headers: of the message.

        Returns:
            The headers with `schema_version`, if the topic has schemas.

        Raises:
            SchemaViolation: the schema refuses the payload.
            ConfigurationError: the topic has no schema of that version.
        """
        versions = self._validators.get(topic)
        if versions is None:
            return dict(headers or {})
        version = max(versions) if version is None else version
        if version not in versions:
            known = ", ".join(map(str, versions))
            raise errors.ConfigurationError(f"topic {topic} has no schema version {version}; expected one of: {known}.")
        value = _parse(topic, version, payload) if isinstance(payload, str | bytes) else payload
        for violation in versions[version].iter_errors(value):
            raise SchemaViolation(topic, version, "".join(f"/{step}" for step in violation.absolute_path), violation.message)
        return {**(headers or {}), VERSION_HEADER: version}

    def list_all(self) -> Iterator[tuple[str, int, Schema]]:
        """Topic, version and schema of each; of a topic version 1 first."""
        for topic, versions in self.documents.items():
            yield from ((topic, version, document) for version, document in sorted(versions.items()))

    @property
    def newest(self) -> dict[str, int]:
        """The newest version of each topic."""
        return {topic: max(versions) for topic, versions in self.documents.items()}

    def breaks(self) -> Iterator[SchemaBreak]:
        """What makes a version refuse messages of the one before it."""
        for topic, versions in self.documents.items():
            for before, after in pairwise(sorted(versions)):
                for found in list_breaks(versions[before], versions[after]):
                    yield SchemaBreak(topic, before, after, found)


def _parse(topic: str, version: int, payload: str | bytes) -> Any:
    try:
        return json.loads(payload)
    except ValueError as error:  # UnicodeDecodeError is one
        raise SchemaViolation(topic, version, "", f"it is no JSON: {error}") from error


def _read(topic: str, version: int, path: Path) -> Any:
    where = f"schema version {version} of topic {topic}: {path}"
    try:
        if path.stat().st_size > MAX_BYTES:
            raise errors.ConfigurationError(f"{where} is larger than 1 MiB.")
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise errors.ConfigurationError(
            f"{where} can't be read: {error.strerror}.",
            next_step="A path begins at the folder of relaybox.yaml. Correct it under schemas.",
        ) from error
    except ValueError as error:
        raise errors.ConfigurationError(f"{where} is no JSON: {error}.") from error


def _validator(topic: str, version: int, document: Schema) -> Validator:
    try:
        from jsonschema.exceptions import SchemaError
        from jsonschema.validators import Draft202012Validator, validator_for
    except ModuleNotFoundError as error:
        raise errors.ConfigurationError(
            "schemas need the package jsonschema, which is not installed.", next_step="Run: pip install 'relaybox[schemas]'"
        ) from error
    kind = validator_for(document, Draft202012Validator)
    try:
        kind.check_schema(document)
    except SchemaError as error:
        at = "".join(f"/{step}" for step in error.absolute_path) or "the document"
        raise errors.ConfigurationError(f"schema version {version} of topic {topic}: {at}: {error.message}.") from error
    return kind(document)
