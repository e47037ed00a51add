"""docs/doctor.md: what `relaybox doctor` prints for a healthy store and for a spoiled one, as run here."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from relaybox.cli.terminal.doctor import show_reports
from relaybox.monitoring.doctor.checks import CHECKS
from relaybox.monitoring.doctor.examination import StoreReport, examine_stores
from relaybox.stores.init.one_store import initialise_store
from tests.support.cli import invoke
from tests.support.world import World, wait_until

PAGE = Path(__file__).resolve().parents[2] / "docs" / "doctor.md"
WRITER = "written by UPDATE_DOCS=1 pytest tests/integration/test_doctor_page.py"

MASKS = (
    (r"process \d+", "process 4711"),
    (r"pg_terminate_backend\(\d+\)", "pg_terminate_backend(4711)"),
    (r"\d+(\.\d+)? (bytes|KiB|MiB|GiB|TiB)", "9.5 MiB"),
    (r"\d+\.\d+ s (ahead of|behind)", "0.001 s ahead of"),
    (r"± \d+\.\d+ s", "± 0.001 s"),
    (r"^Postgres \d.*", "Postgres 18.1."),
    (r"Cluster \d+, timeline \d+", "Cluster 7575757575757575757, timeline 1"),
    (r"\d+ of \d+ connections", "7 of 97 connections"),
    (r"has \d+ tables and indexes, \d+ of", "has 140 tables and indexes, 8 of"),
    (r"room for [\d,]+ locks", "room for 6,400 locks"),
    (r"is [\d,]+ transactions old", "is 751 transactions old"),
    (r"(open|prepared) for \d+ (s|min)", r"\1 for 42 min"),
    (r"more than 0 s", "more than 5 min"),
    (r"schema is version \d+", "schema is version NN"),
    (r"those of Relaybox \S+(?=\.$)", "those of Relaybox 0.1.0"),
    (r"(hstore|plpgsql) \d+\.\d+", r"\1 1.0"),
    (r"has [\d,]+ dead rows", "has 20,001 dead rows"),
    (r"test_\d+_\d+", "hub"),
)
"""What is another one in each run -> what the page has instead."""

SPOILINGS = (
    "alter table relaybox_internal.outbox_s000000 set (autovacuum_enabled = false)",
    "create extension hstore schema relaybox",
    "create function public.check_payload() returns trigger language plpgsql as $$ begin return new; end $$",
    "create trigger check_payload before insert on relaybox.outbox for each row execute function public.check_payload()",
    "alter role app_owner in database {database} set statement_timeout = '30s'",
)


@pytest.fixture
def store(owned: World) -> World:
    """The store `hub`, of an owner that is no superuser and has the right that doctor asks for."""
    owned.query("administer_hub", "grant pg_read_all_stats to app_owner")
    initialise_store(owned.routes.store("hub"), owned.routes, segment_rows=100_000)
    return owned


def test_the_page_has_the_answer_for_a_healthy_store(store: World, capsys: pytest.CaptureFixture[str]) -> None:
    assert invoke("doctor", "hub").exit_code == 0
    _compare("healthy", _printed(_examined(store), capsys, with_ok=True))


def test_the_page_has_the_answer_for_a_spoiled_store(store: World, capsys: pytest.CaptureFixture[str]) -> None:
    """What the page shows is what the command printed, but for the masks."""
    with _spoiled(store):
        code = invoke("doctor", "hub", "--open-seconds", "0").exit_code
        report = _examined(store)
    assert code == 3
    _compare("spoiled", _printed(report, capsys, with_ok=False))


def test_the_page_names_every_check() -> None:
    table = PAGE.read_text(encoding="utf-8").partition("## Checks")[2]
    named = re.findall(r"^\| `(\w+)` \|", table, flags=re.MULTILINE)
    assert named == [*CHECKS, "store_clocks", "connection"]


def test_the_order_of_repairs_has_every_check_once() -> None:
    table = PAGE.read_text(encoding="utf-8").partition("## Which result to repair first")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| \d\. [^|]+ \| ([^|]+) \|", table, flags=re.MULTILINE)
    assert sorted(re.findall(r"`(\w+)`", "".join(rows))) == sorted([*CHECKS, "store_clocks", "connection"])


@contextmanager
def _spoiled(store: World) -> Iterator[None]:
    """Dead rows, an open and a prepared transaction, an unused slot, and what SPOILINGS has."""
    database = store.value("hub", "select current_database()")
    for statement in SPOILINGS:
        store.query("hub", statement.replace("{database}", database))
    with store.session("hub") as session, session.cursor() as cursor:
        cursor.execute(
            "insert into relaybox.outbox (topic, sender, payload) select 'flights', 'UA', 'x' from generate_series(1, 20001)"
        )
        session.rollback()
    wait_until(
        lambda: store.value("hub", "select pg_stat_get_dead_tuples('relaybox_internal.outbox_s000000'::regclass)") > 20_000,
        "the statistics have the dead rows",
    )
    store.query("administer_hub", f"select pg_create_physical_replication_slot('slot_of_{database}', true)")
    with store.session("hub") as session, store.session("hub", autocommit=True) as forgotten:
        with session.cursor() as cursor:
            cursor.execute("select pg_current_xact_id()")
            cursor.execute(f"prepare transaction 'payment_of_{database}'")
        with forgotten.cursor() as cursor:
            cursor.execute("set application_name = 'nightly report'")
            cursor.execute("begin")
        try:
            yield
        finally:
            with forgotten.cursor() as cursor:
                cursor.execute("rollback")
                cursor.execute(f"rollback prepared 'payment_of_{database}'")
            store.query("administer_hub", f"select pg_drop_replication_slot('slot_of_{database}')")


def _examined(store: World) -> StoreReport:
    """The report, with MASKS."""
    (report,) = examine_stores([store.routes.store("hub")], store.routes, open_seconds=0)
    return replace(
        report, results=tuple(replace(one, what=_mask(one.what), next_step=_mask(one.next_step)) for one in report.results)
    )


def _mask(text: str) -> str:
    for pattern, instead in MASKS:
        text = re.sub(pattern, instead, text)
    return text


def _printed(report: StoreReport, capsys: pytest.CaptureFixture[str], *, with_ok: bool) -> str:
    capsys.readouterr()
    show_reports([report], with_ok=with_ok)
    return "\n".join(line.rstrip() for line in capsys.readouterr().out.splitlines())


def _compare(name: str, printed: str) -> None:
    begin, end = f"<!-- {name}: {WRITER} -->\n", f"<!-- end of {name} -->\n"
    text = PAGE.read_text(encoding="utf-8")
    shown = text[text.index(begin) + len(begin) : text.index(end)]
    if os.environ.get("UPDATE_DOCS"):
        PAGE.write_text(text.replace(begin + shown, f"{begin}\n```\n{printed}\n```\n\n"), encoding="utf-8")
        return
    assert shown.strip().strip("`").strip() == printed.strip()
