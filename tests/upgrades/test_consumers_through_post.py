"""A Python consumer on an engine of the application goes on through a `post` migration: init can't see its sessions."""

from __future__ import annotations

import logging
import re
import shutil
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import psycopg2
import pytest
import sqlalchemy
from sqlalchemy.pool import NullPool

from relaybox import errors
from relaybox.consumer import Consumer
from relaybox.stores.init.one_store import initialise_store
from relaybox.stores.schema import migrations
from tests.support.patience import patience
from tests.support.world import World, wait_until

pytestmark = pytest.mark.thorough

APPLICATION = "billing-service"
PAUSE = 4711
RENAMED = ("failed_attempt", "refused_attempt")
POST = f"""-- post: a table has another name
set local lock_timeout = 0;
select pg_advisory_xact_lock({PAUSE});
alter table relaybox_internal.{RENAMED[0]} rename to {RENAMED[1]};
"""


@pytest.fixture
def next_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """`sql/` of a made-up version: a table that `fetch` and `ack` read has another name in all of it."""
    directory = tmp_path / "next" / "sql"
    shutil.copytree(migrations.sql_directory(), directory)
    for path in [*(directory / "functions").rglob("*.sql"), *(directory / "views").glob("*.sql")]:
        path.write_text(re.sub(rf"\b{RENAMED[0]}\b", RENAMED[1], path.read_text()))
    for path in (directory / "tables").glob("*.sql"):
        path.write_text(re.sub(rf"\brelaybox_internal\.{RENAMED[0]}\b", f"relaybox_internal.{RENAMED[1]}", path.read_text()))
    (directory / "migrations" / "0990_renamed.sql").write_text(POST)
    return directory


@pytest.fixture
def consumed(world: World) -> World:
    """Two messages wait for a subscription."""
    world.query("hub", "create table public.work (payload text)")
    world.query("hub", "select relaybox.subscribe('billing', 'flights')")
    world.send("a", "b")
    world.transfer()
    return world


@contextmanager
def application_engine() -> Iterator[sqlalchemy.Engine]:
    """Sessions as an application opens them: nothing says that they are a consumer's."""

    def create() -> object:
        return psycopg2.connect(service="hub", application_name=APPLICATION)

    engine = sqlalchemy.create_engine("postgresql+psycopg2://", creator=create, poolclass=NullPool)
    yield engine
    engine.dispose()


def waits(world: World, *, for_: str) -> bool:
    query = """
        select exists (select from pg_locks l join pg_stat_activity a using (pid) where not l.granted and l.locktype = %s
            and a.datname = current_database() and (l.locktype = 'advisory' or a.application_name = %s))
        """
    return bool(world.value("hub", query, for_, APPLICATION))


@pytest.mark.parametrize("call", ["fetch", "ack"])
def test_a_call_under_which_the_store_is_upgraded_is_made_once_more(
    consumed: World, next_version: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, call: str
) -> None:
    """The call began with functions of the previous version. Each message is worked on once, and none is refused."""
    store = consumed.routes.store("hub")
    upgrades: list[Future[None]] = []
    caplog.set_level(logging.INFO)

    def upgrade() -> None:
        with monkeypatch.context() as upgraded:
            upgraded.setattr(migrations, "sql_directory", lambda: next_version)
            initialise_store(store, consumed.routes)

    with (
        application_engine() as engine,
        ThreadPoolExecutor(2) as pool,
        Consumer(engine, "billing", until_empty=True, max_count=1, backoff_seconds=0.01) as consumer,
    ):

        def work() -> None:
            for message in consumer:
                consumer.connection.exec_driver_sql("insert into public.work values (%s)", (message.payload,))
                if call == "ack" and message.payload == "a" and not upgrades:
                    begin_upgrade()

        def begin_upgrade() -> None:
            upgrades.append(pool.submit(upgrade))
            wait_until(lambda: upgrades[0].done() or waits(consumed, for_="advisory"), "init holds the tables")

        with consumed.session("hub") as holder, holder.cursor() as cursor:
            cursor.execute("select pg_advisory_xact_lock(%s)", (PAUSE,))
            if call == "fetch":
                begin_upgrade()
            working = pool.submit(work)
            wait_until(lambda: working.done() or waits(consumed, for_="relation"), f"{call} waits for init")
            assert not working.done()
            holder.rollback()
        upgrades[0].result(patience(60))
        working.result(patience(60))
    assert consumed.query("hub", "select payload from public.work order by 1") == [("a",), ("b",)]
    assert consumed.value("hub", "select max(number) from relaybox.migration") == 990
    assert caplog.text.count("The store may have been upgraded under this call.") == 1
    assert consumed.value("hub", "select count(*) from relaybox_internal.refused_attempt") == 0


@pytest.mark.parametrize("call", ["fetch", "ack"])
def test_a_store_that_stays_broken_ends_the_consumer(consumed: World, call: str) -> None:
    """One attempt more, not endlessly many: they would count the message as one that breaks its worker."""

    def damage() -> None:
        consumed.query("hub", f"alter table relaybox_internal.{RENAMED[0]} rename to {RENAMED[1]}")

    handled = []
    with application_engine() as engine, Consumer(engine, "billing", backoff_seconds=0.01) as consumer:
        if call == "fetch":
            damage()
        with pytest.raises(errors.StoreFailed, match=r"42P01\)\.$"):
            for message in consumer:
                handled.append(message.payload)
                damage()
    assert handled == ([] if call == "fetch" else ["a"])
