"""A store whose server crashes while a table is adopted or its adoption ends: each row is sent once, in order."""

from __future__ import annotations

import itertools
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from relaybox.adoption import adopting
from relaybox.failpoints import ADOPT_FAILPOINTS
from relaybox.local.clusters import Cluster, write_service_file
from relaybox.stores.init.one_store import initialise_store
from tests.support.adoption import ROWS, make_numbered_table, numbers, prepare, problems, sent, work, write
from tests.support.memory import fast_temporary_directory
from tests.support.stores import make_cluster, start_cluster
from tests.support.world import World, routes_file, wait_until

pytestmark = pytest.mark.thorough

_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with fast_temporary_directory("adoption") as directory:
        made = make_cluster("airline", directory)
        start_cluster(made)
        try:
            yield made
        finally:
            made.remove()


@pytest.fixture
def world(cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """Of one store only, in a database of its own."""
    monkeypatch.setattr(adopting, "MOVED_ROWS", 100)
    write_service_file(tmp_path / "administration.conf", {"administration": cluster.parameters("postgres")})
    monkeypatch.setenv("PGSERVICEFILE", str(tmp_path / "administration.conf"))
    made = World(routes_file(tmp_path))
    name = f"adoption_{next(_numbers)}"
    made.query("administration", f"create database {name}")
    write_service_file(tmp_path / "services.conf", {"airline": cluster.parameters(name)})
    monkeypatch.setenv("PGSERVICEFILE", str(tmp_path / "services.conf"))
    initialise_store(made.routes.stores["airline"], made.routes)
    make_numbered_table(made)
    return made


@pytest.mark.parametrize("failpoint", ADOPT_FAILPOINTS)
def test_a_server_that_crashes_at_any_step_sends_each_row_once(
    cluster: Cluster, world: World, tmp_path: Path, failpoint: str
) -> None:
    """The command is stopped at the step, the server killed and started again. What was committed is there, the rest is not."""
    prepare(world, failpoint)
    child = os.fork()
    if child == 0:
        os.environ |= {
            "RELAYBOX_FAILPOINTS": f"{failpoint}=pause",
            "RELAYBOX_FAILPOINTS_DIRECTORY": str(tmp_path),
            "RELAYBOX_ENVIRONMENT": "test",
        }
        try:
            work(world, failpoint)
        finally:
            os._exit(1)
    wait_until((tmp_path / "hits.jsonl").exists, f"{failpoint} is reached")
    cluster.kill()
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    cluster.start()
    write(world, str(ROWS + 1))
    was_ended = world.value("airline", "select count(*) from relaybox_internal.adopted_table") == 0
    work(world, failpoint)
    write(world, str(ROWS + 2))
    last = ROWS + 2
    if failpoint.startswith("unadopt"):
        last = ROWS if was_ended else ROWS + 1
        assert was_ended == failpoint.endswith("committed")
    found = numbers(sent(world))
    assert (sorted(found) if failpoint.startswith("send") else found) == list(range(1, last + 1))
    assert problems(world) == []
