"""Whatever is wrong around Relaybox gives one clear error with the next step, no traceback, and loses nothing."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import psycopg2
import pytest

from relaybox import errors
from relaybox.hops.batches import Slice
from relaybox.hops.copying import SliceCopied, SliceJob
from relaybox.hops.runners import ThreadRunner
from relaybox.hops.transfer import transfer_hop
from relaybox.local.clusters import Cluster
from relaybox.stores.init.server import CREATE_DATABASE
from tests.support.cli import Run, invoke, run, start
from tests.support.database_dump import dump
from tests.support.init_scripts import write_script
from tests.support.memory import fast_temporary_directory
from tests.support.patience import patience
from tests.support.psql import run_psql
from tests.support.services import break_service, read_service
from tests.support.standby import start_standby
from tests.support.world import World, insert, routes_file, wait_until

pytestmark = pytest.mark.thorough

MESSAGE_ID = "01a1fc57-61bd-7659-92d2-53639fb0a769"


def refused(answer: Run, exit_code: int, *said: str) -> None:
    """One error on stderr that says all of it, and nothing that looks like a crash."""
    assert answer.exit_code == exit_code, answer.stdout + answer.stderr
    assert "Traceback" not in answer.stderr
    assert answer.stderr.startswith("error: ")
    told = [line for line in answer.stderr.splitlines() if line.startswith("error: ")]
    assert len(told) == len({line.split(":")[1] for line in told}), "one error, or one for each store"
    for words in said:
        assert words in answer.stderr


# -- relaybox.yaml ----------------------------------------------------------------------------------------------------

FILES = {
    "empty": ("", ["1 problem", "empty; expected the sections stores and routes", "The smallest file: "]),
    "no YAML": ("stores: [", ["1 problem", "not YAML"]),
    "contradictory": (
        """
stores: {airline: {}, hub: {}}
routes:
  flights: {topics: [flights, flights], path: [airline, hbu, airline], policy: cascaded, limit: {}}
