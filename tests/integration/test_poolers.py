"""A real PgBouncer between a client and a store, in each of its modes: drivers are refused; consumers and producers work."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import asyncpg
import psycopg
import psycopg2
import pytest
import sqlalchemy
from sqlalchemy import text

from relaybox import errors, outbox
from relaybox.airflow.store_sessions import open_session
from relaybox.clients.sqlalchemy import SqlalchemySession
from relaybox.clients.steps import drive
from relaybox.consumer import Consumer
from relaybox.consumer.services import open_engine
from relaybox.consumer.session import ConsumerSession
from relaybox.failpoints import CONSUMER_FAILPOINTS
from relaybox.local import debian
from relaybox.local.clusters import Cluster, postgres_binaries
from relaybox.local.pgbouncer import MODES, PGBOUNCER, PgBouncer
from relaybox.stores.sessions.connections import connect
from tests.support.cli import invoke
from tests.support.patience import patience
from tests.support.services import break_service, read_service
from tests.support.streams import deliver
from tests.support.world import World

pytestmark = pytest.mark.thorough

SLICE_SESSION = "relaybox flights/1 b1 s1 a1"


@pytest.fixture
def make_pooler(world: World, clusters: Mapping[str, Cluster]) -> Iterator[Callable[..., PgBouncer]]:
    """Starts a PgBouncer before a store of the world, which serves its service from then on."""
    made: list[PgBouncer] = []

    def make(store: str, mode: str, **options: Any) -> PgBouncer:
        pooler = PgBouncer(clusters[store], mode, **options)
        made.append(pooler)
        pooler.start()
        break_service(store, port=str(pooler.port))
        return pooler

    yield make
    for pooler in made:
        pooler.remove()


def direct(clusters: Mapping[str, Cluster], store: str) -> dict[str, str]:
    """Parameters that lead to the server itself."""
    return {**read_service(store), "port": str(clusters[store].port)}


def ask(parameters: Mapping[str, str], query: str) -> list[tuple[Any, ...]]:
    """Rows of a statement, from the server itself."""
    with closing(psycopg2.connect(**parameters)) as connection, connection, connection.cursor() as cursor:
        cursor.execute(query)
        return list(cursor.fetchall())


@pytest.fixture
def shop(world: World, clusters: Mapping[str, Cluster]) -> World:
    """Twelve messages in the hub, the subscription `billing`, and a table for effects."""
    deliver(world, 12)
    world.query("hub", "create table public.effect (n serial, stream_position bigint not null, pid integer)")
    world.query("hub", "select relaybox.subscribe('billing', 'flights')")
    return world


@pytest.mark.parametrize("mode", MODES)
def test_a_driver_is_refused_behind_a_pooler_and_told_what_to_write(
    world: World, make_pooler: Callable[..., PgBouncer], clusters: Mapping[str, Cluster], mode: str
) -> None:
    """Nothing of its settings, and not its name, stays in the server's session that the pooler lends to others."""
    make_pooler("hub", mode)
    with pytest.raises(errors.ConfigurationError, match="store hub: a connection pooler stands between") as refused:
        connect("hub", application_name=SLICE_SESSION)
    assert "section [hub] of the service file" in refused.value.next_step
    with closing(psycopg2.connect(service="hub")) as lent:
        lent.autocommit = True
        with lent.cursor() as cursor:
            cursor.execute("select current_setting('lock_timeout'), current_setting('row_security')")
            assert cursor.fetchone() == ("0", "on")
    names = "select count(*) from pg_stat_activity where datname = current_database() and application_name like 'relaybox %'"
    assert ask(direct(clusters, "hub"), names) == [(0,)]
    world.send("a")
    run = invoke("transfer", "flights/1")
    assert run.exit_code == 2
    assert "store hub: a connection pooler stands between" in " ".join(run.stderr.split())
    break_service("hub", port=str(clusters["hub"].port))
    world.transfer()
    assert world.payloads("flights/1") == ["a"]


@pytest.mark.parametrize("mode", MODES)
def test_the_triggerer_is_refused_behind_a_pooler(world: World, make_pooler: Callable[..., PgBouncer], mode: str) -> None:
    make_pooler("hub", mode)
    with pytest.raises(errors.ConfigurationError, match="into the Airflow connection relaybox_hub"):
        open_session("relaybox_hub", read_service("hub"), "relaybox watch")


