"""What README shows is run: its SQL, its file, its commands, in its order."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import yaml

from tests.support.cli import invoke
from tests.support.world import World

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


def run_as(world: World, store: str, role: str, statement: str) -> list[tuple[object, ...]]:
    """One statement with the rights of an application's role."""
    with world.session(store) as connection, connection.cursor() as cursor:
        cursor.execute(f"set role {role}")
        cursor.execute(statement)
        rows = list(cursor.fetchall()) if cursor.description else []
        connection.commit()
    return rows


def test_readme_from_one_insert_to_the_verification_of_delivery(world: World) -> None:
    """Send, transfer, read, status, where, verify: each as README writes it, each exits 0."""
    send, read = blocks("sql")
    (configuration,) = blocks("yaml")
    assert yaml.safe_load(configuration) == yaml.safe_load(world.path.read_text())
    run_as(world, "airline", "relaybox_producer", send)
    message_id = world.value("airline", "select message_id from relaybox.outbox")

    commands = re.findall(r"^relaybox (.+?)\s+#", README, flags=re.MULTILINE)
    transfer = next(command for command in commands if command.startswith("transfer"))
    assert invoke(*transfer.split()).exit_code == 0
    assert invoke("transfer", "flights/2").exit_code == 0
    subscribe, *turn = read.strip().splitlines()
    begin, fetch, own_work, ack, commit = turn
    assert (begin, commit) == ("begin;", "commit;")
    assert own_work.startswith("--")
    assert run_as(world, "analytics", "relaybox_consumer", subscribe) == [(1,)]
    # the snippet begins and ends its transaction itself
    with world.session("analytics", autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute("set role relaybox_consumer")
        cursor.execute(begin)
        cursor.execute(fetch)
        fetched = cursor.fetchall()
        assert fetched == [(1, "UA", '{"flight": 1545, "dest": "IAH"}')]
        assert "LAST_STREAM_POSITION" in ack
        cursor.execute(ack.replace("LAST_STREAM_POSITION", str(fetched[-1][0])))
        cursor.execute(commit)
    assert run_as(world, "analytics", "relaybox_consumer", fetch) == []

    reports = [command.replace("MESSAGE_ID", str(message_id)) for command in commands if command != transfer]
    assert len(reports) == 7
    for command in reports:
        run = invoke(*shlex.split(command))
        assert run.exit_code == 0, (command, run.stdout, run.stderr)
        as_json = invoke(*shlex.split(command), "--json")
        assert as_json.document, command