""",
        [
            "5 problems",
            "routes.flights.topics[1]",
            "Did you mean hub?",
            "expected a path without a loop",
            "Did you mean cascade?",
            "Did you mean limits?",
        ],
    ),
}


@pytest.mark.parametrize("command", [["status"], ["init"], ["verify", "flights"], ["transfer", "flights/1"]], ids=" ".join)
@pytest.mark.parametrize("file", FILES)
def test_a_wrong_file_is_told_with_everything_that_is_wrong_in_it(tmp_path: Path, file: str, command: list[str]) -> None:
    text, said = FILES[file]
    path = tmp_path / "relaybox.yaml"
    path.write_text(text)
    refused(invoke("--config", str(path), *command), 2, "relaybox.yaml", *said)


def test_a_missing_file_is_told_with_where_it_was_looked_for(tmp_path: Path) -> None:
    refused(invoke("--config", str(tmp_path / "nowhere.yaml"), "status"), 2, "nowhere.yaml: no such file", "set RELAYBOX_CONFIG")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["transfer", "flights/3"], 'there is no hop "flights/3". Did you mean flights/2?'),
        (["transfer", "flights"], 'there is no hop "flights". Did you mean flights/2?'),
        (["verify", "flight"], 'there is no route "flight". Did you mean flights?'),
        (["confirm", "flihgts"], 'there is no route "flihgts". Did you mean flights?'),
        (["where", MESSAGE_ID, "--route", "flight"], 'there is no route "flight". Did you mean flights?'),
        (["init", "hubb"], 'there is no store "hubb". Did you mean hub?'),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_an_unknown_name_is_told_with_the_nearest_one(tmp_path: Path, arguments: list[str], said: str) -> None:
    refused(invoke("--config", str(routes_file(tmp_path)), *arguments), 2, said)


# -- stores -----------------------------------------------------------------------------------------------------------

STORE_COMMANDS = [["verify", "flights"], ["where", MESSAGE_ID], ["transfer", "flights/1"], ["confirm", "flights"]]


@pytest.fixture
def uninitialised(databases: Mapping[str, Mapping[str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """Three empty databases, and the routes that they are meant for."""
    path = routes_file(tmp_path)
    monkeypatch.setenv("RELAYBOX_CONFIG", str(path))
    return World(path)


def examine(store: str) -> list[dict[str, Any]]:
    """What doctor finds in a store, check by check."""
    (report,) = invoke("doctor", store, "--json").document["stores"]
    results: list[dict[str, Any]] = report["results"]
    return results


@pytest.mark.parametrize("command", STORE_COMMANDS, ids=" ".join)
def test_a_store_that_was_not_initialised(uninitialised: World, command: list[str]) -> None:
    refused(invoke(*command), 5, "it has no relaybox schema. Run: relaybox init")


def test_the_status_of_stores_that_were_not_initialised_names_each(uninitialised: World) -> None:
    status = invoke("status")
    assert status.exit_code == 5
    assert [line.split(":")[1].strip() for line in status.stderr.splitlines()] == [
        "store airline",
        "store hub",
        "store analytics",
    ]
    assert status.stderr.count("Run: relaybox init") == 3


@pytest.mark.parametrize("encoding", ["SQL_ASCII", "LATIN1"])
def test_a_store_in_another_encoding_is_refused_and_left_as_it_was(uninitialised: World, encoding: str) -> None:
    name = f"{read_service('hub')['dbname']}_{encoding.lower()}"
    uninitialised.query("hub", f"create database {name} encoding '{encoding}' template template0 locale 'C'")  # a name of our own
    break_service("hub", dbname=name)
    for command in (["init", "hub"], ["init", "--dry-run", "hub"]):
        refused(invoke(*command), 5, f"store hub: its encoding is {encoding}", CREATE_DATABASE)
    assert uninitialised.value("hub", "select to_regnamespace('relaybox') is null")
    (found,) = [one for one in examine("hub") if one["check"] == "encoding"]
    assert (found["severity"], CREATE_DATABASE in found["next_step"]) == ("error", True)
    right = f"{name}_right"
    uninitialised.query("hub", CREATE_DATABASE.replace("NAME", right))
    break_service("hub", dbname=right)
    assert invoke("init", "hub").exit_code == 0
    break_service("hub", dbname="postgres")
    for one in (name, right):
        uninitialised.query("hub", f"drop database {one} with (force)")


FOREIGN = {
    "schemas of other software": (
        [
            "create schema relaybox",
            "create schema relaybox_internal",
            "create table relaybox.migration (version text primary key, script text)",
            "create view relaybox_internal.latest as select max(version) as version from relaybox.migration",
            "create function relaybox.latest(integer) returns text language sql as 'select $1::text'",
            "create type relaybox_internal.mood as enum ('good')",
        ],
        [
            "table relaybox.migration",
            "view relaybox_internal.latest",
            "routine relaybox.latest(integer)",
            "type relaybox_internal.mood",
        ],
        ["alter schema relaybox rename to theirs", "alter schema relaybox_internal rename to theirs_too"],
    ),
    "a part of a store": (
        ["create schema relaybox_internal", "create table relaybox_internal.hop_in (hop text)"],
        ["relaybox_internal has objects", "table relaybox_internal.hop_in", "restore all of it"],
        ["alter schema relaybox_internal rename to theirs"],
    ),
}


@pytest.mark.parametrize("name", FOREIGN)
def test_schemas_that_are_not_of_a_store_are_named_and_left_as_they_are(uninitialised: World, name: str) -> None:
    """By init, by every command that opens a store, and by doctor; when they are renamed, as the error says, init goes on."""
    statements, said, renames = FOREIGN[name]
    for statement in statements:
        uninitialised.query("hub", statement)
    before = dump("hub")
    for command in (["init"], ["init", "--dry-run"], ["status"]):
        refused(invoke(*command), 5, "store hub: schema relaybox", *said, "alter schema relaybox")
        assert dump("hub") == before
    assert uninitialised.value("airline", "select to_regnamespace('relaybox') is null")
    assert invoke("init", "airline", "analytics").exit_code == 0
    for command in (["verify", "flights"], ["transfer", "flights/1"]):
        refused(invoke(*command), 5, "store hub: schema relaybox", *said, "alter schema relaybox")
    problems = [one for one in examine("hub") if one["severity"] == "error"]
    assert [one["check"] for one in problems] == ["schema"]
    assert all(text in problems[0]["what"] + problems[0]["next_step"] for text in said)
    assert dump("hub") == before
    for statement in renames:
        uninitialised.query("hub", statement)
    assert invoke("init").exit_code == 0


def test_init_changes_no_store_when_one_fails_and_does_those_that_are_named(uninitialised: World) -> None:
    port = read_service("hub")["port"]
    break_service("hub", port="1")
    failed = invoke("init")
    assert (failed.exit_code, failed.stderr.count("error: ")) == (4, 1)
    assert failed.stdout == "no store was changed\n"
    assert uninitialised.value("airline", "select to_regnamespace('relaybox') is null")
    assert invoke("init", "airline", "analytics").exit_code == 0
    assert not uninitialised.value("airline", "select to_regnamespace('relaybox') is null")
    break_service("hub", port=port)
    assert invoke("init").exit_code == 0
    assert invoke("status").exit_code == 0


def test_init_of_the_wrong_database_is_refused(world: World) -> None:
    break_service("hub", **{key: value for key, value in read_service("analytics").items() if key != "host"})
    refused(invoke("init", "hub"), 2, "the database behind service hub is already store analytics", "Correct the service file")


@pytest.mark.parametrize("command", [*STORE_COMMANDS, ["init", "airline"]], ids=" ".join)
def test_an_unreachable_store_is_a_failure_that_a_retry_may_repair(world: World, command: list[str]) -> None:
    world.send("a")
    port = read_service("airline")["port"]
    break_service("airline", port="1")
    refused(
        invoke(*command), 4, "store airline: no connection", "Check that the server runs, and host and port in section [airline]"
    )
    break_service("airline", port=port)
    assert_nothing_lost(world, "a")


@pytest.mark.parametrize("command", [["transfer", "flights/1"], ["init", "hub"], ["verify", "flights"]], ids=" ".join)
def test_a_wrong_password_is_told_without_any_password(world: World, command: list[str]) -> None:
    world.send("a")
    password = read_service("hub")["password"]
    break_service("hub", password="c4n4ry-wrong")
    answer = run(*command)
    refused(answer, 5, "password authentication failed", "Correct user, password and dbname in section [hub] of the service file")
    assert "c4n4ry" not in answer.stderr
    assert password not in answer.stderr
    break_service("hub", password=password)
    assert_nothing_lost(world, "a")


def test_a_service_that_no_file_defines_is_a_configuration_error(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PGSERVICEFILE", str(world.path))  # a file, with other content
    monkeypatch.setenv("PGSYSCONFDIR", str(world.path.parent))
    answer = invoke("transfer", "flights/1")
    refused(answer, 2, "store airline: ")
    assert "service" in answer.stderr


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (None, ['service file "{path}" not found', "Set PGSERVICEFILE to the path of the service file"]),
        ("[airline\nhost=x\n", ["definition of service", "Add a section [airline]"]),
        ("[airline]\nhost\n", ['syntax error in service file "{path}", line 2', "Correct section [airline] of the service file"]),
    ],
    ids=["missing", "no section", "syntax"],
)
def test_a_wrong_service_file_is_a_configuration_error(
    world: World, monkeypatch: pytest.MonkeyPatch, content: str | None, told: list[str]
) -> None:
    """No retry repairs it."""
    path = world.path.with_name("other-services.conf")
    if content is not None:
        path.write_text(content)
    monkeypatch.setenv("PGSERVICEFILE", str(path))
    monkeypatch.setenv("PGSYSCONFDIR", str(path.with_name("nowhere")))
    refused(invoke("transfer", "flights/1"), 2, "store airline: ", *(words.format(path=path) for words in told))


@pytest.mark.parametrize("command", [*STORE_COMMANDS, ["init", "airline"]], ids=" ".join)
def test_a_schema_newer_than_the_code_is_left_alone(world: World, command: list[str]) -> None:
    world.send("a")
    world.query("airline", "insert into relaybox.migration (number, name) values (999, 'from the future')")
    refused(
        invoke(*command),
        5,
        "store airline: its schema is version 999, this Relaybox knows version",
        "Install the newer Relaybox here",
    )
    world.query("airline", "delete from relaybox.migration where number = 999")
    assert_nothing_lost(world, "a")


def assert_nothing_lost(world: World, *payloads: str) -> None:
    """With the cause gone, the same commands deliver everything."""
    world.transfer_all()
    world.settle_all()
    assert world.payloads("flights/2") == list(payloads)
    assert invoke("verify", "flights").exit_code == 0


# -- a standby --------------------------------------------------------------------------------------------------------

STANDBY = ["this server is a standby; Relaybox needs the primary", "Point the libpq service of this store to the primary"]


@pytest.fixture(scope="module")
def standbys(clusters: Mapping[str, Cluster]) -> Iterator[Mapping[str, Cluster]]:
    """Streaming standbys of `airline` and `hub`."""
    with fast_temporary_directory("standbys") as directory, ExitStack() as stack:
        followers = {store: start_standby(clusters[store], directory / store) for store in ("airline", "hub")}
        for follower in followers.values():
            stack.callback(follower.remove)
        yield followers


def follow(world: World, standbys: Mapping[str, Cluster], store: str) -> None:
    """Points a store's service to its standby, once that has everything."""
    lsn = world.value(store, "select pg_current_wal_lsn()::text")
    with closing(psycopg2.connect(**standbys[store].parameters())) as session, session.cursor() as cursor:

        def has_everything() -> bool:
            cursor.execute("select pg_last_wal_replay_lsn() >= %s::pg_lsn", (lsn,))
            return bool(cursor.fetchone()[0])

        wait_until(has_everything, f"the standby of {store} has {lsn}")
    break_service(store, port=str(standbys[store].port))


