"""Subscriptions of a store that was rebuilt: made anew from a list that was saved, each cursor where it had been."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from relaybox import errors
from relaybox.stores.opening import store_session

if TYPE_CHECKING:
    from relaybox.routes import Store
    from relaybox.stores.sessions.store_session import StoreSession


@dataclass(frozen=True)
class RestoredSubscription:
    """A subscription made anew. `first_stream_position` is the first that its slowest lane reads; `doubt`: why it starts at the beginning.

    `dead_letter_stream_positions`: messages that were dead letters when it was saved; their letters are lost.
    """

    subscription: str
    stream: str
    first_stream_position: int
    doubt: str | None
    dead_letter_stream_positions: tuple[int, ...]


def restore_subscriptions(
    store: Store, saved: Sequence[Mapping[str, Any]], doubts: Mapping[str, str]
) -> list[RestoredSubscription]:
    """Makes the subscriptions of a rebuilt store anew, as `relaybox subscriptions STORE --json` had saved them. One commit.

    A cursor is put back where the same message stands at its stream position as when it was saved; otherwise it starts at the beginning,
    which repeats messages and leaves none out. Those that are there already, and replays, are passed over.

    Raises:
        ConfigurationError: the file is no such document.
    """
    wanted = [one for one in _checked(saved) if one["store"] == store.name and one["replay_of"] is None]
    restored = []
    with store_session(store, "restoring subscriptions", application_name="relaybox rebuild") as session:
        known = set(session.values("select subscription from relaybox.subscriptions"))
        for one in wanted:
            if one["subscription"] not in known:
                doubt = doubts.get(one["stream"]) or _moved(session, one)
                restored.append(_restore(session, one, doubt))
        session.commit()
    return restored


_SAVED_KEYS = {
    "store",
    "subscription",
    "stream",
    "topic",
    "replay_of",
    "lanes",
    "lane_by",
    "lane_stream_positions",
    "done_stream_position",
    "done_message_id",
    "dead_letter_stream_positions",
    "nack_limit",
    "crash_limit",
    "hold_sender",
    "retry_seconds",
    "lease_seconds",
}


def _checked(saved: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    for one in saved:
        if not isinstance(one, dict) or not one.keys() >= _SAVED_KEYS:
            raise errors.ConfigurationError(
                "the file has no subscriptions as `relaybox subscriptions --json` writes them.",
                next_step="Save one regularly: relaybox subscriptions --json > subscriptions.json",
            )
    return saved


def _moved(session: StoreSession, one: Mapping[str, Any]) -> str | None:
    """Why the stream positions of a subscription are not those that were saved; None when they are."""
    if one["done_stream_position"] == 0:
        return None
    message_id = session.value(
        "select message_id::text from relaybox.read_stream(%s, %s, 1)", one["stream"], one["done_stream_position"] - 1
    )
    if message_id is not None and message_id == one["done_message_id"]:
        return None
    return f"another message stands at stream position {one['done_stream_position']} than when it was saved"


def _restore(session: StoreSession, one: Mapping[str, Any], doubt: str | None) -> RestoredSubscription:
    first_stream_position = session.call(
        "relaybox.subscribe",
        *(one["subscription"], one["topic"] or one["stream"], "earliest", one["lanes"], one["lane_by"], one["nack_limit"]),
        *(one["crash_limit"], one["hold_sender"], one["retry_seconds"], one["lease_seconds"]),
        one.get("delayed", "hold"),  # a file of an earlier version has no such key
    )
    if doubt is None:
        for lane, done_stream_position in enumerate(one["lane_stream_positions"], start=1):
            session.call("relaybox_internal.restore_cursor", one["subscription"], lane, done_stream_position)
        if delayed := one.get("delayed_stream_positions"):
            session.call("relaybox_internal.restore_delayed", one["subscription"], delayed)
        first_stream_position = max(first_stream_position, min(one["lane_stream_positions"]) + 1)
    return RestoredSubscription(
        one["subscription"], one["stream"], first_stream_position, doubt, tuple(one["dead_letter_stream_positions"])
    )
