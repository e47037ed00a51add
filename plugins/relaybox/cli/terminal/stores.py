"""The results of init, on a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from relaybox.cli.terminal.tables import open_console
from relaybox.stores.schema.object_defects import shorten

if TYPE_CHECKING:
    from collections.abc import Sequence

    from relaybox.stores.init.one_store import StoreInitialised


def show_initialised(stores: Sequence[StoreInitialised], *, done: bool) -> None:
    """Prints the changes of each store, which were made, or (in a dry run) would be."""
    console = open_console()
    for store in stores:
        for hop in store.orphaned_hops:
            console.print(
                f"{store.store}: hop {hop} is in no route any more. Its undelivered messages are kept. To count or discard them: relaybox "
                f"retire {hop}"
            )
        for what in (*store.hops_in_use, *store.renamed_sinks, *store.orphaned_subscriptions):
            console.print(f"{store.store}: {what}")
        for key in store.switches_kept_on:
            console.print(f"{store.store}: {key} stays on: relaybox.yaml does not have it. To switch it off, write {key}: false")
        if store.public_rights:
            console.print(
                f"{store.store}: every login of the server has {' and '.join(store.public_rights)} on the database. "
                "To revoke it, see docs/logins.md, Logins without a grant"
            )
        for what in store.differing:
            console.print(f"{store.store}: init leaves as it is: {what}")
        if not store.changed:
            console.print(f"{store.store}: up to date")
            continue
        console.print(f"{store.store}:" if done else f"{store.store}, an init would change:")
        changes = {
            "migrations": ", ".join(store.migrations),
            "functions": "" if not store.functions_renewed else "created" if store.is_new else "replaced",
            "roles": ", ".join(store.roles_created),
            "segments": ", ".join(store.segments_made) if done else "those that the outbox lacks after these changes",
            "hops": ", ".join(f"{hop} {what}" for hop, what in store.hops.items() if what != "unchanged"),
            "rights": f"{' and '.join(store.public_rights_revoked)} revoked from PUBLIC" if store.public_rights_revoked else "",
            "binding of senders to roles": "" if store.sender_binding == "unchanged" else store.sender_binding,
            "binding of subscriptions to roles": "" if store.subscription_binding == "unchanged" else store.subscription_binding,
            "grants of topics to roles": "" if store.topic_binding == "unchanged" else store.topic_binding,
            "approvals of messages that are given again": "" if store.approvals == "unchanged" else store.approvals,
            "durability": store.durability if store.durability_changed else "",
            "repaired": shorten(store.repaired),
            "schema checks": "; ".join(store.payload_checks),
        }
        for what, text in changes.items():
            if text:
                console.print(f"  {what}: {text}")