@pytest.mark.parametrize("mode", MODES)
def test_a_parameter_that_the_pooler_refuses_is_said_to_be_the_poolers(
    world: World, make_pooler: Callable[..., PgBouncer], mode: str
) -> None:
    """`options` of the service file: PgBouncer does not take them."""
    make_pooler("hub", mode)
    break_service("hub", options="-c work_mem=1MB")
    with pytest.raises(errors.StoreUnreachable, match=r"a connection pooler answered: .*options") as refused:
        connect("hub", application_name="test")
    assert "host and port of the Postgres server itself" in refused.value.next_step


@pytest.mark.parametrize("mode", ["session", "transaction"])
def test_g10_the_python_consumer_works_through_a_pooler(
    shop: World, make_pooler: Callable[..., PgBouncer], clusters: Mapping[str, Cluster], mode: str
) -> None:
    """Each effect exists once; the settings hold in its transactions and in nobody else's."""
    make_pooler("hub", mode, pool_size=3)
    with Consumer("hub", "billing", max_count=5, until_empty=True) as consumer:
        for message in consumer:
            consumer.connection.execute(
                text("insert into public.effect (stream_position) values (:n)"), {"n": message.stream_position}
            )
            assert consumer.connection.execute(text("show lock_timeout")).scalar() == "30s"
    effects = ask(direct(clusters, "hub"), "select stream_position from public.effect order by n")
    assert effects == [(n,) for n in range(1, 13)]
    with closing(psycopg2.connect(service="hub")) as lent, lent.cursor() as cursor:
        cursor.execute("show lock_timeout")
        assert cursor.fetchone() == ("0",)


@pytest.mark.parametrize("mode", ["session", "transaction"])
def test_a_consumer_does_not_listen_through_a_pooler(shop: World, make_pooler: Callable[..., PgBouncer], mode: str) -> None:
    """The pooler would give its notifications to whoever has the server's session then. It polls."""
    make_pooler("hub", mode, pool_size=1)
    session = ConsumerSession(SqlalchemySession(open_engine("hub", "billing")), store="hub", subscription="billing")
    assert not drive(session.listen())
    drive(session.close())
    with closing(psycopg2.connect(service="hub")) as lent, lent.cursor() as cursor:
        cursor.execute("select count(*) from pg_listening_channels()")
        assert cursor.fetchone() == (0,)


def test_g10_two_clients_that_share_one_session_have_a_lease_each(
    shop: World, make_pooler: Callable[..., PgBouncer], clusters: Mapping[str, Cluster]
) -> None:
    """Transaction mode, one session of the server, no worker names: the second client neither gets nor acknowledges what the first has."""
    make_pooler("hub", "transaction")
    with closing(psycopg2.connect(service="hub")) as one, closing(psycopg2.connect(service="hub")) as two:
        pids = []
        for client, expected in ((one, [1, 2, 3]), (two, [])):
            with client.cursor() as cursor:
                cursor.execute("select pg_backend_pid()")
                pids.append(cursor.fetchone()[0])
                cursor.execute("select stream_position from relaybox.fetch('billing', 3)")
                assert [row[0] for row in cursor.fetchall()] == expected
            client.commit()
        assert pids[0] == pids[1], "they share the session"
        for client in (one, two):
            with client.cursor() as cursor, pytest.raises(psycopg2.Error, match="the token is missing") as refused:
                cursor.execute("select relaybox.ack('billing', 3)")
            assert refused.value.pgcode == "RB033"
            assert "give fetch a worker => name" in str(refused.value.diag.message_hint)
            client.rollback()
        with one.cursor() as cursor:
            cursor.execute(
                "update relaybox_internal.cursor set leased_until = now() - interval '1 minute' where worker is not null"
            )
            one.commit()
            cursor.execute("select stream_position from relaybox.fetch('billing', 3)")
            cursor.execute("select relaybox.ack('billing', 3)")
            one.commit()


def test_a_consumer_in_statement_mode_is_told_that_it_needs_transactions(
    shop: World, make_pooler: Callable[..., PgBouncer]
) -> None:
    make_pooler("hub", "statement")
    with (
        pytest.raises(errors.ConfigurationError, match="ends the connection at BEGIN") as refused,
        Consumer("hub", "billing", until_empty=True) as consumer,
    ):
        next(iter(consumer))
    assert "Set pool_mode to transaction" in refused.value.next_step


async def send_by_asyncpg(parameters: Mapping[str, str], payload: str, *, cache: int) -> None:
    at = {"host": parameters["host"], "port": int(parameters["port"]), "database": parameters["dbname"]}
    session = await asyncpg.connect(**at, user=parameters["user"], password=parameters["password"], statement_cache_size=cache)
    await session.execute("insert into relaybox.outbox (topic, sender, payload) values ('flights', 'UA', $1)", payload)
    await session.close()


