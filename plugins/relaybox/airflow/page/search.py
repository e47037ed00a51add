"""Where is message X: by its id, or by its sender and index."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated
from uuid import UUID

from fastapi import Depends, HTTPException, Query, status

from relaybox.airflow.page.permissions import Rights
from relaybox.airflow.page.store_overview import StoreOverview
from relaybox.monitoring.message_search import require_messages
from relaybox.monitoring.message_trace import Trace, trace_message
from relaybox.routes import Route


@dataclass(frozen=True)
class SearchRequest:
    """What was asked for: an id, or a sender and an index; `asked` is False for an empty form."""

    message_id: UUID | None = None
    sender: str | None = None
    index: int | None = None

    @property
    def asked(self) -> bool:
        return self.message_id is not None or self.sender is not None


async def _wanted(
    message: Annotated[str, Query(max_length=100)] = "",
    sender: Annotated[str, Query(max_length=48)] = "",
    index: Annotated[str, Query(max_length=20)] = "",
) -> SearchRequest:
    """Forms send empty fields: they are as good as none."""
    message, sender, index = message.strip(), sender.strip(), index.strip()
    if message:
        try:
            return SearchRequest(message_id=UUID(message))
        except ValueError:
            raise _refused("A message id is a UUID, such as 0198c0de-0000-7000-8000-000000000000.") from None
    if bool(sender) != bool(index):
        raise _refused("A sender needs an index with it, and an index a sender.")
    if not sender:
        return SearchRequest()
    if not (index.isascii() and index.isdigit() and 0 < int(index) < 2**63):
        raise _refused("An index is a whole number from 1 on.")
    return SearchRequest(sender=sender, index=int(index))


WantedDep = Annotated[SearchRequest, Depends(_wanted)]


async def search(gathering: StoreOverview, rights: Rights, wanted: SearchRequest) -> list[tuple[Trace, ...]]:
    """The way of each message found.

    Raises:
        UnknownMessage: there is none on these routes.
        StoreUnreachable, StoreUnusable, StoreNotInitialised: a store on the way can't be asked.
        HTTPException: 403, the user may read no route; 422, nothing is named; 503, no answer in time.
    """
    routes = await gathering.readable_routes(rights)
    if not routes:
        raise HTTPException(status.HTTP_403_FORBIDDEN, "You may not read the DAGs of any route.")
    if not wanted.asked:
        raise _refused("Name a message id, or a sender and an index.")
    return await gathering.ask(lambda: _find(routes, wanted))


def _find(routes: Sequence[Route], wanted: SearchRequest) -> list[tuple[Trace, ...]]:
    if wanted.message_id is not None:
        return [trace_message(routes, wanted.message_id)]
    assert wanted.sender is not None and wanted.index is not None  # noqa: S101, PT018  # as _wanted() makes it
    return [trace_message(routes, message_id) for message_id in require_messages(routes, wanted.sender, wanted.index)]


def _refused(words: str) -> HTTPException:
    return HTTPException(status.HTTP_422_UNPROCESSABLE_CONTENT, words)
