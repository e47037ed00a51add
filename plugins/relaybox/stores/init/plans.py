"""Plans of an init that a person approved: what they were made of, and what a later plan has beyond them. Decisions without I/O."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from relaybox import __version__
from relaybox.stores.schema import migrations

if TYPE_CHECKING:
    from relaybox.routes import Routes
    from relaybox.stores.init.one_store import StoreInitialised


def digest_target(routes: Routes) -> str:
    """Returns a digest of what an init brings a store to: relaybox.yaml, and the version and SQL of this installation."""
    directory = migrations.sql_directory()
    digest = hashlib.sha256(f"{__version__}\n{routes.text}".encode())
    for path in sorted(directory.rglob("*.sql")):
        digest.update(f"\n{path.relative_to(directory)}\n{path.read_text(encoding='utf-8')}".encode())
    return digest.hexdigest()


_GROWING = ("hops_in_use", "renamed_sinks", "orphaned_subscriptions")
"""Fields that change nothing, and whose numbers grow with each message or batch."""


def list_changes(plan: StoreInitialised) -> dict[str, Any]:
    """Returns the fields of a plan that say something: what would be changed, and what init would leave."""
    fields = asdict(plan)
    fields.pop("store")
    durability = fields.pop("durability")
    if fields["durability_changed"]:
        fields["durability_changed"] = f"to {durability}"
    fields["hops"] = [f"{hop}: {done}" for hop, done in fields["hops"].items() if done != "unchanged"]
    return {name: _plain(value) for name, value in fields.items() if value not in ("unchanged", False, (), [])}


def find_unapproved(plan: StoreInitialised, approved: Mapping[str, Any] | None) -> list[str]:
    """Returns what a plan has and the approved one has not, each as `field: value`; empty if the plan is a part of it.

    A part, not the same: an init that was killed has done some of it, and the rest stays approved. A store that is up to date
    needs no approval.

    Args:
        plan: what an init would do now.
        approved: what list_changes() gave of the plan that was shown; None: this store was not shown.
    """
    if not plan.changed:
        return []
    shown = approved or {}
    beyond = []
    for name, value in list_changes(plan).items():
        if name in _GROWING:
            continue
        if isinstance(value, list):
            beyond += [f"{name}: {one}" for one in value if one not in shown.get(name, [])]
        elif value != shown.get(name):
            beyond.append(f"{name}: {value}")
    return beyond


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
