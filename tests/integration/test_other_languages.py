"""docs/examples/Relaybox.java and relaybox.go: a producer and a consumer of each language, compiled and run. make languages gets compilers."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.integration.node_programs import server_variables
from tests.support.languages import GO, JAVA, JAVAC, JDBC, go_environment
from tests.support.patience import patience
from tests.support.world import World, wait_until

pytestmark = pytest.mark.thorough

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"

Run = Callable[..., subprocess.Popen[str]]


def compile_java(folder: Path) -> list[str]:
    compiler = [str(JAVAC.require()), "-Xlint:all", "-Werror", "-cp", str(JDBC), "-d", str(folder)]
    subprocess.run([*compiler, str(EXAMPLES / "Relaybox.java")], check=True, timeout=patience(120))
    return [str(JAVA.require()), "-cp", f"{JDBC}:{folder}", "Relaybox"]


def compile_go(folder: Path) -> list[str]:
    source = str(EXAMPLES / "relaybox.go")
    for command in (["vet", source], ["build", "-o", str(folder / "relaybox"), source]):
        subprocess.run([str(GO.require()), *command], env=go_environment(), check=True, timeout=patience(300))
    return [str(folder / "relaybox")]


@pytest.fixture(scope="module", params=[compile_java, compile_go], ids=["Java", "Go"])
def program(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return request.param(tmp_path_factory.mktemp("program"))


@pytest.fixture
def login(world: World) -> Iterator[dict[str, str]]:
    """An application's, with a password as Postgres keeps it: the driver of Java refuses the cheap one of the tests."""
    name = f"application_{os.getpid()}"
    for store in ("airline", "hub"):
        world.query(store, f"create role {name} login password 'secret' in role relaybox_producer, relaybox_consumer")
    world.query("hub", "create table public.effect (n serial, stream_position bigint, payload text)")
    world.query("hub", f"grant insert on public.effect to {name}; grant usage on sequence public.effect_n_seq to {name}")
    yield {"PGUSER": name, "PGPASSWORD": "secret"}
    for store in ("airline", "hub"):
        world.query(store, f"drop owned by {name}; drop role {name}")


@pytest.fixture
def run(program: list[str], login: dict[str, str]) -> Iterator[Run]:
    started: list[subprocess.Popen[str]] = []

    def start(store: str, *arguments: str) -> subprocess.Popen[str]:
        environment = {**os.environ, **server_variables(store), **login, "PGSSLMODE": "disable"}
        del environment["PGSERVICEFILE"]  # lib/pq refuses it
        started.append(subprocess.Popen([*program, *arguments], env=environment, stdout=subprocess.PIPE, text=True))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate()


def lines(process: subprocess.Popen[str]) -> list[str]:
    output, _ = process.communicate(timeout=patience(60))
    assert process.returncode == 0
    return output.splitlines()


def effects(world: World) -> list[tuple[int, str]]:
    return world.query("hub", "select stream_position, payload from public.effect order by n")


def test_a_program_sends_consumes_and_refuses(world: World, run: Run) -> None:
    ids = lines(run("airline", "send", "flights", "UA", "one", "refused", "three"))
    assert world.query("airline", "select message_id::text, payload from relaybox.outbox order by seq") == [
        *zip(ids, ["one", "refused", "three"], strict=True)
    ]
    world.query("hub", "select relaybox.subscribe('billing', 'flights', nack_limit => 2)")
    world.transfer()
    assert lines(run("hub", "consume", "billing")) == ["1: one", "3: three"]
    assert lines(run("hub", "consume", "billing")) == []
    assert effects(world) == [(1, "one"), (3, "three")]
    [(position, detail)] = world.query("hub", "select stream_position, detail from relaybox.dead_letters")
    assert (position, "no such flight" in detail) == (2, True)


def test_a_program_waits_for_messages(world: World, run: Run) -> None:
    world.send("first")
    world.transfer()
    world.query("hub", "select relaybox.subscribe('billing', 'flights', 'latest')")
    process = run("hub", "wait", "billing")
    waits = "select count(*) from pg_stat_activity where pid <> pg_backend_pid() and state = 'idle' and query ~ 'rest_seconds|^COMMIT'"
    wait_until(lambda: world.value("hub", waits) >= 1, "the program waits")
    for number in (1, 2):
        world.send(f"later {number}")
        world.transfer()
        wait_until(lambda count=number: len(effects(world)) == count, "the program was notified")
    assert process.poll() is None
