"""Cells of the logins' axis: the driver's password, or one of its rights, changes while the driver rests at a failpoint.

The driver under test has a login of its own in every store, a member of relaybox_driver and nothing else. What was taken is given
back when the driver has ended; then a driver of the same login goes on, and the one that recovers is the administrator's as always.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import psycopg2

from relaybox.local.clusters import write_service_file
from tests.faults.cell_run import BATCH_ROWS, CellResult, Injection, run_cell
from tests.faults.cells import OF_ONE_KIND, STEPS, is_first_meeting, killed_before, repair
from tests.faults.drivers import Outcome, driver
from tests.faults.faults import Fault, Scene
from tests.faults.sites import LAYOUTS, STORES, Clusters, SetUp, Site
from tests.support.patience import Deadline

RECOVERY_SECONDS = 60.0

RIGHTS: Mapping[str, str] = {
    "connect": "connect on database {database}",
    "internal_schema": "usage on schema relaybox_internal",
    "outbox": "select on relaybox.outbox",
    "ledger_of_hops_out": "select, update on relaybox_internal.hop_out",
    "ledger_of_hops_in": "select, update on relaybox_internal.hop_in",
    "batches": "select, insert on relaybox_internal.batch",
    "log": "insert on relaybox_internal.log_1",
    "receipts": "insert on relaybox_internal.receipt",
    "arrivals": "insert on relaybox_internal.arrival",
    "confirmations": "insert on relaybox_internal.confirmation",
    "outbox_segments": "execute on function relaybox_internal.ensure_outbox_segments(integer)",
    "outbox_seal": "execute on function relaybox_internal.seal_outbox_segments(bigint, text[])",
    "log_segments": "execute on function relaybox_internal.ensure_log_segments(integer, bigint)",
}
"""A right of relaybox_driver, as GRANT and REVOKE name it. It is taken in every store of the route that has it, also from public."""

PASSWORDS = ("rotated", "rotated_late", "rotated_and_ended", "expired", "locked_out")
"""What happens to the login itself; see _change_password()."""

STRUCK = tuple(
    failpoint
    for failpoint in STEPS
    if failpoint not in OF_ONE_KIND and not repair(failpoint) and not killed_before(failpoint) and not is_first_meeting(failpoint)
)
"""Steps that each transfer of an outbox takes. A repair needs the owner's login."""


@dataclass(frozen=True)
class LoginCell:
    """What is taken (of PASSWORDS, or of RIGHTS), and the failpoint at which the driver rests meanwhile."""

    what: str
    failpoint: str

    def __str__(self) -> str:
        return f"{self.failpoint}-{self.what}"


def all_login_cells() -> Iterator[LoginCell]:
    """Each change of a login at each step; each right at every fourth one, so that each step meets three of them."""
    yield from (LoginCell(what, failpoint) for failpoint in STRUCK for what in PASSWORDS)
    for number, failpoint in enumerate(STRUCK):
        yield from (LoginCell(right, failpoint) for place, right in enumerate(RIGHTS) if place % 4 == number % 4)


def run_login_cell(
    cell: LoginCell, sides: Clusters, directory: Path, *, batch_rows: int = BATCH_ROWS, seed: int = 1
) -> CellResult:
    """Runs the workload through it. The login is dropped with the site's databases."""
    fault = Fault(cell.what, "pause", partial(_take_and_give_back, cell.what), may_stop=True)
    return run_cell(
        *(str(cell), [Injection(cell.failpoint, fault)], sides, directory),
        kind="outbox",
        batch_rows=batch_rows,
        seed=seed,
        set_up=SetUp(after_init=_make_login),
    )


def _login(site: Site) -> str:
    return f"driver_of_{site.databases[STORES[0]]}"


def _make_login(site: Site, store: str) -> None:
    """Makes the login in the cluster of the first store there; when all stores have it, drivers through the proxies log in with it."""
    side = LAYOUTS[site.kind][store]
    if store == _first_at(site, side):
        site.administer(side, f"create role {_login(site)} login password 'first' in role relaybox_driver")
        site.undo.callback(site.administer, side, f"drop role {_login(site)}")
    if store == STORES[-1]:
        _write_file(site, "first")


def _first_at(site: Site, side: str) -> str:
    return next(store for store in STORES if LAYOUTS[site.kind][store] == side)


def _write_file(site: Site, password: str) -> None:
    """The service file of drivers that go through the proxies."""
    services = {}
    for store in STORES:
        side = LAYOUTS[site.kind][store]
        services[store] = {
            **site.sides.clusters[side].parameters(site.databases[store]),
            "port": str(site.sides.proxies[side].port),
            "user": _login(site),
            "password": password,
        }
    write_service_file(site.proxied_services_file, services)


def _take_and_give_back(what: str, scene: Scene) -> None:
    """Takes it, lets the driver run to its end, gives it back, and has the same login finish the work."""
    give_back = _revoke(what, scene.site) if what in RIGHTS else _change_password(what, scene.site)
    scene.release()
    scene.driver.outcome()
    give_back()
    deadline = Deadline(RECOVERY_SECONDS)
    while (outcome := _drive_with_login(scene.site)).error:
        assert outcome.is_transient, f"with all rights given back, the login gave up for good: {outcome.error}"
        assert not deadline.is_over(), f"not within {deadline}: {outcome.error}"


def _drive_with_login(site: Site) -> Outcome:
    """In a process of its own: the login is that of the service file, which this process does not read."""
    with driver(site.mission(site.hop.name, proxied=True), "", site.directory / "driver_after") as target:
        outcome = target.outcome()
    assert outcome, "the driver died of an error that is none of ours"
    return outcome


def _change_password(what: str, site: Site) -> Callable[[], None]:
    """Returns what makes the login of the service file right again.

    rotated: the file has the new password at once. rotated_late: when the driver has ended. rotated_and_ended: at once, and the
    driver's sessions are ended. expired, locked_out: sessions are ended, and no password is right until it is prolonged.
    """
    if what.startswith("rotated"):
        _alter(site, "password 'second'")
        if what != "rotated_late":
            _write_file(site, "second")
        if what == "rotated_and_ended":
            _end_sessions(site)
        return partial(_write_file, site, "second")
    _alter(site, "valid until '2001-01-01'" if what == "expired" else "nologin")
    _end_sessions(site)
    return partial(_alter, site, "valid until 'infinity'" if what == "expired" else "login")


def _alter(site: Site, how: str) -> None:
    for side in site.sides.clusters:
        site.administer(side, f"alter role {_login(site)} {how}")


def _end_sessions(site: Site) -> None:
    for side in site.sides.clusters:
        site.administer(side, "select pg_terminate_backend(pid, 5000) from pg_stat_activity where usename = %s", _login(site))


def _revoke(right: str, site: Site) -> Callable[[], None]:
    """Takes a right of relaybox_driver in every store of the route; a store that has no such object is passed over."""
    taken = [store for store in STORES if _execute(site, store, f"revoke {RIGHTS[right]} from relaybox_driver, public")]
    assert taken, f"no store has {RIGHTS[right]}"

    def give_back() -> None:
        for store in taken:
            _execute(site, store, f"grant {RIGHTS[right]} to relaybox_driver")

    return give_back


def _execute(site: Site, store: str, statement: str) -> bool:
    parameters = site.cluster_of(store).parameters(site.databases[store])
    with closing(psycopg2.connect(**parameters)) as connection, connection.cursor() as cursor:
        try:
            cursor.execute(statement.format(database=site.databases[store]))
        except psycopg2.errors.UndefinedTable:
            return False
        connection.commit()
    return True
