"""The login that Relaybox is given owns its schema; it need be no superuser."""

from __future__ import annotations

import psycopg2

from tests.support.cli import invoke
from tests.support.world import World, wait_until

OLDEST = 'relaybox_store_oldest_transaction_seconds{store="airline"}'


def test_an_owner_that_is_no_superuser_does_everything(owned: World) -> None:
    """Init, moving, confirming, proving, dropping, repairing: every command ends well."""
    assert invoke("init").exit_code == 0
    owned.send_many(100)
    for command in (
        "transfer flights/1", "transfer flights/2", "confirm flights", "status", "verify flights", "metrics", "holdback",
        "retention", "retire", "subscriptions", "senders", "reanchor flights/1", "attest airline --reason looked",
    ):  # fmt: skip
        run = invoke(*command.split())
        assert run.exit_code == 0, (command, run.stderr)


def test_an_owner_sees_open_transactions_of_others_with_pg_read_all_stats(owned: World) -> None:
    """Without it Postgres hides when they began, and the alarm for them is blind."""
    assert invoke("init").exit_code == 0
    with psycopg2.connect(service="administer_airline") as applications, applications.cursor() as cursor:
        cursor.execute("insert into relaybox.outbox (topic, sender, payload) values ('flights', 'UA', 'open')")
        assert f"{OLDEST} 0.0\n" in invoke("metrics").stdout
        owned.query("administer_airline", "grant pg_read_all_stats to app_owner")
        wait_until(lambda: f"{OLDEST} 0.0\n" not in invoke("metrics").stdout, "the transaction is seen")
        applications.rollback()
    applications.close()
