"""Adopting a table, moving its backlog and ending the adoption, killed at each step: each row is sent once, in order."""

from __future__ import annotations

from pathlib import Path

import psycopg2
import pytest

from relaybox import errors
from relaybox.adoption import adopting
from relaybox.failpoints import ADOPT_FAILPOINTS
from tests.support.adoption import MAPPED, ROWS, adopt, make_numbered_table, numbers, prepare, problems, sent, work, write
from tests.support.killed_child import kill_at
from tests.support.world import World


@pytest.fixture
def table(world: World, monkeypatch: pytest.MonkeyPatch) -> World:
    """A table of 250 rows, ordered by a number, of which one batch is 100."""
    monkeypatch.setattr(adopting, "MOVED_ROWS", 100)
    make_numbered_table(world)
    return world


@pytest.mark.parametrize("failpoint", ADOPT_FAILPOINTS)
def test_g1_an_adoption_that_is_killed_at_any_step_sends_each_row_once(table: World, tmp_path: Path, failpoint: str) -> None:
    """G1, G3, G5. The application inserts a row before the command, after its death, and after the command was run again."""
    assert failpoint in ADOPT_FAILPOINTS
    prepare(table, failpoint)
    kill_at(failpoint, tmp_path, lambda: work(table, failpoint))
    write(table, str(ROWS + 1))
    was_ended = table.value("airline", "select count(*) from relaybox_internal.adopted_table") == 0
    work(table, failpoint)
    write(table, str(ROWS + 2))
    last = ROWS + 2
    if failpoint.startswith("unadopt"):  # the row after the death was sent if the adoption was still there
        last = ROWS if was_ended else ROWS + 1
        assert was_ended == failpoint.endswith("committed")
    assert sorted(numbers(sent(table))) == list(range(1, last + 1))
    if not failpoint.startswith("send"):  # what was set aside comes behind what was sent meanwhile
        assert numbers(sent(table)) == list(range(1, last + 1))
    assert problems(table) == []


@pytest.mark.parametrize("failpoint", [one for one in ADOPT_FAILPOINTS if not one.endswith((".committed", ".begin"))])
def test_a_step_that_the_server_refuses_is_rolled_back_whole(
    table: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failpoint: str
) -> None:
    """The command fails aloud; run again it does all that is left, once."""
    prepare(table, failpoint)
    with monkeypatch.context() as armed:
        for name, value in {
            "FAILPOINTS": f"{failpoint}=raise 40001",
            "FAILPOINTS_DIRECTORY": str(tmp_path),
            "ENVIRONMENT": "test",
        }.items():
            armed.setenv(f"RELAYBOX_{name}", value)
        with pytest.raises(errors.Transient):
            work(table, failpoint)
    work(table, failpoint)
    assert sorted(numbers(sent(table))) == list(range(1, ROWS + 1))


def test_a_lost_server_leaves_no_half_of_a_step(table: World) -> None:
    """The session of the command is ended in the middle of its backlog, by an administrator: what is moved is moved."""
    killed = []

    def end_session(moved: int, _total: int) -> None:
        if moved == 100 and not killed:
            killed.append(moved)
            table.query(
                "airline",
                "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'relaybox adopt' "
                "and datname = current_database()",
            )

    with pytest.raises((errors.RelayboxError, psycopg2.Error)):
        adopt(table, mapped=MAPPED, with_backlog=True, progress=end_session)
    assert numbers(sent(table)) == list(range(1, 101))
    write(table, str(ROWS + 1))
    adopt(table)
    assert numbers(sent(table)) == list(range(1, ROWS + 2))
