"""A long batch tells how far it is."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor

import pytest

from relaybox.hops.runners import ThreadRunner
from relaybox.hops.transfer import transfer_hop
from tests.support.patience import patience
from tests.support.world import World, wait_until

HELD_RECEIPTS = """
create function public.hold() returns trigger language plpgsql as $$ begin perform pg_advisory_xact_lock_shared(1); return new; end $$;
create trigger hold before insert on relaybox_internal.receipt for each row when (new.slice > 1) execute function public.hold();
"""
"""The first slice is copied; the others wait for who has the lock."""


def test_a_long_batch_logs_rows_slices_and_rate_while_it_is_copied(
    world: World, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the destination's receipts, so whoever copies; a batch that is shorter than the pause logs nothing."""
    caplog.set_level("INFO", logger="relaybox")
    monkeypatch.setattr("relaybox.stores.sessions.settings.LOCK_TIMEOUT_SECONDS", 600)
    monkeypatch.setattr("relaybox.hops.progress.PROGRESS_SECONDS", 3600.0)
    world.change_route(limits={"batch_rows": 80, "slice_rows": 10})
    world.send_many(80)
    transfer_hop(world.first_hop, ThreadRunner(), recorded_by="me")
    assert progress_lines(caplog) == []
    monkeypatch.setattr("relaybox.hops.progress.PROGRESS_SECONDS", 0.1)
    world.query("hub", HELD_RECEIPTS)
    world.send_many(80)
    with world.session("hub") as holder, holder.cursor() as cursor, ThreadPoolExecutor(1) as pool:
        cursor.execute("select pg_advisory_lock(1)")
        transferred = pool.submit(transfer_hop, world.first_hop, ThreadRunner(), recorded_by="me")
        try:
            wait_until(lambda: sum("rows=10/80" in line for line in progress_lines(caplog)) >= 2, "the first slice is told twice")
        finally:
            holder.rollback()
            cursor.execute("select pg_advisory_unlock(1)")
        transferred.result(patience(60))
    told = [
        re.fullmatch(r"transfer_progress hop=flights/1 batch=2 slices=(\d)/8 rows=(\d+)/80 rows_per_second=\d+", line)
        for line in progress_lines(caplog)
    ]
    assert all(told)
    rows = [int(found[2]) for found in told if found]
    assert rows == sorted(rows)
    assert all(found and int(found[2]) == 10 * int(found[1]) for found in told)


def progress_lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [line for line in caplog.messages if line.startswith("transfer_progress")]
