"""The rules that relaybox.yaml can switch in a store: which are on, and whether the file says something else than the record."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from relaybox.monitoring.doctor.check import Diagnosis, Examined, hidden, notice, ok, warning

if TYPE_CHECKING:
    from relaybox.monitoring.doctor.record import StoreRecord


def check_switches(examined: Examined) -> Iterator[Diagnosis]:
    """What is switched on in the store is what relaybox.yaml says."""
    record, store = examined.record, examined.store
    if record is None:
        if examined.server.has_schema:
            yield hidden(examined, "relaybox_internal.store")
        return
    asked: Mapping[str, str | bool | None] = {"durability": store.durability, **{key: getattr(store, key) for key in _SWITCHES}}
    differing = {
        key: value for key, value in asked.items() if value is not None and value != getattr(record, key)
    }  # a key that the file does not have leaves the store as it is
    for key, value in differing.items():
        found = _written(getattr(record, key))
        yield warning(
            f"relaybox.yaml says {key}: {_written(value)}, and the store has {key}: {found} on record. The record decides until an init.",
            f"For what the file says, run: relaybox init {store.name}. To keep what is on record, write {key}: {found} into the file.",
        )
    if "durability" not in differing and record.durability_reason != store.durability_reason:
        yield notice(
            f"durability_reason is {record.durability_reason!r} on record, and {store.durability_reason!r} in relaybox.yaml.",
            f"Run: relaybox init {store.name}",
        )
    elif not differing:
        yield ok(f"Switched on in the store: {_switched_on(record)}; relaybox.yaml says the same.")


_SWITCHES = ("bind_senders", "bind_subscriptions", "bind_topics", "require_approval")


def _switched_on(record: StoreRecord) -> str:
    on = [key for key in _SWITCHES if getattr(record, key)]
    if record.durability == "provider":
        on.append(f"durability: provider ({record.durability_reason}; recorded by {record.durability_said_by})")
    return ", ".join(on) or "none"


def _written(value: object) -> str:
    """As the file has it."""
    return str(value).lower() if isinstance(value, bool) else str(value)
