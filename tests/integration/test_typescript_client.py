"""docs/examples/relaybox.ts: checked by TypeScript in its strict mode, and run by Node with the package pg. make postgres-versions gets both."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.integration.node_programs import PACKAGES, node, server_variables
from tests.support.patience import patience
from tests.support.postgres_versions import HERE
from tests.support.world import World, wait_until

pytestmark = pytest.mark.thorough

CLIENT = Path(__file__).parents[2] / "docs" / "examples" / "relaybox.ts"
STRICT = ("--strict", "--noUnusedLocals", "--target", "es2022", "--module", "nodenext", "--types", "node", "--skipLibCheck")

Run = Callable[..., subprocess.Popen[str]]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("typescript")
    shutil.copy(CLIENT, folder)
    shutil.copy(PACKAGES / "application.ts", folder)
    (folder / "node_modules").symlink_to(HERE / "node_modules")
    compiler = folder / "node_modules" / "typescript" / "bin" / "tsc"
    assert compiler.exists(), "Run: make postgres-versions"
    subprocess.run([node(), str(compiler), *STRICT, "application.ts"], cwd=folder, check=True, timeout=patience(120))
    return folder / "application.js"


@pytest.fixture
def run(program: Path, world: World) -> Run:
    world.query("hub", "create table public.effect (n serial, stream_position bigint, payload text)")

    def start(store: str, *arguments: str) -> subprocess.Popen[str]:
        environment = {**os.environ, **server_variables(store)}
        return subprocess.Popen([node(), str(program), *arguments], env=environment, stdout=subprocess.PIPE, text=True)

    return start


def lines(process: subprocess.Popen[str]) -> list[str]:
    output, _ = process.communicate(timeout=patience(60))
    assert process.returncode == 0
    return output.splitlines()


def effects(world: World) -> list[tuple[int, str]]:
    return world.query("hub", "select stream_position, payload from public.effect order by n")


def test_a_program_sends_and_consumes_with_every_effect_once(world: World, run: Run) -> None:
    said, message_id = lines(run("airline", "send"))
    assert said == "taken back"
    sent = world.query("airline", "select key, headers, payload, payload_bytes from relaybox.outbox order by seq")
    assert [(key, headers, payload, data and bytes(data)) for key, headers, payload, data in sent] == [
        ("231", {"trace": 7}, '{"number":"UA 231"}', None),
        (None, None, "text", None),
        (None, None, None, b"\x00\xff"),
    ]
    assert world.value("airline", "select message_id::text from relaybox.outbox order by seq desc limit 1") == message_id
    world.query("hub", "select relaybox.subscribe('billing', 'flights')")
    world.transfer()
    assert lines(run("hub", "drain")) == ["2", "3", "4", "ended"]
    assert lines(run("hub", "drain")) == ["ended"]
    assert effects(world) == [(1, '{"number":"UA 231"}'), (2, "text"), (3, "00ff")]


def test_a_message_that_its_handler_refuses_is_a_dead_letter_and_the_others_go_on(world: World, run: Run) -> None:
    world.send("one", "refused", "two")
    world.transfer()
    world.query("hub", "select relaybox.subscribe('billing', 'flights', nack_limit => 2)")
    said = lines(run("hub", "drain"))
    assert said == ["2", "refused 2: no such flight false", "refused 2: no such flight true", "4", "ended"]
    assert effects(world) == [(1, "one"), (3, "two")]
    [(detail,)] = world.query("hub", "select detail from relaybox.dead_letters")
    assert detail.startswith("Error: no such flight\n")


def test_a_program_waits_for_messages_and_ends_after_sigterm(world: World, run: Run) -> None:
    world.send("first")
    world.transfer()
    world.query("hub", "select relaybox.subscribe('billing', 'flights', 'latest')")
    process = run("hub", "wait")
    listening = "select count(*) from pg_stat_activity where query like '%%rest_seconds%%' and pid <> pg_backend_pid()"
    wait_until(lambda: world.value("hub", listening) == 1, "the program waits")
    for number in (1, 2):
        world.send(f"later {number}")
        world.transfer()
        wait_until(lambda count=number: len(effects(world)) == count, "the program was notified")
    process.send_signal(signal.SIGTERM)
    assert lines(process) == ["3", "4", "ended"]
    assert world.value("hub", "select leased_until from relaybox.lag('billing')") is None
