"""What can happen to a driver at a failpoint: one small function for each fault, which injects it and heals again."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import psycopg2

from tests.faults.drivers import AttemptOwner, Outcome
from tests.faults.sites import Site
from tests.support.world import wait_until

STREAM_BYTES = 1500
"""A stream breaks after this number of bytes: in the middle of a COPY of the smallest batches."""


@dataclass(frozen=True)
class Scene:
    """What a fault finds: the driver has just reached the failpoint, and waits there if the fault asked for it."""

    site: Site
    driver: AttemptOwner
    failpoint: str
    take_over: Callable[[], Outcome]
    """Another driver carries out the same mission, to its end."""

    def release(self) -> None:
        self.driver.release(self.failpoint)


@dataclass(frozen=True)
class Fault:
    """`action` is what the failpoint does when it is reached; then `inject` runs, and leaves nothing broken.

    `may_stop`: the driver may end with an error that no retry repairs, since somebody has to give back what was taken.
    """

    name: str
    action: str
    inject: Callable[[Scene], None]
    may_stop: bool = False


def nothing_more(_: Scene) -> None:
    """The action at the failpoint is the whole fault."""


def crash_cluster(side: str, scene: Scene) -> None:
    """All of a cluster is killed, and stays down until the driver has ended."""
    cluster = scene.site.sides.clusters[side]
    cluster.kill()
    scene.release()
    scene.driver.outcome()
    cluster.start()


def restart_cluster(side: str, scene: Scene) -> None:
    """All of a cluster is killed, and is back before the driver looks again."""
    cluster = scene.site.sides.clusters[side]
    cluster.kill()
    cluster.start()
    scene.release()


def reset_connections(side: str, scene: Scene) -> None:
    """Every connection of the driver to one side is reset."""
    scene.site.sides.proxies[side].reset()
    scene.release()


def break_stream(side: str, scene: Scene) -> None:
    """The connections to one side are reset some bytes later."""
    proxy = scene.site.sides.proxies[side]
    proxy.reset_after(STREAM_BYTES)
    scene.release()
    wait_until(proxy.has_reset.is_set, f"{STREAM_BYTES} more bytes pass on the side of the {side}")


def swallow_packets(side: str, scene: Scene) -> None:
    """Nothing passes any more; the driver is given up, another one does the work; then the old one hears again."""
    proxy = scene.site.sides.proxies[side]
    proxy.black_hole()
    scene.release()
    scene.take_over()
    proxy.heal()


def swallow_answers(side: str, scene: Scene) -> None:
    """The server still does what the driver says, and the driver never hears of it until later."""
    proxy = scene.site.sides.proxies[side]
    proxy.black_hole("to_client")
    scene.release()
    scene.take_over()
    proxy.heal()


def cut_commit(side: str, scene: Scene) -> None:
    """The COMMIT is done, and its answer never arrives."""
    proxy = scene.site.sides.proxies[side]
    proxy.cut_next_commit()
    scene.release()
    wait_until(proxy.commit_was_cut.is_set, f"a COMMIT at the {side} is cut")


def wake_as_zombie(scene: Scene) -> None:
    """The driver is frozen while another one does the work; then it continues as if nothing had happened."""
    scene.driver.wait_until_stopped()
    scene.take_over()
    scene.driver.signal(signal.SIGCONT)


def run_twice(scene: Scene) -> None:
    """A second driver runs to its end while the first one waits, its sessions open."""
    scene.take_over()
    scene.release()


def terminate_backends(side: str, scene: Scene) -> None:
    """An administrator ends the driver's sessions at one side."""
    ended = scene.site.administer(side, f"select pg_terminate_backend(pid, 5000) {_OF_THE_DRIVER}", scene.site.database(side))
    assert ended, f"the driver has no session at the {side}"
    scene.release()


def cancel_statement(side: str, table: str, scene: Scene) -> None:
    """The driver's next statement is cancelled while it waits for a lock on `table`."""
    site = scene.site
    with _locked(site, side, table):
        scene.release()
        waiting = f"select pg_cancel_backend(pid) {_OF_THE_DRIVER} and wait_event_type = 'Lock'"
        wait_until(lambda: bool(site.administer(side, waiting, site.database(side))), f"the driver waits for {table}")


def cancel_copy(scene: Scene) -> None:
    """The COPY that runs at the destination is cancelled; the source's has ended long ago when it has few rows."""
    running = f"select pg_cancel_backend(pid) {_OF_THE_DRIVER} and state = 'active' and query ilike 'copy%%'"
    assert scene.site.administer("destination", running, scene.site.database("destination")), "no COPY runs at the destination"
    scene.release()


_OF_THE_DRIVER = "from pg_stat_activity where datname = %s and application_name like 'relaybox %%'"


@contextmanager
def _locked(site: Site, side: str, table: str) -> Iterator[None]:
    parameters = site.sides.clusters[side].parameters(site.database(side))
    with closing(psycopg2.connect(**parameters)) as connection, connection.cursor() as cursor:
        schema = "relaybox" if table == "outbox" else "relaybox_internal"
        cursor.execute(f"lock table {schema}.{table} in access exclusive mode")
        yield
        connection.rollback()


def _both_sides(name: str, inject: Callable[[str, Scene], None]) -> Iterator[Fault]:
    for side in ("source", "destination"):
        yield Fault(f"{name}_{side}", "pause", partial(inject, side))


def _faults() -> Iterator[Fault]:
    yield Fault("kill_driver", "kill", nothing_more)
    yield Fault("zombie", "stop", wake_as_zombie)
    yield Fault("duplicate", "pause", run_twice)
    for sqlstate in ("40001", "40P01", "53100", "57P01"):
        yield Fault(f"raise_{sqlstate}", f"raise {sqlstate}", nothing_more)
    for name, inject in _AT_A_SIDE.items():
        yield from _both_sides(name, inject)
    yield Fault("cancel_copy_destination", "pause", cancel_copy)
    for side, table in _CANCELLED:
        yield Fault(f"cancel_{side}_{table}", "pause", partial(cancel_statement, side, table))


_AT_A_SIDE: dict[str, Callable[[str, Scene], Any]] = {
    "crash": crash_cluster,
    "restart": restart_cluster,
    "reset": reset_connections,
    "break_stream": break_stream,
    "black_hole": swallow_packets,
    "deaf": swallow_answers,
    "cut_commit": cut_commit,
    "terminate": terminate_backends,
}

_CANCELLED = (
    ("source", "hop_out"),
    ("source", "batch"),
    ("source", "confirmation"),
    ("source", "outbox"),
    ("destination", "hop_in"),
    ("destination", "receipt"),
    ("destination", "outbox"),
    ("destination", "derivation"),
    ("destination", "derivation_attempt"),
)

FAULTS = {fault.name: fault for fault in _faults()}