@pytest.mark.parametrize(
    ("store", "command", "said"),
    [
        ("airline", ["init", "airline"], ["it is a standby", "Point its libpq service to the primary"]),
        ("airline", ["transfer", "flights/1"], STANDBY),
        ("airline", ["confirm", "flights/1"], STANDBY),
        ("hub", ["init", "hub"], ["it is a standby", "Point its libpq service to the primary"]),
        ("hub", ["transfer", "flights/1"], STANDBY),
        ("hub", ["transfer", "flights/2"], STANDBY),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else value,
)
def test_a_standby_is_refused(
    world: World, standbys: Mapping[str, Cluster], store: str, command: list[str], said: list[str]
) -> None:
    world.send("a")
    world.transfer()
    world.send("b")
    port = read_service(store)["port"]
    follow(world, standbys, store)
    refused(invoke(*command), 5, f"store {store}: ", *said)
    break_service(store, port=port)
    assert_nothing_lost(world, "a", "b")


def test_a_slice_is_not_read_from_a_standby(world: World, standbys: Mapping[str, Cluster]) -> None:
    """A service with several hosts gave the worker one that lags: it found too few rows, and blamed the source."""
    world.send("a")
    port = read_service("airline")["port"]

    class OnStandby(ThreadRunner):
        def copy_slices(self, order: SliceJob, slices: Sequence[Slice]) -> Iterator[SliceCopied]:
            break_service("airline", port=str(standbys["airline"].port))
            yield from super().copy_slices(order, slices)

    with pytest.raises(errors.StoreUnusable, match=r"store airline: .*this server is a standby; Relaybox needs the primary"):
        transfer_hop(world.first_hop, OnStandby(1), recorded_by="test")
    break_service("airline", port=port)
    assert_nothing_lost(world, "a")


def test_a_standby_is_refused_by_a_script(world: World, standbys: Mapping[str, Cluster], tmp_path: Path) -> None:
    follow(world, standbys, "hub")
    done = run_psql(write_script(tmp_path, "hub"), "hub")
    assert done.returncode == 3
    assert "store hub: it is a standby; Relaybox needs the primary" in done.stderr
    assert "Then run this script again" in done.stderr


def test_a_standby_may_be_read(world: World, standbys: Mapping[str, Cluster]) -> None:
    """Reports need no primary: where and verify read committed history."""
    world.send("a")
    world.transfer_all()
    follow(world, standbys, "hub")
    assert invoke("verify", "flights").exit_code == 0


# -- Ctrl-C -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "session"),
    [
        (["transfer", "flights/1", "--linger-seconds", "600"], "relaybox flights/1 driver"),
        (["verify", "flights"], "relaybox flights verify"),
        (["verify", "flights", "--json"], "relaybox flights verify"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_ctrl_c_ends_a_command_and_its_sessions(world: World, command: list[str], session: str) -> None:
    """Verify is held in the middle by a lock on the log; the transfer has nothing to do and lingers."""
    world.send("a")
    world.transfer()
    here = "select count(*) from pg_stat_activity where application_name = %s and state = %s"
    with world.session("hub") as holder, holder.cursor() as cursor:
        if command[0] == "verify":
            cursor.execute("lock table relaybox_internal.log in access exclusive mode")
        process = start(*command)
        state = "active" if command[0] == "verify" else "idle"
        wait_until(lambda: world.value("hub", here, session, state) == 1, f"{command} is at work")
        process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate(timeout=patience(30))
    assert (process.returncode, stdout) == (130, "")
    assert "Traceback" not in stderr
    wait_until(lambda: world.value("hub", here, session, state) == 0, "no session is left")
    assert_nothing_lost(world, "a")


# -- messages ---------------------------------------------------------------------------------------------------------

REFUSED_MESSAGES = {
    "message_has_exactly_one_payload": ["insert into relaybox.outbox (topic, sender) values ('flights', 'UA')"],
    "message_has_exactly_one_payload, both": [
        "insert into relaybox.outbox (topic, sender, payload, payload_bytes) values ('flights', 'UA', 'a', 'a')"
    ],
    "payload_at_most_16_mib": [
        "insert into relaybox.outbox (topic, sender, payload) values ('flights', 'UA', repeat('x', 16777217))",
        "insert into relaybox.outbox (topic, sender, payload_bytes) values ('flights', 'UA', convert_to(repeat('x', 16777217), 'UTF8'))",
    ],
    "topic_is_a_plain_name": ["insert into relaybox.outbox (topic, sender, payload) values ('Flights!', 'UA', 'a')"],
}


@pytest.mark.parametrize("constraint", REFUSED_MESSAGES)
def test_a_message_that_can_not_be_sent_is_refused_by_the_constraint_that_says_why(world: World, constraint: str) -> None:
    """The producer's transaction fails as a whole; what others sent is untouched."""
    world.send("before")
    for statement in REFUSED_MESSAGES[constraint]:
        with world.session() as producer:
            insert(producer, "in the same transaction")
            with pytest.raises(psycopg2.errors.CheckViolation) as refusal, producer.cursor() as cursor:
                cursor.execute(statement)
            assert refusal.value.diag.constraint_name == constraint.split(",", maxsplit=1)[0]
    world.send("after")
    assert_nothing_lost(world, "before", "after")


def test_a_payload_at_the_limit_is_moved(world: World) -> None:
    world.query("airline", "insert into relaybox.outbox (topic, sender, payload) values ('flights', 'UA', repeat('x', 16777216))")
    world.transfer_all()
    assert invoke("verify", "flights").exit_code == 0


def test_an_unknown_message_id(world: World) -> None:
    refused(invoke("where", MESSAGE_ID), 5, f"message {MESSAGE_ID}: no committed message has this id", "Check the id")


def test_a_topic_that_no_route_carries_is_told_and_kept(world: World) -> None:
    world.send("stray", topic="flihgts")
    status = invoke("status")
    assert status.exit_code == 2
    assert "Traceback" not in status.stderr
    assert "store airline: 1 message of topic flihgts, which no hop reads" in status.stderr
    assert "Did you mean topic flights?" in status.stderr
    assert world.sent() == ["stray"]
