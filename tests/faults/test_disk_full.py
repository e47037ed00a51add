"""A full disk at the destination delays a batch and loses nothing (of data, or of WAL, which takes the server down)."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import psycopg2
import pytest

from tests.faults.cell_run import Injection, run_cell
from tests.faults.faults import FAULTS, Fault, Scene
from tests.faults.sites import Clusters, running_clusters

DISK_MEBIBYTES = 260


@pytest.fixture(scope="module")
def small_sides() -> Iterator[Clusters]:
    """The usual clusters, but all that `destination` has is a small disk of its own."""
    directory = Path(tempfile.mkdtemp(prefix="relaybox-disk-full-"))
    directory.chmod(0o711)  # the servers' account passes through
    disk = directory / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_MEBIBYTES}m", "tmpfs", disk], check=True)
    (disk / "data").mkdir()
    (directory / "destination").symlink_to(disk / "data")
    try:
        with running_clusters(directory, segment_rows=100) as sides:
            yield sides
    finally:
        subprocess.run(["umount", "--lazy", disk], check=True)
        shutil.rmtree(directory)


def fill_data(scene: Scene, ballast: Path) -> None:
    """No table can grow by a page any more, until the driver has given up."""
    occupy(ballast)
    scene.release()
    scene.driver.outcome()
    ballast.unlink()


def fill_wal(scene: Scene, ballast: Path) -> None:
    """The server goes down for want of a WAL segment, and is started by hand once there is room."""
    cluster = scene.site.sides.clusters["destination"]
    occupy(ballast)
    with (
        closing(psycopg2.connect(**cluster.parameters())) as connection,
        pytest.raises(psycopg2.Error),
        connection.cursor() as cursor,
    ):
        for _ in range(DISK_MEBIBYTES):  # the server has fewer WAL segments in stock
            cursor.execute("select pg_logical_emit_message(false, 'ballast', repeat('x', 1048576))")
            connection.commit()
    scene.release()
    scene.driver.outcome()
    ballast.unlink()
    cluster.kill()
    cluster.start()


def occupy(ballast: Path) -> None:
    """Takes all the room there is on the disk of a file."""
    with ballast.open("wb", buffering=0) as file, pytest.raises(OSError, match="No space left"):
        while True:
            file.write(b"\0" * 4096)


@pytest.mark.parametrize("failpoint", ["slice.connected", "publish.begin"])
@pytest.mark.parametrize("fill", [fill_data, fill_wal])
def test_a_full_disk_loses_nothing(
    failpoint: str, fill: Callable[..., None], small_sides: Clusters, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver gives up in a way that a retry repairs; with room again everything arrives, once."""
    ballast = small_sides.clusters["destination"].directory.resolve() / "ballast"
    monkeypatch.setitem(FAULTS, "disk_full", Fault("disk_full", "pause", partial(fill, ballast=ballast)))
    name = f"{failpoint}-{fill.__name__}"
    result = run_cell(name, [Injection(failpoint, "disk_full")], small_sides, tmp_path / "cell", kind="outbox")
    assert result.is_good, [*result.problems, *map(str, result.violations), *result.errors]
    assert result.hits == 1
    assert (fill is fill_data) or result.errors, "the server stayed up"
