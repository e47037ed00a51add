"""A long batch tells how far it is."""

from __future__ import annotations

import re

import pytest

from relaybox.hops.runners import ThreadRunner
from relaybox.hops.transfer import transfer_hop
from tests.support.world import World

SLOW_RECEIPTS = """
create function public.slow() returns trigger language plpgsql as $$ begin perform pg_sleep(0.5); return new; end $$;
create trigger slow before insert on relaybox_internal.receipt for each row execute function public.slow();
"""


def test_a_long_batch_logs_rows_slices_and_rate_while_it_is_copied(
    world: World, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the destination's receipts, so whoever copies; a batch that is shorter than the pause logs nothing."""
    caplog.set_level("INFO", logger="relaybox")
    world.change_route(limits={"batch_rows": 80, "slice_rows": 10})
    world.send_many(80)
    transfer_hop(world.first_hop, ThreadRunner(), recorded_by="me")
    assert [line for line in caplog.messages if line.startswith("transfer_progress")] == []
    monkeypatch.setattr("relaybox.hops.progress.PROGRESS_SECONDS", 0.1)
    world.query("hub", SLOW_RECEIPTS)
    world.send_many(80)
    transfer_hop(world.first_hop, ThreadRunner(), recorded_by="me")
    told = [
        re.fullmatch(r"transfer_progress hop=flights/1 batch=2 slices=(\d)/8 rows=(\d+)/80 rows_per_second=\d+", line)
        for line in caplog.messages
        if line.startswith("transfer_progress")
    ]
    rows = [int(found[2]) for found in told if found]
    assert len(told) == len(rows) >= 2
    assert rows == sorted(rows)
    assert any(0 < row < 80 for row in rows)
    assert all(found and int(found[2]) == 10 * int(found[1]) for found in told)
