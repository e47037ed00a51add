"""Cells of the settings' axis: what is set, for whom and when, while a driver is killed or rests at a failpoint."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import psycopg2

from relaybox.consumer import Consumer
from relaybox.monitoring.metrics import read_store_metrics
from relaybox.monitoring.status import read_status
from relaybox.retention.segments import read_retention
from relaybox.verification.route_verification import verify_route
from tests.faults.cell_run import BATCH_ROWS, CellResult, Injection, run_cell
from tests.faults.faults import Fault, Scene
from tests.faults.settings import AT_ONCE, DECISIVE, HARMLESS, PRESET, Setting, set_for_database, set_for_role, set_for_servers
from tests.faults.sites import STORES, Clusters, SetUp, Site, administer
from tests.faults.stores import UNDISTURBED

CONDITIONS = {
    "init": "the role's in every store, before `relaybox init`",
    "source": "the database's where the hop begins",
    "destination": "the database's where the hop ends",
    "midway": "the servers' and the role's in every store, from a failpoint on, for sessions that run and for later ones",
}
"""Where a setting is in force, and since when: always to the end of the cell."""

KINDS = {"init": "processed", "source": "outbox", "destination": "processed", "midway": "outbox"}
"""What the hop under test reads; with `processed` consumers fetch and acknowledge, too."""

FAILPOINTS = {
    "outbox": (
        *("plan.committed", "slice.begin", "slice.accepted", "publish.begin"),
        *("publish.committed", "deliver.committing", "confirm.begin", "confirm.committed"),
    ),
    "processed": ("processed.read", "processed.committing", "settle.begin", "settle.committing"),
}
"""Cells take these in turn."""


@dataclass(frozen=True)
class SettingCell:
    """A setting under a condition, and the failpoint at which the driver is killed, or rests while it is made."""

    setting: Setting
    condition: str
    failpoint: str

    def __str__(self) -> str:
        return f"{self.setting}-{self.condition}"


def all_setting_cells() -> Iterator[SettingCell]:
    yield from together()
    yield from _cells(DECISIVE, tuple(CONDITIONS))
    yield from _cells(HARMLESS, ("init", "midway"))


def together() -> Iterator[SettingCell]:
    """All settings at once, under each condition."""
    return _cells([AT_ONCE], tuple(CONDITIONS))


def _cells(settings: Sequence[Setting], conditions: Sequence[str]) -> Iterator[SettingCell]:
    for number, setting in enumerate(settings):
        for condition in conditions:
            turns = FAILPOINTS[KINDS[condition]]
            yield SettingCell(setting, condition, turns[number % len(turns)])


def run_setting_cell(
    cell: SettingCell, sides: Clusters, directory: Path, *, batch_rows: int = BATCH_ROWS, seed: int = 1
) -> CellResult:
    """Runs the workload through it. Nothing of the settings is left at the clusters."""
    preset(sides)
    set_up = None
    if cell.condition == "midway":
        injection = inject_midway(cell)
    else:
        injection, set_up = Injection(cell.failpoint, "kill_driver"), _SET_UPS[cell.condition]([cell.setting])
    kind = KINDS[cell.condition]
    return run_cell(
        *(str(cell), [injection], sides, directory),
        kind=kind,
        batch_rows=batch_rows,
        seed=seed,
        set_up=set_up,
        examine=_reports_and_readers,
    )


def _reports_and_readers(site: Site) -> Iterator[str]:
    """What looks at the stores sees them as they are: verify, status, metrics, retention, a consumer in Python."""
    verification = verify_route(site.route)
    if verification.outcome != "delivered":
        yield f"verify says {verification.outcome}"
    status = read_status(site.routes)
    yield from (f"status says {error}" for hop in status.hops for error in hop.errors)
    if store_metrics := set(STORES) - read_store_metrics(site.routes).keys():
        yield f"no store_metrics of {store_metrics}"
    for store in site.routes.stores.values():
        read_retention(store)
    yield from _wrongly_consumed(site)


def _wrongly_consumed(site: Site) -> Iterator[str]:
    store, hop = STORES[-1], site.route.hops[-1]
    with closing(psycopg2.connect(service=store, options=UNDISTURBED)) as session, session.cursor() as cursor:
        cursor.execute("select relaybox.subscribe('reader', 'flights')")
        cursor.execute("select message_id::text, payload, sent_at from relaybox.read_log(%s, 0, 1000000)", (hop.name,))
        sent = cursor.fetchall()
        session.commit()
    with Consumer(store, "reader", until_empty=True, commit_every=10) as consumer:
        consumed = [(str(message.message_id), message.payload, message.sent_at) for message in consumer]
    if consumed != sent:
        yield f"a consumer in Python got {len(consumed)} messages of {len(sent)}, or others"


def inject_midway(cell: SettingCell) -> Injection:
    """The setting is made while the driver rests at the failpoint. The clusters must be preset()."""
    return Injection(cell.failpoint, Fault("set", "pause", partial(_set_midway, cell)))


def preset(sides: Clusters) -> None:
    """Prepares the clusters for all settings. May be repeated."""
    for cluster in sides.clusters.values():
        if not administer(cluster, "select 1 from pg_tablespace where spcname = 'elsewhere'"):
            for statement in PRESET:
                administer(cluster, statement)


def _set_midway(cell: SettingCell, scene: Scene) -> None:
    for store in STORES:
        set_for_role(scene.site.cluster_of(store), scene.site.databases[store], [cell.setting])
    scene.site.undo.enter_context(set_for_servers(list(scene.site.sides.clusters.values()), [cell.setting]))
    scene.release()


def _in_every_store(settings: Sequence[Setting]) -> SetUp:
    def act(site: Site, store: str) -> None:
        set_for_role(site.cluster_of(store), site.databases[store], settings)

    return SetUp(before_init=act)


def _at(side: str, settings: Sequence[Setting]) -> SetUp:
    def act(site: Site, store: str) -> None:
        if site.databases[store] == site.database(side):
            set_for_database(site.cluster_of(store), site.databases[store], settings)

    return SetUp(after_init=act)


_SET_UPS = {"init": _in_every_store, "source": partial(_at, "source"), "destination": partial(_at, "destination")}
