"""Messages that a stream or a subscription set aside, as on-call engineers see and decide them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

from relaybox.exact_json import read_json
from relaybox.stores.opening import store_session

if TYPE_CHECKING:
    from relaybox.routes import Store
    from relaybox.stores.sessions.store_session import StoreSession

OPEN_STATES = ("open", "redriving")
DELAYED = "delayed"
"""State of a message that was passed since it was not due: no dead letter. Its reason is the same word, also while it is given."""

WHOLE_PAYLOAD = 2**25
"""More characters than the 16 MiB that a payload may have are in base64."""


@dataclass(frozen=True)
class DeadLetter:
    """A message that a stream or a subscription set aside.

    Attributes:
        payload: whole, or its beginning: as many characters as were asked for (of base64, where the message has bytes). None where the
            log is no longer kept, and for a login that may not read payloads: then key and headers are None too.
        payload_size_bytes: of the whole payload as it was sent; None as above.
    """

    store: str
    dead_letter_id: int
    state: str
    stream: str
    subscription: str | None
    lane: int | None
    stream_position: int | None
    reason: str
    detail: str | None
    attempts: int
    first_at: datetime
    last_at: datetime
    last_by: str
    resolved_at: datetime | None
    resolved_by: str | None
    resolved_reason: str | None
    hop: str
    log_position: int
    message_id: UUID | None
    topic: str | None
    sender: str | None
    key: str | None
    payload: str | None
    payload_size_bytes: int | None
    headers: dict[str, Any] | None


def list_dead_letters(
    store: Store,
    *,
    subscription: str | None = None,
    stream: str | None = None,
    dead_letter_id: int | None = None,
    states: Sequence[str] = OPEN_STATES,
    limit: int | None = None,
    payload_characters: int = WHOLE_PAYLOAD,
) -> list[DeadLetter]:
    """Dead letters of a store in these states; of one subscription, one stream, or one letter (whatever its state), if asked for.

    With a `limit`, at most this many, the oldest first. No more than `payload_characters` of each payload leave the store.
    """
    query = """
        select dead_letter_id, state, stream, subscription, lane, stream_position, reason, detail, attempts, first_at, last_at, last_by,
            resolved_at, resolved_by, resolved_reason, hop, "log_position", message_id, topic, sender, {}
        from relaybox.dead_letters
        where case when %(dead_letter_id)s::bigint is not null then dead_letter_id = %(dead_letter_id)s
            else state = any(%(states)s) and (%(subscription)s::text is null or subscription = %(subscription)s)
                and (%(stream)s::text is null or stream = %(stream)s)
                and (reason <> 'delayed' or 'delayed' = any(%(states)s)) end
        order by dead_letter_id limit %(limit)s
    """
    asked = {
        "dead_letter_id": dead_letter_id,
        "states": list(states),
        "subscription": subscription,
        "stream": stream,
        "limit": limit,
        "payload_characters": payload_characters,
    }
    with _session(store, "listing dead letters") as session:
        may_read = session.value("select has_column_privilege('relaybox.dead_letters', 'payload', 'select')")
        found = session.rows(DeadLetter, query.format(_CONTENT if may_read else _NO_CONTENT), asked, store=store.name)
    return [one if one.headers is None else replace(one, headers=read_json(str(one.headers))) for one in found]


_CONTENT = """
    key, headers::text as headers,
    coalesce(
        left(payload, %(payload_characters)s),
        left(encode(substring(payload_bytes, 1, %(payload_characters)s), 'base64'), %(payload_characters)s)
    ) as payload,
    coalesce(octet_length(payload), octet_length(payload_bytes)) as payload_size_bytes
"""
_NO_CONTENT = "null as key, null as headers, null as payload, null as payload_size_bytes"


def redrive(store: Store, subscription: str, *, reason: str, dead_letter_id: int | None = None) -> int:
    """Gives dead letters to the subscription's consumers again; returns how many. DeadLetterNotOpen."""
    with _session(store, f"redriving dead letters of {subscription}") as session:
        count = session.call("relaybox.redrive", subscription, reason, dead_letter_id)
        session.commit()
    return int(count)


def drop_dead_letter(store: Store, dead_letter_id: int, *, reason: str) -> None:
    """Gives up a dead letter. DeadLetterNotOpen."""
    with _session(store, f"dropping dead letter {dead_letter_id}") as session:
        session.call("relaybox.drop_dead_letter", dead_letter_id, reason)
        session.commit()


def _session(store: Store, activity: str) -> AbstractContextManager[StoreSession]:
    return store_session(store, activity, application_name="relaybox subscriptions")
