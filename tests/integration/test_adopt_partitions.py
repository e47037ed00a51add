"""An adopted table becomes a partition of another one: `relaybox adopt` of that one takes the adoption over, with the rows of meanwhile."""

from __future__ import annotations

import re
import shlex
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg2
import pytest

from relaybox import errors
from tests.support.adoption import INSERT, TABLE, adopt, make_table, messages, problems, sent, unadopt, write
from tests.support.cli import invoke
from tests.support.world import World

DOCS = Path(__file__).resolve().parents[2] / "docs"
PARENT = "app.all_events"
NO_ID = {"message_id": {}}


def by_name(world: World, table: str, *payloads: str, topic: str = "Flights") -> None:
    """Rows that are inserted by the name of a table, each in a transaction of its own."""
    for payload in payloads:
        world.query("airline", INSERT.replace(TABLE, table).replace("Flights", topic), payload, payload)


def attach(world: World, parent: str = PARENT, part: str = TABLE) -> None:
    """Makes a partitioned table of a table that is there, as a living table is partitioned: what is inserted later goes to app.later."""
    world.query("airline", f"create table {parent} (like {part} including defaults) partition by list (aggregateid)")
    world.query("airline", f"alter table {parent} attach partition {part} default")
    world.query("airline", f"create table app.later partition of {parent} for values in ('later')")


def say(world: World) -> tuple[str, str, str]:
    """What doctor says first of adopted tables: severity, what, and what to do."""
    report = invoke("doctor", "airline", "--json").document["stores"][0]
    one = next(one for one in report["results"] if one["check"] == "adopted_tables")
    return one["severity"], one["what"], one["next_step"]


def run(advice: str) -> Any:
    """Runs the command at the beginning of what doctor says."""
    command = advice.split(",", maxsplit=1)[0]
    assert command.startswith("relaybox adopt "), advice
    return invoke(*shlex.split(command)[1:])


@pytest.mark.parametrize("takes_the_name", [False, True], ids=["a new name", "the old name"])
def test_the_command_of_doctor_takes_the_adoption_over_and_sends_what_came_between_once(
    world: World, takes_the_name: bool
) -> None:
    """Rows by the name of the parent and by that of the partition, into each of its partitions; before, between and after."""
    make_table(world)
    by_name(world, TABLE, "0")
    adopt(world, with_backlog=True)
    by_name(world, TABLE, "1")
    part, parent = TABLE, PARENT
    if takes_the_name:
        part, parent = "app.first_events", TABLE
        world.query("airline", "alter table app.outboxevent rename to first_events")
    attach(world, parent, part)
    by_name(world, parent, "2")
    by_name(world, part, "3")
    by_name(world, parent, "4")
    world.query(
        "airline", f"insert into {parent} (aggregatetype, aggregateid, type, payload) values ('Flights', 'later', 'x', '5')"
    )
    assert sent(world) == ["0", "1", "3"]
    assert problems(world) == [("parent", True)]
    severity, what, next_step = say(world)
    assert (severity, f"is a partition of {parent} now: rows" in what) == ("error", True), what
    assert ("is named app.first_events now" in what) == takes_the_name
    done = run(next_step)
    assert done.exit_code == 0, done.stdout
    told = " ".join(done.stdout.split())
    assert f"table {parent} is adopted, and has taken over the adoption of {part}" in told
    assert "3 messages moved into the outbox: of rows that had no message yet" in told
    assert sorted(sent(world)) == ["0", "1", "2", "3", "4", "5"]
    assert problems(world) == []
    for n, name in enumerate((parent, part, "app.later"), start=6):
        world.query(
            "airline",
            f"insert into {name} (aggregatetype, aggregateid, type, payload) values ('Flights', %s, 'x', %s)",
            "later" if name == "app.later" else "k",
            str(n),
        )
    assert sent(world)[6:] == ["6", "7", "8"]
    assert run(next_step).exit_code == 0
    assert len(sent(world)) == 9
    assert unadopt(world, parent).was_adopted
    assert world.value("airline", "select count(*) from pg_trigger where tgname = 'relaybox_adopted'") == 0
    left = "select count(*) from pg_proc where proname ~ '^(send_rows|send_part_rows|message_of_row|message_of_json)_'"
    assert world.value("airline", left) == 0


