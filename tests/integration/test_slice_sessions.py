"""Sessions that copy slices are kept from one batch to the next: a slice gets the session that the last one used, under its own name."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from relaybox import errors
from relaybox.hops.runners import ThreadRunner
from relaybox.hops.slice_sessions import SliceSessions
from relaybox.hops.transfer import Progress, TransferSummary, transfer_hop
from relaybox.stores.sessions.connections import connect
from relaybox.stores.sessions.store_session import StoreSession
from tests.support.patience import patience
from tests.support.world import World, wait_until

NAMED = "select pid from pg_stat_activity where datname = current_database() and application_name = %s"
COPIERS = "select count(*) from pg_stat_activity where datname = current_database() and starts_with(application_name, 'relaybox flights/1 b')"


def _linger(
    world: World,
    published: list[Progress],
    *,
    between: Sequence[Callable[[], object]] = (),
    then: Callable[[Progress], None] = lambda _: None,
) -> TransferSummary:
    """Moves two batches with one driver: `a`, then `b`, which is sent once `a` is there. `between` is called before."""

    def on_progress(progress: Progress) -> None:
        if progress.published:
            published.append(progress)
            if len(published) == 1:
                for act in between:
                    act()
                world.send("b")
            then(progress)

    world.send("a")
    with ThreadRunner(2) as runner:
        return transfer_hop(
            world.first_hop,
            runner,
            recorded_by="test",
            progress=on_progress,
            linger_seconds=10_000,
            is_slot_wanted=lambda _: len(published) == 2,
        )


def test_the_next_slice_has_the_session_of_the_last_one_under_its_own_name(world: World) -> None:
    """By that name a newer attempt finds it; the old name is gone."""
    published: list[Progress] = []
    found: list[tuple[list[int], list[int]]] = []

    def look() -> None:
        found.extend(
            tuple(_pids(world, store, f"relaybox flights/1 b{n} s1 a{n}") for n in (1, 2)) for store in ("airline", "hub")
        )  # type: ignore[misc]

    def look_after_the_second(progress: Progress) -> None:
        if progress.batch == 2 and progress.published:
            look()

    _linger(world, published, between=[look], then=look_after_the_second)
    (airline_first, airline_none), (hub_first, hub_none), (airline_gone, airline_second), (hub_gone, hub_second) = found
    assert (airline_second, hub_second) == (airline_first, hub_first)
    assert [len(airline_first), len(hub_first)] == [1, 1]
    assert airline_none == hub_none == airline_gone == hub_gone == []


def _pids(world: World, store: str, name: str) -> list[int]:
    return [pid for (pid,) in world.query(store, NAMED, name)]


def test_nothing_is_left_of_the_sessions_when_the_driver_ends(world: World) -> None:
    _linger(world, [])
    for store in ("airline", "hub"):
        wait_until(lambda store=store: world.value(store, COPIERS) == 0, f"the sessions at {store} have ended")  # type: ignore[misc]


@pytest.mark.parametrize("store", ["airline", "hub"])
def test_a_kept_session_that_was_ended_meanwhile_is_replaced(world: World, store: str) -> None:
    """Nobody's slice fails by it: it held nothing."""

    def end() -> None:
        (pid,) = _pids(world, store, "relaybox flights/1 b1 s1 a1")
        assert world.value(store, "select pg_terminate_backend(%s, %s)", pid, int(patience(30) * 1000))

    _linger(world, [], between=[end])
    assert world.payloads() == ["a", "b"]


def _open(name: str) -> StoreSession:
    return StoreSession(connect("hub", application_name=name), "hub")


def _backend(session: StoreSession) -> tuple[int, str]:
    return session.value("select pg_backend_pid()"), session.value("select current_setting('application_name')")


def test_a_session_is_lent_again_under_the_next_name_which_no_rollback_takes_back(world: World) -> None:
    sessions = SliceSessions(keep=1)
    with sessions.lend("hub", name="relaybox one", activity="one", open_session=lambda: _open("relaybox one")) as session:
        first = _backend(session)
    with sessions.lend("hub", name="relaybox two", activity="two", open_session=lambda: pytest.fail("opened anew")) as session:
        session.rollback()
        again = _backend(session)
        assert session.activity == "two"
    sessions.close()
    assert (first[1], again) == ("relaybox one", (first[0], "relaybox two"))
    wait_until(lambda: _pids(world, "hub", "relaybox two") == [], "the session has ended")


@pytest.mark.usefixtures("world")
def test_a_session_whose_slice_failed_is_never_lent_again() -> None:
    """What it holds would be committed with the next slice."""
    sessions = SliceSessions(keep=1)
    with (
        pytest.raises(errors.StoreBusy),
        sessions.lend("hub", name="relaybox one", activity="one", open_session=lambda: _open("relaybox one")) as failed,
    ):
        failed.execute("create temporary table kept (n integer)")
        raise errors.StoreBusy("no room")
    assert failed.closed
    with sessions.lend("hub", name="relaybox two", activity="two", open_session=lambda: _open("relaybox two")) as session:
        assert session.value("select to_regclass('pg_temp.kept')") is None
    sessions.close()
    assert session.closed


@pytest.mark.usefixtures("world")
def test_a_kept_session_is_outside_any_transaction() -> None:
    """What a slice read in it is not seen by the next slice, and holds no vacuum back."""
    sessions = SliceSessions(keep=1)
    with sessions.lend("hub", name="relaybox one", activity="one", open_session=lambda: _open("relaybox one")) as session:
        session.execute("create temporary table kept (n integer)")
    with sessions.lend("hub", name="relaybox two", activity="two", open_session=lambda: _open("relaybox two")) as session:
        assert session.value("select to_regclass('pg_temp.kept')") is None
    sessions.close()


@pytest.mark.usefixtures("world")
def test_no_more_sessions_are_kept_than_were_asked_for() -> None:
    sessions = SliceSessions(keep=1)
    with (
        sessions.lend("hub", name="relaybox one", activity="one", open_session=lambda: _open("relaybox one")) as one,
        sessions.lend("hub", name="relaybox two", activity="two", open_session=lambda: _open("relaybox two")) as two,
    ):
        pass
    assert sorted([one.closed, two.closed]) == [False, True]
    sessions.close()
    assert one.closed
