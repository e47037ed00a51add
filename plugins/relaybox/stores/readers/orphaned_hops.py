"""Registered hops that relaybox.yaml no longer contains: their route was removed from the file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from datetime import datetime

    from relaybox.routes import Routes, Store
    from relaybox.stores.sessions.store_session import StoreSession


OLDER_FILE = "If this relaybox.yaml is older, update it and run: relaybox init. Do not run relaybox retire before"
"""What an init says of a hop that was in use, and that its relaybox.yaml lacks."""


@dataclass(frozen=True)
class OrphanedHop:
    """A hop that no route of the file has.

    Attributes:
        store: the one it leaves; `destination` was where it went.
        retired_at, retired_by, retired_reason: None as long as the store keeps what the hop has not settled.
        in_use: why the store refuses to retire it, in words; None if it does not.
        in_use_next_step: what ends that; None likewise.
    """

    hop: str
    store: str
    destination: str
    retired_at: datetime | None
    retired_by: str | None
    retired_reason: str | None
    in_use: str | None
    in_use_next_step: str | None


def list_orphaned_hops(session: StoreSession, store: Store, routes: Routes) -> list[OrphanedHop]:
    """The hops that leave a store and are of no route in the file, retired ones included, by name.

    Looks at the store's list of hops and at no message. Runs in the session's transaction.
    """
    return session.rows(
        OrphanedHop,
        """
        select h.hop, h.destination, h.retired_at, h.retired_by, h.retired_reason, u.told as in_use, u.next_step as in_use_next_step
        from relaybox_internal.hop_out h cross join lateral relaybox_internal.hop_in_use(h) u
        where h.hop <> all(%s) order by h.hop
        """,
        [hop.name for hop in routes.hops if hop.source == store],
        store=store.name,
    )


def describe_in_use(hops: Iterable[OrphanedHop]) -> Iterator[str]:
    """Says of each hop that was in use before an init whose relaybox.yaml lacks it what speaks for a newer one, and what to do then."""
    for hop in hops:
        if hop.in_use is not None:
            yield f"hop {hop.hop}: {hop.in_use}. {OLDER_FILE}"


def list_removed_hops(session: StoreSession) -> dict[str, bool]:
    """The hops that leave a store, and whether an init has found that relaybox.yaml does not have them."""
    return dict(session.rows(_Removed, "select h.hop, h.removed_at is not null as is_removed from relaybox_internal.hop_out h"))


class _Removed(NamedTuple):
    hop: str
    is_removed: bool


def compare_removed(before: Mapping[str, bool], after: Mapping[str, bool]) -> dict[str, str]:
    """What an init changed by it, as StoreInitialised.hops has it: removed, or changed of a hop that is in the file again."""
    return {
        f"{hop} out": "removed" if is_removed else "changed"
        for hop, is_removed in after.items()
        if hop in before and before[hop] != is_removed
    }
