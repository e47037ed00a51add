"""`relaybox adopt` and `relaybox unadopt`: what they print, as text and as JSON, and with which exit codes."""

from __future__ import annotations

import json

import yaml

from relaybox.adoption.mapping import complete_map
from tests.support.adoption import make_table, messages, sent, write
from tests.support.cli import invoke
from tests.support.database_dump import dump
from tests.support.world import World

TABLE = ("airline", "app.outboxevent")


def test_a_dry_run_shows_ten_rows_as_they_would_travel_and_changes_nothing(world: World) -> None:
    """Ten of twelve, in the order of the backlog; bytes as base64 in JSON; exit code 1 if something is in the way."""
    make_table(world, "alter table app.outboxevent add column raw bytea default 'avro'")
    write(world, *map(str, range(1, 13)))
    before = dump("airline")
    run = invoke("adopt", *TABLE, "--map", "payload=raw", "--map", "header.n=aggregateid", "--dry-run", "--json")
    document = run.document
    assert (run.exit_code, document["order"], document["obstacles"], document["unmapped"]) == (0, ["ctid"], [], [])
    assert [one["headers"] for one in document["messages"]] == [{"n": str(n)} for n in range(1, 11)]
    assert {one["payload_base64"] for one in document["messages"]} == {"YXZybw=="}
    text = invoke("adopt", *TABLE, "--map", "payload=raw", "--dry-run").stdout
    assert text.count("4 bytes: 6176726f") == 10
    assert text.rstrip().endswith("Nothing was changed.")
    world.query("airline", "update app.outboxevent set payload = null where aggregateid = '7'")
    refused = invoke("adopt", *TABLE, "--dry-run", "--json")
    assert refused.exit_code == 1
    assert [(one["problem"], one["row_count"]) for one in refused.document["unmapped"]] == [("payload is null", 1)]
    in_the_way = invoke("adopt", *TABLE, "--map", "key=none", "--map", "topic=kind", "--dry-run")
    assert in_the_way.exit_code == 1
    assert "has no column kind, which the map names for topic" in " ".join(in_the_way.stdout.split())
    world.query("airline", "update app.outboxevent set payload = '7' where aggregateid = '7'")
    assert len(dump("airline").splitlines()) == len(before.splitlines())


def test_the_section_that_the_command_prints_is_what_the_file_takes(world: World) -> None:
    """With it in relaybox.yaml the same command changes nothing, and says nothing of the file any more."""
    make_table(world)
    write(world, "1")
    options = ("--map", "sender='shop'", "--map", "topic={aggregatetype:lower}", "--on-unmapped", "set_aside")
    done = invoke("adopt", *TABLE, *options, "--backlog")
    assert done.exit_code == 0
    assert "table app.outboxevent is adopted. What is inserted from now on is sent. 1 message of the backlog" in done.stdout
    told, _, section = done.stdout.partition("Write this into relaybox.yaml, which decides from then on:\n")
    assert told
    document = yaml.safe_load(world.path.read_text())
    document["stores"]["airline"] = yaml.safe_load(section)["stores"]["airline"]
    world.path.write_text(yaml.safe_dump(document))
    again = invoke("adopt", *TABLE, "--json").document
    assert (again["is_new"], again["changed"], again["is_in_file"], again["backlog_count"]) == (False, [], True, 1)
    assert "relaybox.yaml" not in invoke("adopt", *TABLE).stdout
    ended = invoke("unadopt", *TABLE)
    assert "Take stores.airline.adopt.app.outboxevent out of relaybox.yaml." in ended.stdout
    assert invoke("unadopt", *TABLE, "--json").document == {
        "store": "airline", "table": "app.outboxevent", "was_adopted": False, "moved_count": 0, "dropped_count": 0,
    }  # fmt: skip
    assert sent(world) == ["1"]


