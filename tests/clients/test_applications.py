"""docs/applications.md: each program of the page is run against real stores, from an order to its invoice."""

from __future__ import annotations

import http.client
import importlib.util
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from relaybox.local.clusters import find_free_port, postgres_program
from tests.support.libraries import parameters
from tests.support.patience import Deadline, patience
from tests.support.world import World, wait_until

DOCS = Path(__file__).parents[2] / "docs"
EXAMPLES = DOCS / "examples"
RUN = {
    "shop_psycopg.py": ["consume", "--until-empty"],
    "shop_sqlalchemy.py": ["consume", "--until-empty"],
    "shop_django.py": [
        "relaybox_consume",
        "invoices",
        "--database",
        "billing",
        "--handler",
        "shop_django.make_invoice",
        "--until-empty",
    ],
}


@pytest.fixture
def shop(world: World) -> Iterator[Mapping[str, str]]:
    """The environment of the programs: they log in with the rights of a producer and of a consumer, and no others."""
    world.change_route(topics=["orders"])
    urls = {}
    for name, store, role, table in (
        ("SHOP", "airline", "relaybox_producer", "shop_order (id integer primary key)"),
        ("BILLING", "hub", "relaybox_consumer", "invoice (order_id integer primary key)"),
    ):
        login = f"application_of_a_test_{name.lower()}"
        world.query(store, f"create role {login} login password 'p' in role {role}; create table public.{table}")
        world.query(store, f"grant insert, select on public.{table.partition(' ')[0]} to {login}")
        at = parameters(store)
        urls[f"{name}_URL"] = f"postgresql://{login}:p@{at['host']}:{at['port']}/{at['dbname']}"
    world.query("hub", "select relaybox.subscribe('invoices', 'orders', nack_limit => 1)")
    yield {**os.environ, **urls}
    for name, store in (("shop", "airline"), ("billing", "hub")):
        login = f"application_of_a_test_{name}"
        world.query(
            store,
            f"select pg_terminate_backend(pid, 10000) from pg_stat_activity where usename = '{login}'",
        )
        world.query(store, f"drop owned by {login}; drop role {login}")


def run(environment: Mapping[str, str], *command: str) -> str:
    ran = subprocess.run(
        command, env=environment, cwd=EXAMPLES, capture_output=True, text=True, check=False, timeout=patience(60)
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def invoices(world: World) -> list[int]:
    return [row[0] for row in world.query("hub", "select order_id from public.invoice order by 1")]


@pytest.mark.parametrize("program", RUN)
def test_an_order_becomes_one_invoice(world: World, shop: Mapping[str, str], program: str) -> None:
    """A second order of the same number fails, and sends nothing; a message that is no order becomes a dead letter."""
    run(shop, sys.executable, program, "send", "7")
    with pytest.raises(AssertionError, match="duplicate key"):
        run(shop, sys.executable, program, "send", "7")
    run(shop, sys.executable, program, "send", "8")
    world.send("no order", topic="orders")
    world.transfer()
    run(shop, sys.executable, program, *RUN[program])
    assert invoices(world) == [7, 8]
    assert world.value("hub", "select count(*) from relaybox.dead_letters") == 1


def test_psql_sends_an_order_and_its_message(world: World, shop: Mapping[str, str]) -> None:
    run(shop, str(postgres_program("psql")), "-XAtq", "-v", "order=7", "-f", "send.sql", shop["SHOP_URL"])
    assert world.query("airline", "select id from public.shop_order") == [(7,)]
    assert world.sent() == ['{"order" : 7}']


@contextmanager
def served(environment: Mapping[str, str]) -> Iterator[int]:
    """The port of a server of shop_fastapi.py."""
    port = find_free_port()
    command = [sys.executable, "-m", "uvicorn", "shop_fastapi:app", "--port", str(port), "--log-level", "warning"]
    server = subprocess.Popen(command, env=environment, cwd=EXAMPLES, stderr=subprocess.PIPE, text=True)
    try:
        deadline = Deadline(60)
        while not answers(port):
            assert server.poll() is None, server.stderr and server.stderr.read()
            assert not deadline.is_over(), "the server does not answer"
            time.sleep(0.05)
        yield port
        server.send_signal(signal.SIGTERM)
        assert server.wait(timeout=patience(30)) in (0, -signal.SIGTERM)
    finally:
        server.kill()
        server.communicate()


def answers(port: int) -> bool:
    try:
        return ask(port, "GET", "/docs") == 200
    except OSError:
        return False


def ask(port: int, method: str, path: str) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=patience(30))
    connection.request(method, path)
    return connection.getresponse().status


def test_a_server_sends_and_consumes_in_one_event_loop(world: World, shop: Mapping[str, str]) -> None:
    """Until it is told to end: then its lane is free at once."""
    with served(shop) as port:
        assert ask(port, "POST", "/orders/7") == 200
        assert ask(port, "POST", "/orders/7") == 500
        assert ask(port, "POST", "/orders/8") == 200
        world.transfer()
        wait_until(lambda: invoices(world) == [7, 8], "both orders have invoices")
    assert world.value("hub", "select leased_lanes from relaybox.subscriptions") == 0


def test_the_page_names_each_program_and_each_package_that_it_imports() -> None:
    page = (DOCS / "applications.md").read_text()
    assert set(re.findall(r"\(examples/(shop_\w+\.py)\)", page)) == {path.name for path in EXAMPLES.glob("shop_*.py")}
    for package in ("psycopg", "sqlalchemy", "django", "asyncpg", "fastapi", "uvicorn"):
        assert importlib.util.find_spec(package), package
