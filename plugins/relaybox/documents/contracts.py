"""The answer of `relaybox schemas`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from relaybox.documents.document import Document

if TYPE_CHECKING:
    from collections.abc import Sequence

    from relaybox.contracts.topic_schemas import SchemaBreak
    from relaybox.routes import Routes


class TopicSchemaDocument(Document):
    """A version of the schema of a topic."""

    topic: str
    version: int
    file: str
    """As relaybox.yaml names it."""


class SchemaBreakDocument(Document):
    """A version that refuses messages which the one before it took."""

    topic: str
    before: int
    after: int
    at: str
    """Where in the payload, as in `/passengers/items/name`; empty: the whole payload."""
    reason: str


class SchemasDocument(Document):
    """The answer of `relaybox schemas`."""

    schemas: list[TopicSchemaDocument]
    breaks: list[SchemaBreakDocument]

    @classmethod
    def of(cls, routes: Routes, breaks: Sequence[SchemaBreak]) -> SchemasDocument:
        return cls(
            schemas=[
                TopicSchemaDocument(topic=topic, version=version, file=file)
                for topic, files in routes.schemas.items()
                for version, file in enumerate(files, start=1)
            ],
            breaks=[
                SchemaBreakDocument(topic=one.topic, before=one.before, after=one.after, at=one.found.at, reason=one.found.reason)
                for one in breaks
            ],
        )