def test_rows_that_are_set_aside_are_sent_or_given_up_by_command(world: World) -> None:
    """The counts are in the answer; unadopt refuses without a word about them."""
    make_table(world)
    assert invoke("adopt", *TABLE, "--on-unmapped", "set_aside").exit_code == 0
    world.query("airline", "insert into app.outboxevent (aggregatetype, aggregateid, type) values ('flights', 'k', 'x')")
    left = invoke("adopt", *TABLE, "--send-unmapped")
    assert "Of the unmapped rows 0 were sent now, 1 is left. 1 row: payload is null, such as {" in left.stdout
    assert left.exit_code == 1
    assert "table app.outboxevent is adopted, sending, 1 row is unmapped" in " ".join(invoke("status").stdout.split())
    refused = invoke("unadopt", *TABLE, "--json")
    assert (refused.exit_code, refused.document["error"]["kind"]) == (5, "AdoptionRefused")
    assert invoke("unadopt", *TABLE, "--drop-unmapped", "--json").document["dropped_count"] == 1


def test_of_rows_that_are_no_messages_only_those_that_are_shown_become_text(world: World) -> None:
    """With a wrong map all rows are: their texts would fill the memory of the server. A cast counts the rows that become text."""
    make_table(
        world,
        "create sequence app.written",
        "create type app.mark as enum ('a')",
        "create function app.mark_json(app.mark) returns json language sql volatile return to_json(nextval('app.written'))",
        "create cast (app.mark as json) with function app.mark_json(app.mark)",
        "alter table app.outboxevent add column mark app.mark default 'a'",
        "insert into app.outboxevent (aggregatetype, aggregateid, type) select 'flights', n, 'x' from generate_series(1, 100) n",
    )
    mapping = json.dumps(complete_map({}, ["id", "aggregatetype", "aggregateid", "payload"], "airline"))
    listed = (
        "select problem, row_count, cardinality(first_rows) from relaybox_internal.list_unmapped(%s::regclass, %s, %s::jsonb)"
    )
    assert world.query("airline", listed, TABLE[1], TABLE[1], mapping) == [("payload is null", 100, 3)]
    assert world.value("airline", "select last_value from app.written") == 3


def test_an_unmapped_row_that_can_not_be_sent_keeps_no_other_one(world: World) -> None:
    """Each is tried by itself, and of each only the columns that the map names are read. What is left is told with the reason."""
    make_table(
        world,
        "create extension hstore",
        "alter table app.outboxevent add column more hstore, add column meta jsonb, add column n text",
    )
    assert invoke("adopt", *TABLE, "--on-unmapped", "set_aside").exit_code == 0
    insert = "insert into app.outboxevent (aggregatetype, aggregateid, type, payload, more, meta, n) values ('not one', %s, 'x', '1', 'a=>1', %s, 'x')"
    for number, meta in enumerate(["{}", '{"x": 1e308}', "[1]", '{"good": 1}']):
        world.query("airline", insert, number, meta)
    world.query(
        "airline", "alter table app.outboxevent add column later text, alter column n type integer using 1, drop column more"
    )
    mapped = ("--map", "topic='flights'", "--map", "headers=meta")
    done = invoke("adopt", *TABLE, *mapped, "--send-unmapped", "--json")
    assert done.exit_code == 1
    assert (done.document["sent_unmapped_count"], done.document["unmapped_count"]) == (2, 2)
    assert [(one["problem"], one["row_count"]) for one in done.document["left_unmapped"]] == [
        ("headers have a number of 1e308 or more, or nest more than 64 levels", 1),
        ("meta is no JSON object", 1),
    ]
    assert messages(world, "key", "headers") == [("0", {}), ("3", {"good": 1})]
    lacking = invoke("adopt", *TABLE, *mapped, "--map", "key=later", "--send-unmapped")
    assert "2 rows: the row was set aside without column later, which the map names, such as {" in lacking.stdout
    world.query(
        "airline", """update relaybox_internal.unmapped_row set content = content::jsonb || '{"meta": {}, "later": "k"}'"""
    )
    assert invoke("adopt", *TABLE, *mapped, "--map", "key=later", "--send-unmapped").exit_code == 0
    assert [key for (key,) in messages(world, "key")] == ["0", "3", "k", "k"]


