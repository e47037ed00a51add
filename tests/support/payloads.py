"""Large payloads of tests: places, files that are old, and messages that refer to them."""

from __future__ import annotations

import os
import uuid
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import yaml

from relaybox.outbox import put
from relaybox.payloads import HEADER, LargePayload, PayloadStore
from relaybox.payloads.collecting import PlaceCollected, collect_place
from relaybox.payloads.references import show_time, written_at
from relaybox.payloads.store import MARK, TRASH
from relaybox.routes import PayloadPlace, Routes, Store
from tests.support.world import World

PLACE = "pictures"


def add_place(world: World, location: str | Path, **keys: object) -> None:
    """Writes the section into relaybox.yaml."""
    content = yaml.safe_load(world.path.read_text())
    world.path.write_text(yaml.safe_dump({**content, "payloads": {PLACE: {"location": str(location), **keys}}}))


def place_of(world: World, **keys: Any) -> PayloadPlace:
    """The place of relaybox.yaml, with numbers that the file does not take."""
    return replace(world.routes.payload_place(PLACE), **keys)


def stores_of(world: World) -> list[Store]:
    """All of relaybox.yaml."""
    return list(world.routes.stores.values())


def collect(
    world: World, routes: Routes | None = None, *, dry_run: bool = False, patience_seconds: float = 0.5, **keys: Any
) -> PlaceCollected:
    return collect_place(
        place_of(world, **keys),
        list((routes or world.routes).stores.values()),
        recorded_by="test",
        dry_run=dry_run,
        patience_seconds=patience_seconds,
    )


@dataclass(frozen=True)
class Directory:
    """A place that is a directory, and what is in it."""

    store: PayloadStore

    @property
    def path(self) -> Path:
        return self.store.directory

    def write(self, payload: str = "content", *, days: float = 3) -> LargePayload:
        """A payload that was written some days ago, as its name and its file say."""
        return self.age(self.store.write(payload), days=days)

    def age(self, large: LargePayload, *, days: float) -> LargePayload:
        """Renames a file that no message refers to yet."""
        at = datetime.now(UTC) - timedelta(days=days)
        ref = f"{at:%Y-%m-%d}/{show_time(at)}-{uuid.uuid4().hex}"
        (self.path / ref).parent.mkdir(exist_ok=True)
        (self.path / large.reference.ref).rename(self.path / ref)
        with suppress(OSError):  # other files of the day
            (self.path / large.reference.ref).parent.rmdir()
        os.utime(self.path / ref, (at.timestamp(), at.timestamp()))
        reference = replace(large.reference, ref=ref)
        header = {HEADER: vars(reference)}
        return LargePayload(reference, header, {**large.headers, **header})

    @property
    def refs(self) -> set[str]:
        """Files of payloads."""
        return {name for name in self._names() if written_at(name)}

    @property
    def trash(self) -> set[str]:
        """What is in the trash, by its former names."""
        return {name.split("/", 2)[2] for name in self._names() if name.startswith(f"{TRASH}/")}

    @property
    def others(self) -> set[str]:
        return {name for name in self._names() if not written_at(name) and not name.startswith((f"{TRASH}/", ".stores/", MARK))}

    def _names(self) -> list[str]:
        return [str(path.relative_to(self.path)) for path in self.path.rglob("*") if path.is_file()]


def refs(*payloads: LargePayload) -> set[str]:
    return {large.reference.ref for large in payloads}


def send(world: World, *payloads: LargePayload, store: str = "airline", headers: Mapping[str, Any] | None = None) -> None:
    """A message for each, in one transaction that commits."""
    with world.session(store) as connection, connection.cursor() as cursor:
        for large in payloads:
            put(cursor, "flights", "UA", large.payload, headers={**(headers or {}), **large.headers})
        connection.commit()