def test_a_partition_can_be_adopted_no_more_and_the_refusal_names_the_table_that_can(world: World) -> None:
    make_table(world)
    adopt(world)
    attach(world)
    world.query("airline", "create table app.top (like app.all_events including defaults) partition by list (type)")
    world.query("airline", "alter table app.top attach partition app.all_events default")
    with pytest.raises(errors.AdoptionRefused, match=r"Adopt app\.top\. .*the adoption of a partition is taken over"):
        adopt(world)
    assert say(world)[2].startswith("relaybox adopt airline app.top --backlog,")
    assert adopt(world, "app.top").taken_over == (TABLE,)
    for name in ("app.top", PARENT, TABLE):
        by_name(world, name, "1")
    assert sent(world) == ["1", "1", "1"]


def test_what_the_store_has_dropped_since_is_not_sent_again(world: World) -> None:
    """Of the partition only rows that came since it was attached are looked at: retention may have dropped the messages of others."""
    make_table(world)
    adopt(world)
    write(world, "1", "2")
    world.query("airline", "delete from relaybox.outbox")
    attach(world)
    by_name(world, PARENT, "3")
    adopt(world, PARENT, with_backlog=True)
    assert sent(world) == ["3"]


def test_ids_of_a_pattern_are_compared_with_those_of_the_former_name(world: World) -> None:
    """The name of the table is in the hash."""
    make_table(world)
    mapped = {"message_id": {"parts": [{"column": "id", "filter": None}]}}
    adopt(world, mapped=mapped)
    attach(world)
    by_name(world, TABLE, "1")
    by_name(world, PARENT, "2")
    adopt(world, PARENT, with_backlog=True)
    assert sent(world) == ["1", "2"]


def test_without_ids_rows_of_meanwhile_are_not_sent_and_that_is_told(world: World) -> None:
    make_table(world)
    adopt(world, mapped=NO_ID)
    attach(world)
    by_name(world, PARENT, "1")
    severity, _, next_step = say(world)
    assert (severity, "rows of meanwhile are in the table and not in the outbox" in next_step) == ("error", True)
    with pytest.raises(errors.AdoptionRefused, match=r"the map of partition app\.outboxevent gives no message_id"):
        adopt(world, PARENT, with_backlog=True)
    assert problems(world) == [("parent", True)]
    done = run(next_step)
    assert "The map gives no message_id" in " ".join(done.stdout.split())
    by_name(world, PARENT, "2")
    assert sent(world) == ["2"]


def test_rows_of_meanwhile_can_be_sent_with_the_takeover_only(world: World) -> None:
    """Later they can't be told from rows that the trigger sent and retention dropped."""
    make_table(world)
    adopt(world, with_backlog=True)
    attach(world)
    by_name(world, PARENT, "1")
    plan = invoke("adopt", "airline", PARENT, "--dry-run")
    assert "its partition app.outboxevent is adopted by itself; this adoption is taken over" in " ".join(plan.stdout.split())
    assert sent(world) == []
    adopt(world, PARENT)
    with pytest.raises(errors.AdoptionRefused, match="without its backlog"):
        adopt(world, PARENT, with_backlog=True)