def test_on_unmapped_stays_as_it_is_adopted_until_the_command_says_it(world: World) -> None:
    """A new map alone does not set it back."""
    make_table(world)
    assert invoke("adopt", *TABLE, "--on-unmapped", "set_aside", "--json").document["on_unmapped"] == "set_aside"
    mapped = invoke("adopt", *TABLE, "--map", "sender='shop'", "--json").document
    assert (mapped["on_unmapped"], mapped["changed"]) == ("set_aside", ["map"])
    assert invoke("adopt", *TABLE, "--on-unmapped", "fail", "--json").document["changed"] == ["on_unmapped"]


def test_only_a_table_without_an_order_is_told_to_lack_one(world: World) -> None:
    """A column of a time orders a backlog where there is no primary key."""
    make_table(world, "alter table app.outboxevent drop constraint outboxevent_pkey")
    (without,) = invoke("adopt", *TABLE, "--dry-run", "--json").document["obstacles"]
    assert "has no primary key and no column of a time" in without["problem"]
    world.query("airline", "alter table app.outboxevent add column created_at timestamptz default now()")
    ordered = invoke("adopt", *TABLE, "--dry-run", "--json").document
    assert (ordered["obstacles"], ordered["order"]) == ([], ["created_at"])


def test_a_topic_of_no_route_is_told(world: World) -> None:
    """Constant, or of a row that is there; by the dry run and by the adoption. A topic of a route is not."""
    make_table(world)
    write(world, "1")
    assert "no route" not in invoke("adopt", *TABLE, "--dry-run").stdout
    of_a_row = ("--map", "topic=aggregateid")
    world.query("airline", "update app.outboxevent set aggregateid = 'strange'")
    told = "no route that begins at airline has topic strange: such messages stay in the outbox"
    for options in (of_a_row, ("--map", "topic='strange'")):
        planned = invoke("adopt", *TABLE, *options, "--dry-run", "--json")
        assert planned.exit_code == 0
        assert [(one["is_refusal"], one["problem"]) for one in planned.document["obstacles"]] == [(False, told)]
    done = invoke("adopt", *TABLE, *of_a_row)
    assert f"Note: {told}. Write it into the topics of a route in relaybox.yaml, and run: relaybox init" in done.stdout


def test_rows_that_a_backlog_keeps_apart_are_a_note_before_and_counted_after(world: World) -> None:
    """They are in nobody's way; the text is plain, with headers as JSON and a row that is marked where it is cut."""
    make_table(world)
    write(world, "1")
    insert = "insert into app.outboxevent (aggregatetype, aggregateid, type) values ('flights', %s, 'x')"
    world.query("airline", insert, "k" * 190)
    options = ("--on-unmapped", "set_aside")
    planned = invoke("adopt", *TABLE, *options, "--dry-run")
    assert planned.exit_code == 0
    assert "note: 1 row can't be a message; --backlog keeps them apart as unmapped: payload is null. The first:" in planned.stdout
    assert "in the way" not in planned.stdout
    assert "k ...\n" in planned.stdout
    assert '{"type":' in planned.stdout
    refused = invoke("adopt", *TABLE, "--backlog")
    assert "1 row can't be a message: payload is null, such as {" in refused.stderr
    assert "k ... Correct the rows or the map" in refused.stderr
    done = invoke("adopt", *TABLE, *options, "--backlog", "--map", "sender='shop'")
    assert "1 message of the backlog moved" in done.stdout
    assert "1 row is unmapped: no message, and kept apart. Correct the map, then run: relaybox adopt airline" in done.stdout
    assert "sender: \"'shop'\"\n" in done.stdout
    assert invoke("adopt", *TABLE, "--json").document["unmapped_count"] == 1


def test_wrong_options_are_told_with_the_rule(world: World) -> None:
    make_table(world)
    for options, told in (
        (("--map", "tpic=x"), "--map tpic=x: expected FIELD=TEXT with one of message_id, topic"),
        (("--on-unmapped", "skip"), "--on-unmapped skip: expected fail or set_aside"),
    ):
        refused = invoke("adopt", *TABLE, *options)
        assert (refused.exit_code, told in refused.stderr) == (2, True), refused.stderr
    missing = invoke("adopt", "airline", "app.outboxevents", "--json")
    assert missing.document["error"]["kind"] == "AdoptionRefused"
