"""The proxy does to a session of Postgres what a bad network does."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import psycopg2
import pytest

from relaybox.local.clusters import Cluster
from tests.faults.proxy import Proxy
from tests.faults.sites import Clusters
from tests.support.patience import patience
from tests.support.world import wait_until


@pytest.fixture
def proxy(sides: Clusters) -> Iterator[Proxy]:
    cluster = sides.clusters["source"]
    with Proxy(cluster.host, cluster.port) as proxy:
        yield proxy


@pytest.fixture
def cluster(sides: Clusters) -> Cluster:
    return sides.clusters["source"]


def connect(cluster: Cluster, proxy: Proxy) -> Any:
    return closing(psycopg2.connect(**cluster.parameters() | {"port": str(proxy.port)}))


def ask(connection: Any, query: str = "select 1") -> Any:
    with connection.cursor() as cursor:
        cursor.execute(query)
        return cursor.fetchone()[0]


class Question(threading.Thread):
    """A query that may hang; `answer` is None until it came."""

    def __init__(self, connection: Any, query: str = "select 1") -> None:
        super().__init__(daemon=True)
        self._connection, self._query, self.answer = connection, query, None
        self.start()

    def run(self) -> None:
        self.answer = ask(self._connection, self._query)


def backend_waits_for_its_client(cluster: Cluster, pid: int) -> bool:
    with closing(psycopg2.connect(**cluster.parameters())) as connection:
        return ask(connection, f"select count(*) from pg_stat_activity where pid = {pid} and wait_event = 'ClientRead'") == 1


def test_everything_passes_both_ways(cluster: Cluster, proxy: Proxy) -> None:
    """A result of a megabyte arrives whole."""
    with connect(cluster, proxy) as connection:
        assert ask(connection, "select repeat('x', 1000000)") == "x" * 1_000_000


def test_a_reset_breaks_open_sessions_and_no_later_one(cluster: Cluster, proxy: Proxy) -> None:
    with connect(cluster, proxy) as connection:
        assert ask(connection) == 1
        proxy.reset()
        with pytest.raises(psycopg2.OperationalError):
            ask(connection)
    with connect(cluster, proxy) as connection:
        assert ask(connection) == 1


def test_a_reset_happens_at_byte_n(cluster: Cluster, proxy: Proxy) -> None:
    """A big answer breaks in its middle; a small one before it passes."""
    with connect(cluster, proxy) as connection:
        proxy.reset_after(500_000)
        assert ask(connection) == 1
        with pytest.raises(psycopg2.OperationalError):
            ask(connection, "select repeat('x', 1000000)")
        assert proxy.has_reset.wait(patience(5))


@pytest.mark.parametrize("directions", [(), ("to_server",), ("to_client",)])
def test_a_black_hole_holds_the_session_until_it_heals(cluster: Cluster, proxy: Proxy, directions: Any) -> None:
    """A query hangs; a new session works meanwhile; healed, the answer comes."""
    with connect(cluster, proxy) as connection:
        pid = ask(connection, "select pg_backend_pid()")
        connection.commit()
        proxy.black_hole(*directions)
        question = Question(connection, "select 7")
        with connect(cluster, proxy) as other:
            assert ask(other) == 1
        wait_until(lambda: backend_waits_for_its_client(cluster, pid), "the server waits for the client")
        question.join(0.1)
        assert question.answer is None
        proxy.heal()
        question.join(patience(10))
        assert question.answer == 7


@pytest.mark.parametrize(("direction", "arrives"), [("to_server", False), ("to_client", True)])
def test_a_one_sided_black_hole_lets_the_other_side_through(
    cluster: Cluster, proxy: Proxy, direction: Any, arrives: bool
) -> None:
    """With only the answers lost, the server does what it is told."""
    with connect(cluster, proxy) as connection:
        connection.autocommit = True
        ask(connection, "select set_config('application_name', 'before', false)")
        proxy.black_hole(direction)
        Question(connection, "select set_config('application_name', 'after', false)")

        def name_changed() -> bool:
            with closing(psycopg2.connect(**cluster.parameters())) as other:
                return ask(other, "select count(*) from pg_stat_activity where application_name = 'after'") == 1

        if arrives:
            wait_until(name_changed, "the statement arrives")
        else:
            threading.Event().wait(0.2)
            assert not name_changed()
        proxy.heal()
        wait_until(name_changed, "the statement arrives once healed")


def test_a_cut_commit_is_done_and_its_client_does_not_know(cluster: Cluster, proxy: Proxy) -> None:
    """The COMMIT after the armed one passes; the armed one is durable at the server and an error at the client."""
    with connect(cluster, proxy) as connection, connection.cursor() as cursor:
        cursor.execute("create table if not exists cut (n integer)")
        connection.commit()
        proxy.cut_next_commit()
        cursor.execute("insert into cut values (1)")
        with pytest.raises(psycopg2.OperationalError):
            connection.commit()
        assert proxy.commit_was_cut.wait(patience(5))
    with connect(cluster, proxy) as connection:
        assert ask(connection, "select count(*) from cut") == 1
        connection.commit()
        ask(connection, "drop table cut; select 1")
        connection.commit()


def test_a_server_that_is_down_refuses_through_the_proxy(sides: Clusters) -> None:
    """And a session breaks with its server; both work again after the restart."""
    cluster, proxy = sides.clusters["destination"], sides.proxies["destination"]
    with connect(cluster, proxy) as connection:
        cluster.kill()
        with pytest.raises(psycopg2.OperationalError):
            ask(connection)
        with pytest.raises(psycopg2.OperationalError):
            connect(cluster, proxy)
        cluster.start()
    with connect(cluster, proxy) as connection:
        assert ask(connection) == 1