@pytest.mark.parametrize("mode", MODES)
def test_g1_producers_work_through_any_mode(
    world: World, make_pooler: Callable[..., PgBouncer], clusters: Mapping[str, Cluster], mode: str
) -> None:
    """psql, psycopg2, psycopg 3 without prepared statements, asyncpg, relaybox.outbox; with transactions where the mode has them."""
    make_pooler("airline", mode)
    at = read_service("airline")
    insert = "insert into relaybox.outbox (topic, sender, payload) values ('flights', 'UA', %s)"
    subprocess.run(
        [
            str(postgres_binaries() / "psql"),
            "-XAtq",
            "-v",
            "ON_ERROR_STOP=1",
            "service=airline",
            "-c",
            insert.replace("%s", "'psql'"),
        ],
        check=True,
        timeout=patience(60),
    )
    with closing(psycopg2.connect(service="airline")) as connection:
        connection.autocommit = mode == "statement"
        with connection.cursor() as cursor:
            cursor.execute(insert, ("psycopg2",))
            outbox.put(cursor, "flights", "UA", "put")
        if mode != "statement":
            connection.commit()
    with psycopg.connect(**at, autocommit=mode == "statement", prepare_threshold=None) as session:
        for number in range(7):
            session.execute(insert, (f"psycopg {number}",))
    asyncio.run(send_by_asyncpg(at, "asyncpg", cache=0))

    def create() -> Any:
        connection = psycopg2.connect(service="airline")
        connection.autocommit = mode == "statement"
        return connection

    engine = sqlalchemy.create_engine("postgresql+psycopg2://", creator=create)
    with engine.begin() as session:
        outbox.put(session, "flights", "UA", "sqlalchemy")
    engine.dispose()
    expected = ["psql", "psycopg2", "put", *(f"psycopg {number}" for number in range(7)), "asyncpg", "sqlalchemy"]
    assert [row[0] for row in ask(direct(clusters, "airline"), "select payload from relaybox.outbox order by seq")] == expected


def test_g1_producers_with_prepared_statements_work_in_session_mode(
    world: World, make_pooler: Callable[..., PgBouncer], clusters: Mapping[str, Cluster]
) -> None:
    """In the other modes a PgBouncer before 1.21 loses them, and the client says so."""
    make_pooler("airline", "session")
    at = read_service("airline")
    with psycopg.connect(**at, prepare_threshold=0) as session:
        for number in range(3):
            session.execute("insert into relaybox.outbox (topic, sender, payload) values ('flights', 'UA', %s)", (f"p{number}",))
    asyncio.run(send_by_asyncpg(at, "asyncpg", cache=100))
    assert ask(direct(clusters, "airline"), "select count(*) from relaybox.outbox") == [(4,)]


def test_fencing_ends_no_session_that_a_pooler_lent_to_an_application(
    world: World, make_pooler: Callable[..., PgBouncer], clusters: Mapping[str, Cluster]
) -> None:
    """A slice that was refused used the same session of the server; an application with no name of its own has it now."""
    pooler = make_pooler("hub", "transaction")
    with pytest.raises(errors.ConfigurationError):
        connect("hub", application_name=SLICE_SESSION)
    with closing(psycopg2.connect(service="hub", application_name="")) as application, application.cursor() as cursor:
        cursor.execute("select pg_backend_pid()")
        end = "select relaybox_internal.end_older_attempts('flights/1', 1, 1, 99)"
        assert ask(direct(clusters, "hub"), end) == [(0,)]
        generation = (
            "select relaybox_internal.begin_generation(i.log_id, i.generation + 1) "
            "from relaybox_internal.hop_in i where i.hop = 'flights/1'"
        )
        ask(direct(clusters, "hub"), generation)
        pids = [server["remote_pid"] for server in pooler.administer("show servers")]
        cursor.execute("select pg_backend_pid()")
        assert pids == [cursor.fetchone()[0]]