def test_several_adoptions_become_one_with_what_waits_and_what_is_unmapped(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each row is sent once, also those that wait behind a backlog of one of them. A row that is set aside is set aside once."""
    make_table(world, "create table app.second (like app.outboxevent including all)")
    by_name(world, "app.second", "1")
    adopt(world, on_unmapped="set_aside")
    with monkeypatch.context() as patched:
        patched.setattr("relaybox.adoption.adopting._move_backlog", lambda *_: 0)
        adopt(world, "app.second", with_backlog=True, on_unmapped="set_aside")
    by_name(world, "app.second", "2")
    by_name(world, TABLE, "3", topic="no topic")
    attach(world)
    world.query("airline", "alter table app.second add check (aggregateid in ('1', '2'))")
    world.query("airline", f"alter table {PARENT} detach partition {TABLE}")
    world.query("airline", f"alter table {PARENT} attach partition {TABLE} for values in ('3', '4', '5')")
    world.query("airline", f"alter table {PARENT} attach partition app.second default")
    by_name(world, PARENT, "4")
    by_name(world, PARENT, "5", topic="no topic")
    assert {kind for kind, stops in problems(world) if stops} == {"parent", "backlog"}
    done = adopt(world, PARENT, with_backlog=True)
    assert done.taken_over == (TABLE, "app.second")
    assert sorted(sent(world)) == ["1", "2", "4"]
    assert problems(world) == [("unmapped", False)]
    assert world.value("airline", "select count(*) from relaybox_internal.unmapped_row") == 2
    assert world.value("airline", "select count(*) from relaybox_internal.adopted_table") == 1
    assert unadopt(world, PARENT, drop_unmapped=True).dropped_count == 2


def test_a_partition_that_was_adopted_before_its_adopted_parent_loses_nothing_and_is_a_warning(world: World) -> None:
    make_table(world)
    adopt(world)
    world.query("airline", f"create table {PARENT} (like app.outboxevent including defaults) partition by list (aggregateid)")
    adopt(world, PARENT)
    world.query("airline", f"alter table {PARENT} attach partition {TABLE} default")
    by_name(world, PARENT, "1")
    by_name(world, TABLE, "2")
    assert sent(world) == ["1", "2"]
    assert problems(world) == [("parent", False)]
    severity, what, next_step = say(world)
    assert (severity, "which is adopted too" in what) == ("warning", True)
    assert run(next_step).exit_code == 0
    by_name(world, PARENT, "3")
    by_name(world, TABLE, "4")
    assert sent(world) == ["1", "2", "3", "4"]
    assert problems(world) == []


def test_partitions_with_several_maps_need_a_word_which_one_is_meant(world: World) -> None:
    make_table(world, "create table app.second (like app.outboxevent including all)")
    adopt(world)
    adopt(world, "app.second", mapped={"sender": {"parts": ["second"]}})
    attach(world)
    world.query("airline", f"alter table {PARENT} attach partition app.second for values in ('2')")
    with pytest.raises(errors.AdoptionRefused, match=r"adopted with several maps: app\.outboxevent, app\.second"):
        adopt(world, PARENT)
    adopt(world, PARENT, mapped={"sender": {"parts": ["both"]}})
    by_name(world, "app.second", "2")
    by_name(world, PARENT, "1")
    assert messages(world, "sender", "payload") == [("both", "2"), ("both", "1")]


def test_no_row_of_writers_is_lost_or_doubled_when_an_adoption_is_taken_over(world: World) -> None:
    """Sessions insert by the name of the parent and by that of the partition meanwhile; two commands at once."""
    make_table(world)
    adopt(world)
    attach(world)
    stopped = threading.Event()
    counts = {PARENT: 0, TABLE: 0}

    def insert(name: str) -> None:
        while not stopped.is_set():
            by_name(world, name, str(counts[name]))
            counts[name] += 1

    writers = [threading.Thread(target=insert, args=(name,)) for name in counts]
    for writer in writers:
        writer.start()
    commands = [threading.Thread(target=lambda: adopt(world, PARENT, with_backlog=True)) for _ in range(2)]
    for command in commands:
        command.start()
    for command in commands:
        command.join()
    stopped.set()
    for writer in writers:
        writer.join()
    ids = "select count(*), count(distinct message_id) from relaybox.outbox"
    assert world.query("airline", ids) == [(sum(counts.values()),) * 2]
    assert world.value("airline", f"select count(*) from {PARENT} where id not in (select message_id from relaybox.outbox)") == 0
    assert problems(world) == []


def test_the_page_partitions_a_table_without_a_gap(world: World) -> None:
    """The statements and commands of docs/adopt.md, for a table of the test. A row between any two of them is sent at once."""
    make_table(world)
    adopt(world)
    section = (DOCS / "adopt.md").read_text(encoding="utf-8").split("### Partition the table")[1].split("\n## ")[0]
    blocks = re.findall(r"```(sh|sql)\n(.*?)```", section.split("Without a gap")[1], re.DOTALL)
    assert [kind for kind, _ in blocks] == ["sql", "sh", "sql", "sh"]
    for number, (kind, block) in enumerate(blocks):
        text = block.replace("public.", "app.").replace("shop", "airline")
        if kind == "sql":
            with closing(psycopg2.connect(service="airline")) as owner, owner.cursor() as cursor:
                owner.autocommit = True
                cursor.execute(text)
        else:
            done = invoke(*shlex.split(text)[1:])
            assert done.exit_code == 0, done.stdout
        by_name(world, TABLE, str(number))
        assert sent(world) == [str(n) for n in range(number + 1)]
    assert problems(world) == []
