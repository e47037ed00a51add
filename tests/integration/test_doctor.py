"""`relaybox doctor` on real stores: healthy ones, spoiled ones, and one that does not answer."""

from __future__ import annotations

import json
import os
import signal
from typing import Any

from relaybox.monitoring.doctor.check import CheckSeverity
from relaybox.monitoring.doctor.checks import CHECKS
from relaybox.monitoring.doctor.clocks import ClockReading, compare_clocks
from relaybox.monitoring.doctor.disk import classify_disk
from relaybox.monitoring.doctor.vacuum import classify_age
from tests.support.cli import invoke
from tests.support.world import World


def examine(*arguments: str) -> tuple[int, dict[str, dict[str, list[Any]]]]:
    """The exit code, and by store and check the results."""
    run = invoke("doctor", *arguments, "--json")
    stores: dict[str, dict[str, list[Any]]] = {}
    for store in json.loads(run.stdout)["stores"]:
        for result in store["results"]:
            stores.setdefault(store["store"], {}).setdefault(result["check"], []).append(result)
    return run.exit_code, stores


def test_healthy_stores_have_no_error_and_every_check_has_a_result(world: World) -> None:
    """The exit code is that of the worst severity, and no check fails itself."""
    code, stores = examine()
    assert code in {0, 3}
    for checks in stores.values():
        assert set(CHECKS) <= set(checks)
        errors = [one for results in checks.values() for one in results if one["severity"] == "error"]
        assert not errors
    assert "store_clocks" in stores["hub"]
    assert "ok" in invoke("doctor", "hub", "--all").stdout


def test_each_spoiled_thing_is_found_with_what_corrects_it(world: World) -> None:
    """Spoils one thing after another in one database, and reads the results once."""
    name = world.value("hub", "select quote_ident(current_database())")
    for statement in (
        f"alter database {name} set statement_timeout = '7s'",
        f"alter database {name} set synchronous_commit = off",
        f"alter database {name} connection limit 1",
        "alter table relaybox_internal.hop_in set (autovacuum_enabled = false)",
        "create function public.nothing() returns trigger language plpgsql as $$ begin return new; end $$",
        "create trigger foreign_trigger before insert on relaybox.outbox for each row execute function public.nothing()",
        "create rule foreign_rule as on delete to relaybox_internal.hop_out do also select 1",
        "create policy foreign_policy on relaybox_internal.hop_in using (true)",
        "create table public.child (log_id integer references relaybox_internal.hop_in (log_id))",
        "update relaybox_internal.store set store = 'another'",
        "update relaybox_internal.hop_in set hop = 'other/1' where hop = 'flights/1'",
        "delete from relaybox.migration where number = (select max(number) from relaybox.migration)",
    ):
        world.query("hub", statement)
    with world.session("hub") as forgotten, forgotten.cursor() as cursor:
        cursor.execute("begin")
        cursor.execute("select 1")
        prepared = forgotten.xid(1, "doctor", name)
        with world.session("hub") as other:
            other.tpc_begin(prepared)
            other.cursor().execute("select pg_current_xact_id()")
            other.tpc_prepare()
        try:
            code, stores = examine("hub", "--open-seconds", "0")
        finally:
            with world.session("hub") as other:
                other.tpc_rollback(prepared)
    found = stores["hub"]
    said = {check: " ".join(f"{one['what']} {one['next_step']}" for one in results) for check, results in found.items()}
    assert code == 1
    for check, severity, part in (
        ("settings", "notice", f"alter database {name} reset statement_timeout"),
        ("durability", "warning", f"alter database {name} set synchronous_commit = on"),
        ("connections", "warning", f"alter database {name} connection limit"),
        ("autovacuum", "warning", "alter table relaybox_internal.hop_in reset (autovacuum_enabled)"),
        ("foreign_objects", "warning", "drop trigger foreign_trigger on relaybox.outbox"),
        ("foreign_objects", "warning", "drop rule foreign_rule on relaybox_internal.hop_out"),
        ("foreign_objects", "warning", "drop policy foreign_policy on relaybox_internal.hop_in"),
        ("foreign_objects", "warning", "alter table public.child drop constraint"),
        ("open_transactions", "warning", "select pg_terminate_backend("),
        ("prepared_transactions", "warning", "rollback prepared"),
        ("store_name", "error", "is store another"),
        ("hops", "error", "flights/1 in"),
        ("schema", "error", "relaybox init"),
    ):
        assert part in said[check], (check, said[check])
        assert severity in {one["severity"] for one in found[check]}, check


def test_a_store_that_hangs_keeps_no_other_one_waiting(world: World) -> None:
    """A postmaster that is stopped accepts a connection and answers nothing."""
    hub = int(world.value("hub", "select setting from pg_settings where name = 'port'"))
    with world.session("hub") as session:
        with session.cursor() as cursor:
            cursor.execute("select pg_read_file('postmaster.pid')")
            postmaster = int(cursor.fetchone()[0].split()[0])
        os.kill(postmaster, signal.SIGSTOP)
        try:
            code, stores = examine("--seconds", "3")
        finally:
            os.kill(postmaster, signal.SIGCONT)
    assert code == 1
    assert hub
    assert list(stores["hub"]) == ["connection"]
    assert set(CHECKS) <= set(stores["airline"])


def test_clocks_disk_and_age_are_judged_by_their_numbers(world: World) -> None:
    """What no test can bring about in a server: decisions without a server."""
    apart = dict(compare_clocks(world.routes, {"airline": ClockReading(0.0, 0.1), "hub": ClockReading(5.0, 0.1)}))
    assert apart["hub"].severity is CheckSeverity.WARNING
    near = dict(compare_clocks(world.routes, {"airline": ClockReading(0.0, 0.1), "hub": ClockReading(1.1, 0.1)}))
    assert near["hub"].severity is CheckSeverity.OK
    for free, severity in ((50, "ok"), (9, "warning"), (2, "error")):
        assert classify_disk("x", free=free, total=100).severity == severity
    for age, severity in ((10**6, "ok"), (10**9, "warning"), (19 * 10**8, "error")):
        assert classify_age(age).severity == severity