def test_fencing_ends_no_session_that_has_got_another_name_or_another_start_since(world: World) -> None:
    """The transaction looked at the sessions before: what it saw then is no reason to end one. A process id alone is none either."""
    with (
        closing(connect("hub", application_name=SLICE_SESSION)) as lent,
        world.session("hub") as fencing,
        lent.cursor() as cursor,
    ):
        with fencing.cursor() as sessions:
            sessions.execute(
                "select pid, started_at, name from relaybox_internal.trusted_sessions() where name = %s", (SLICE_SESSION,)
            )
            ((pid, started_at, name),) = sessions.fetchall()
            end = "select relaybox_internal.end_session(%s, %s::timestamptz + %s::interval, %s)"
            sessions.execute(end, (pid, started_at, "1 microsecond", name))
            assert sessions.fetchone() == (False,)
            cursor.execute("set application_name = 'an application'")
            lent.commit()
            sessions.execute("select count(*) from pg_stat_activity where pid = %s and application_name = %s", (pid, name))
            assert sessions.fetchone() == (1,), "the transaction sees what it saw before"
            sessions.execute("select relaybox_internal.end_older_attempts('flights/1', 1, 1, 99)")
            assert sessions.fetchone() == (0,)
            sessions.execute(end, (pid, started_at, "0", name))
            assert sessions.fetchone() == (False,)
        cursor.execute("select 1")
        assert cursor.fetchone() == (1,)


def test_hops_of_a_long_route_do_not_end_each_others_sessions(world: World) -> None:
    """The names of both begin with the same 30 characters."""
    route = "a-route-whose-name-is-quite-lo"
    name = world.value("hub", "select relaybox_internal.hop_in_session_name(%s)", f"{route}/2")
    assert len(name) == 30
    with closing(connect("hub", application_name=f"relaybox {name} b1 s1 a1")) as other, other.cursor() as cursor:
        assert world.value("hub", "select relaybox_internal.end_older_attempts(%s, 1, 1, 99)", f"{route}/1") == 0
        cursor.execute("select 1")
        other.rollback()
        assert world.value("hub", "select relaybox_internal.end_older_attempts(%s, 1, 1, 99)", f"{route}/2") == 1


@pytest.mark.parametrize("moment", [step for step in CONSUMER_FAILPOINTS if step != "consume.refused"])
def test_g10_a_pooler_that_is_restarted_under_a_consumer_costs_no_effect(
    shop: World,
    make_pooler: Callable[..., PgBouncer],
    clusters: Mapping[str, Cluster],
    monkeypatch: pytest.MonkeyPatch,
    moment: str,
) -> None:
    """At each step of a consumer that refuses nothing; `consume.fetched`: in the transaction of the fetch."""
    pooler = make_pooler("hub", "transaction")
    reached: list[str] = []

    def restart(name: str, _: object) -> None:
        if name == moment:
            reached.append(name)
            if len(reached) == 2:
                pooler.restart()

    monkeypatch.setattr("relaybox.consumer.core.reach", restart)
    consume_all(shop)
    assert len(reached) >= 2
    effects = ask(direct(clusters, "hub"), "select stream_position from public.effect order by n")
    assert effects == [(n,) for n in range(1, 13)]


def test_g10_a_server_that_is_restarted_behind_the_pooler_costs_no_effect(
    shop: World, make_pooler: Callable[..., PgBouncer], clusters: Mapping[str, Cluster], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pooler stays; its sessions of the server end in mid-fetch, as they do when the server ends them at its stop."""
    make_pooler("hub", "transaction")
    at, reached = direct(clusters, "hub"), []

    def end_sessions(name: str, _: object) -> None:
        if name == "consume.acknowledged":
            reached.append(name)
            if len(reached) == 2:
                ask(
                    at,
                    "select pg_terminate_backend(pid, 10000) from pg_stat_activity "
                    "where datname = current_database() and pid <> pg_backend_pid()",
                )

    monkeypatch.setattr("relaybox.consumer.core.reach", end_sessions)
    consume_all(shop)
    assert len(reached) >= 2
    assert ask(at, "select stream_position from public.effect order by n") == [(n,) for n in range(1, 13)]


def consume_all(shop: World) -> None:
    """Works off the subscription through the service `hub`: an effect for each message."""
    with Consumer("hub", "billing", max_count=5, until_empty=True, backoff_seconds=0.1, retries=8) as consumer:

        def handle(connection: Any, message: Any) -> None:
            connection.execute(text("insert into public.effect (stream_position) values (:n)"), {"n": message.stream_position})

        consumer.run(handle)


def test_a_machine_without_pgbouncer_is_told_how_to_get_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The tests fail with this sentence, and so does `make pgbouncer` without root."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(debian, "_SYSTEM_DIRECTORIES", ())
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with pytest.raises(errors.ConfigurationError, match="sudo apt-get install pgbouncer"):
        PGBOUNCER.provide()
