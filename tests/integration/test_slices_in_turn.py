"""Slices that are copied one after the other in the same sessions: by a task of Spark, and by threads."""

from __future__ import annotations

from contextlib import AbstractContextManager, closing
from dataclasses import replace

import pytest

from relaybox import errors
from relaybox.hops.batches import Batch
from relaybox.hops.copying import SliceJob, copy_slice, copy_slices_in_turn, session_name
from relaybox.hops.runners import ThreadRunner
from relaybox.hops.slice_sessions import SliceSessions
from relaybox.stores.sessions.connections import connect
from relaybox.stores.sessions.store_session import StoreSession
from tests.integration.driver_steps import planned_batch
from tests.support.world import World, wait_until


@pytest.fixture
def planned(world: World) -> tuple[Batch, SliceJob]:
    """A batch of four slices."""
    world.change_route(limits={"batch_rows": 80, "slice_rows": 20})
    world.send_many(80)
    planned, order = planned_batch(world)
    assert len(planned.batch.slices) == 4
    return planned.batch, order


def sessions(world: World, store: str) -> list[tuple[int, str]]:
    rows = world.query(
        store, "select pid, application_name from pg_stat_activity where application_name ~ '^relaybox flights/1 b' order by pid"
    )
    return [(int(pid), str(name)) for pid, name in rows]


def test_slices_in_turn_have_one_session_of_each_store_whose_name_is_that_of_the_slice(
    world: World, planned: tuple[Batch, SliceJob]
) -> None:
    """By the name a newer attempt finds it, so the name changes with the slice."""
    batch, order = planned
    pids = set()
    with closing(SliceSessions(keep=1)) as kept:
        for slice_ in batch.slices:
            assert copy_slice(order, slice_, kept).found == "open"
            for store in ("airline", "hub"):
                ((pid, name),) = sessions(world, store)
                assert name == session_name(order, slice_)
                pids.add((store, pid))
    assert len(pids) == 2
    assert world.value("hub", "select count(*) from relaybox_internal.receipt") == len(batch.slices)


def test_what_has_its_receipt_is_passed_over_in_the_middle(world: World, planned: tuple[Batch, SliceJob]) -> None:
    batch, order = planned
    copy_slice(order, batch.slices[1])
    reports, failure = copy_slices_in_turn(order, batch.slices)
    assert failure is None
    assert [report.found for report in reports] == ["open", "copied", "open", "open"]


def test_a_failure_ends_the_turn_and_what_was_copied_before_is_told(world: World, planned: tuple[Batch, SliceJob]) -> None:
    """The third slice is planned with a row too much: two reports, the error, and no session is left."""
    batch, order = planned
    wrong = replace(batch.slices[2], row_count=21)
    reports, failure = copy_slices_in_turn(order, [*batch.slices[:2], wrong, batch.slices[3]])
    assert [report.slice for report in reports] == [1, 2]
    assert isinstance(failure, errors.ContentDiffers)
    assert world.value("hub", "select count(*) from relaybox_internal.receipt") == 2
    assert copy_slices_in_turn(order, batch.slices)[0][3].found == "open"


def test_threads_keep_their_sessions_for_a_batch_and_one_of_each_store_for_the_next(
    world: World, planned: tuple[Batch, SliceJob]
) -> None:
    """Without a block none is kept, in a block one of each store."""
    batch, order = planned
    copied = list(ThreadRunner(2).copy_slices(order, batch.slices[:2]))
    assert sorted(report.slice for report in copied) == [1, 2]
    wait_until(lambda: sessions(world, "hub") == [], "the sessions have ended")
    with ThreadRunner(2) as runner:
        assert len(list(runner.copy_slices(order, batch.slices))) == 4
        wait_until(
            lambda: len(sessions(world, "hub")) == len(sessions(world, "airline")) == 1, "one session of each store is kept"
        )
    wait_until(lambda: sessions(world, "hub") == [], "the sessions have ended")


def test_more_sessions_are_kept_within_a_block_only(world: World) -> None:
    """Those that are too many afterwards are closed, those in use when they come back."""
    kept = SliceSessions(keep=1)

    def lend(name: str) -> AbstractContextManager[StoreSession]:
        return kept.lend(
            "hub", name=name, activity=name, open_session=lambda: StoreSession(connect("hub", application_name=name), "hub")
        )

    with kept.keeping(2):
        with lend("relaybox one") as one, lend("relaybox two") as two:
            pass
        assert (one.closed, two.closed) == (False, False)
        late = lend("relaybox three")
        three = late.__enter__()
    late.__exit__(None, None, None)
    assert sorted([one.closed, two.closed]) == [False, True] or three.closed
    assert [one.closed, two.closed, three.closed].count(False) == 1
    kept.close()
