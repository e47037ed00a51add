"""A partition of a frame into an outbox: whoever writes it, however often, its messages are sent once."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg2
import pyarrow as pa
import pytest

from relaybox.errors import PutChanged, SenderRefused, SparkFailed, StoreFailed
from relaybox.failpoints import FRAME_FAILPOINTS
from relaybox.local.clusters import Cluster
from relaybox.local.pgbouncer import PgBouncer
from relaybox.spark.frames.held_rows import MAX_HELD_MIB, held_partitions, hold
from relaybox.spark.frames.sending import Partition, Sent, complete_write, send_partition, send_write
from relaybox.spark.frames.write_options import WriteOptions
from tests.support.killed_child import kill_at
from tests.support.services import break_service
from tests.support.streams import STREAM
from tests.support.world import World, wait_until

OUTBOX = "airline"
SENT = "select payload from relaybox.outbox order by seq"
OPTIONS = WriteOptions(OUTBOX, "job", STREAM, "w1", numbered=False)
FIRST = Partition("write/w1", "00000000-0000-0000-0000-000000000001", 0)


def sent(world: World) -> list[str]:
    return [payload for (payload,) in world.query(OUTBOX, SENT)]


def batches(*payloads: str) -> list[pa.RecordBatch]:
    return [pa.RecordBatch.from_pydict({"payload": [payload]}) for payload in payloads]


@pytest.mark.parametrize("step", FRAME_FAILPOINTS)
def test_g3_a_task_that_is_killed_at_any_step_sends_its_partition_once(world: World, tmp_path: Path, step: str) -> None:
    kill_at(step, tmp_path, lambda: send_partition(OPTIONS, FIRST, batches("a", "b", "c")))
    done = send_partition(OPTIONS, FIRST, batches("a", "b", "c"))
    assert (done.messages, done.sent_now) == (3, step != "frame.committed")
    assert sent(world) == ["a", "b", "c"]


def test_g3_tasks_that_run_twice_at_once_send_once(world: World) -> None:
    """Speculation: the second one waits for the first one's transaction."""
    with ThreadPoolExecutor(4) as pool:
        done = list(pool.map(lambda _: send_partition(OPTIONS, FIRST, batches("a", "b")), range(4)))
    assert sorted(one.sent_now for one in done) == [False, False, False, True]
    assert sent(world) == ["a", "b"]


ANOTHER_RUN = "00000000-0000-0000-0000-000000000002"


def test_g3_a_run_whose_partitions_another_run_took_over_ends_as_if_alone(world: World) -> None:
    """A task of Airflow is tried again while the first driver still lives. Nobody is told to send the same rows under another id."""
    second = replace(FIRST, number=1)
    send_partition(OPTIONS, FIRST, batches("a"))
    send_partition(OPTIONS, second, batches("b"))
    assert not send_partition(OPTIONS, replace(FIRST, run=ANOTHER_RUN), batches("a")).sent_now
    complete_write(OPTIONS, FIRST.write_id, FIRST.run, 2)
    assert not send_partition(OPTIONS, replace(second, run=ANOTHER_RUN), batches("b")).sent_now
    complete_write(OPTIONS, FIRST.write_id, ANOTHER_RUN, 2)
    assert not send_partition(OPTIONS, second, batches("b")).sent_now, "the partition before is of the other run now"
    assert sent(world) == ["a", "b"]


def test_g3_a_run_with_other_partitions_sends_nothing_after_the_first_that_differs(world: World) -> None:
    """Of a write that is complete, and of one that is not; an empty partition differs too."""
    send_partition(OPTIONS, FIRST, batches("a", "b"))
    again = replace(FIRST, run=ANOTHER_RUN)
    with pytest.raises(PutChanged, match=r"partition 1 of write write/w1 of sender job had 2 messages"):
        send_partition(OPTIONS, again, batches("a"))
    with pytest.raises(PutChanged, match=r"these are 0 messages"):
        send_partition(OPTIONS, again, [])
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(send_partition, OPTIONS, replace(again, number=1), batches("b"))
        send_partition(OPTIONS, replace(FIRST, number=1), batches("c"))
        assert not waiting.done()
        with pytest.raises(PutChanged, match="has 2 partitions, this run has 1"):
            complete_write(OPTIONS, FIRST.write_id, FIRST.run, 1)
        complete_write(OPTIONS, FIRST.write_id, FIRST.run, 2)
        assert not send_partition(OPTIONS, again, batches("a", "b")).sent_now
        with pytest.raises(PutChanged, match=r"partition 2 of write .* had 1 messages"):
            waiting.result()
    assert not send_partition(OPTIONS, replace(again, number=1), batches("c")).sent_now
    with pytest.raises(PutChanged, match=r"is complete with 2 partitions; this is partition 3"):
        send_partition(OPTIONS, replace(again, number=2), batches("d"))
    assert sent(world) == ["a", "b", "c"]


@pytest.mark.parametrize("step", FRAME_FAILPOINTS)
def test_g3_a_driver_that_is_killed_at_any_step_of_an_atomic_write_sends_all_or_nothing(
    world: World, tmp_path: Path, step: str
) -> None:
    def write() -> list[Sent]:
        return send_write(OPTIONS, FIRST.write_id, FIRST.run, [batches("a", "b"), [], batches("c")])

    kill_at(step, tmp_path, write)
    assert sent(world) == (["a", "b", "c"] if step == "frame.committed" else [])
    assert [one.sent_now for one in write()] == [step != "frame.committed"] * 3
    assert sent(world) == ["a", "b", "c"]


def test_g3_an_atomic_write_of_which_one_partition_differs_sends_nothing(world: World) -> None:
    """Also of a write that another run has sent in part, by partitions."""
    send_partition(OPTIONS, FIRST, batches("a", "b"))
    refused = [pa.RecordBatch.from_pydict({"payload": ["c"], "key": ["k" * 201]})]
    for others in ([batches("a", "c"), batches("c")], [batches("a", "b"), refused]):
        with pytest.raises((PutChanged, StoreFailed)):
            send_write(OPTIONS, FIRST.write_id, ANOTHER_RUN, others)
        assert sent(world) == ["a", "b"]
    send_write(OPTIONS, FIRST.write_id, ANOTHER_RUN, [batches("a", "b"), batches("c")])
    with pytest.raises(PutChanged, match="is complete with 2 partitions; this is partition 3"):
        send_write(OPTIONS, FIRST.write_id, FIRST.run, [batches("a", "b"), batches("c"), batches("d")])
    with pytest.raises(PutChanged, match="has 2 partitions, this run has 1"):
        send_write(OPTIONS, FIRST.write_id, FIRST.run, [batches("a", "b")])
    assert sent(world) == ["a", "b", "c"]


def test_g3_atomic_writes_that_run_twice_at_once_send_once(world: World) -> None:
    runs = [f"00000000-0000-0000-0000-00000000000{number}" for number in range(4)]
    with ThreadPoolExecutor(4) as pool:
        done = list(pool.map(lambda run: send_write(OPTIONS, FIRST.write_id, run, [batches("a", "b"), batches("c")]), runs))
    assert sorted([one.sent_now for one in each] for each in done) == [[False, False]] * 3 + [[True, True]]
    assert sent(world) == ["a", "b", "c"]


def test_rows_that_the_driver_could_not_hold_are_refused() -> None:
    large = batches(*["x" * (MAX_HELD_MIB << 18)] * 5)
    with pytest.raises(SparkFailed, match=r"at most 256 MiB .* Nothing was sent.*coalesce\(1\)"):
        hold("write/w1", FIRST.run, 0, large)
    held = [hold("write/w1", FIRST.run, number, large[:3]) for number in range(2)]
    with pytest.raises(SparkFailed, match="at most 256 MiB"):
        held_partitions(held)


def test_held_rows_come_back_in_the_order_of_partitions() -> None:
    held = [hold("write/w1", FIRST.run, number, batches(*"abc"[:number])) for number in (2, 0, 1)]
    rows = [[one.column("payload")[0].as_py() for one in partition] for partition in held_partitions(held)]
    assert rows == [[], ["a"], ["a", "b"]]


def test_g5_partitions_are_sent_in_their_order_whatever_order_they_run_in(world: World) -> None:
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda number: send_partition(OPTIONS, replace(FIRST, number=number), batches(str(number))), (3, 1, 2, 0)))
    assert sent(world) == ["0", "1", "2", "3"]


@pytest.mark.parametrize("other", [{"topic": "crew"}, {"names": ["key", "payload"]}])
def test_g3_another_topic_or_another_column_is_no_repeat(world: World, other: dict[str, Any]) -> None:
    def rows(names: list[str]) -> list[pa.RecordBatch]:
        return [pa.RecordBatch.from_arrays([pa.array(["a"]), pa.array(["b"])], names=names)]

    send_partition(OPTIONS, FIRST, rows(["payload", "key"]))
    with pytest.raises(PutChanged):
        send_partition(replace(OPTIONS, topic=other.get("topic", STREAM)), FIRST, rows(other.get("names", ["payload", "key"])))


@pytest.mark.parametrize("number", [0, 1])
def test_a_run_with_fewer_partitions_does_not_complete_a_write_beside_one_that_sends_more(world: World, number: int) -> None:
    """It waits for the open transaction, and is refused. The other way round the later partition is."""
    complete = "select relaybox.complete_write('job', %s, %s, %s)"
    record = "select relaybox.record_partition('job', %s, %s, %s, 'x', 1)"
    for before in range(number):
        send_partition(OPTIONS, replace(FIRST, number=before), batches("a"))
    with world.session(OUTBOX) as sending, ThreadPoolExecutor(1) as pool:
        with sending.cursor() as cursor:
            cursor.execute(record, (FIRST.write_id, FIRST.run, number))
            assert cursor.fetchone() == ("send",)
        completing = pool.submit(world.query, OUTBOX, complete, FIRST.write_id, ANOTHER_RUN, number)
        waiting = "select count(*) > 0 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"
        wait_until(lambda: world.value(OUTBOX, waiting), "the run with fewer partitions waits")
        sending.commit()
        with pytest.raises(psycopg2.Error, match=rf"has {number + 1} partitions, this run has {number}"):
            completing.result()
    with world.session(OUTBOX) as completing_first, ThreadPoolExecutor(1) as pool:
        with completing_first.cursor() as cursor:
            cursor.execute(complete, (FIRST.write_id, FIRST.run, number + 1))
        more = pool.submit(world.query, OUTBOX, record, FIRST.write_id, FIRST.run, number + 1)
        wait_until(lambda: world.value(OUTBOX, waiting), "the run with more partitions waits")
        completing_first.commit()
        with pytest.raises(psycopg2.Error, match=f"is complete with {number + 1} partitions; this is partition {number + 2}"):
            more.result()


def test_a_task_waits_for_the_partition_before_as_long_as_it_is_told(world: World) -> None:
    with pytest.raises(
        SparkFailed, match=r"partition 2 of write/w1 of sender job waited 1 s for the one before.* give a higher wait_seconds"
    ):
        send_partition(replace(OPTIONS, wait_seconds=1), replace(FIRST, number=1), batches("b"))
    assert sent(world) == []


@pytest.mark.parametrize(
    "setting",
    ["client_encoding = 'LATIN1'", "default_transaction_read_only = on", "default_transaction_isolation = 'serializable'"],
)
def test_settings_of_a_role_change_no_message(world: World, setting: str) -> None:
    odd = ["é ü 😀", "", "\\N"]
    world.query(OUTBOX, f"alter role current_user set {setting}")
    try:
        send_partition(OPTIONS, FIRST, batches(*odd))
    finally:
        with world.session(OUTBOX, autocommit=True) as session, session.cursor() as cursor:
            cursor.execute("set default_transaction_read_only = off")
            cursor.execute(f"alter role current_user reset {setting.split(maxsplit=1)[0]}")
    assert sent(world) == odd


def test_g3_a_restored_store_gets_the_same_ids_again(world: World) -> None:
    ids = "select message_id from relaybox.outbox order by seq"
    send_partition(OPTIONS, FIRST, batches("a", "b"))
    before = world.query(OUTBOX, ids)
    world.query(OUTBOX, "delete from relaybox.outbox")
    world.query(OUTBOX, "delete from relaybox_internal.frame_partition")
    send_partition(OPTIONS, FIRST, batches("a", "b"))
    assert world.query(OUTBOX, ids) == before


def test_g1_rows_that_the_outbox_refuses_are_sent_neither_in_part_nor_later(world: World) -> None:
    bad = [pa.RecordBatch.from_pydict({"payload": ["a", "b"], "key": ["k", "x" * 201]})]
    with pytest.raises(StoreFailed, match="key_at_most_200_characters"):
        send_partition(OPTIONS, FIRST, bad)
    assert sent(world) == []
    assert send_partition(OPTIONS, FIRST, batches("a")).sent_now
    with pytest.raises(PutChanged, match=r"content \w+ \(RB024\)\.") as caught:
        send_partition(OPTIONS, FIRST, batches("b"))
    assert "Send new messages under another write_id." in str(caught.value.next_step)


def test_a_sender_of_another_role_is_refused(world: World) -> None:
    role = f"frame_writer_{os.getpid()}"
    world.query(OUTBOX, f"create role {role} login password 'secret' in role relaybox_producer")
    path = Path(os.environ["PGSERVICEFILE"])
    text = path.read_text(encoding="utf-8")
    try:
        world.query(OUTBOX, "select relaybox_internal.bind_senders(true)")
        path.write_text(re.sub(r"(?m)^user=.*$", f"user={role}\npassword=secret", text), encoding="utf-8")
        with pytest.raises(SenderRefused, match="may not speak for sender job"):
            send_partition(OPTIONS, FIRST, batches("a"))
        path.write_text(text, encoding="utf-8")
        world.query(OUTBOX, f"select relaybox_internal.bind_sender('job', '{role}')")
        path.write_text(re.sub(r"(?m)^user=.*$", f"user={role}\npassword=secret", text), encoding="utf-8")
        assert send_partition(OPTIONS, FIRST, batches("a")).sent_now
    finally:
        path.write_text(text, encoding="utf-8")
        world.query(OUTBOX, f"drop owned by {role}")
        world.query(OUTBOX, f"drop role {role}")


def test_partitions_are_sent_through_a_pooler(world: World, clusters: Mapping[str, Cluster]) -> None:
    """They share one session of the server, which keeps neither a table nor a setting of theirs."""
    pooler = PgBouncer(clusters[OUTBOX], "transaction", pool_size=1)
    pooler.start()
    try:
        break_service(OUTBOX, port=str(pooler.port))
        for number in range(3):
            assert send_partition(OPTIONS, replace(FIRST, number=number), batches("a", "b")).sent_now
        assert world.value(OUTBOX, "show lock_timeout") == "0"
        assert sent(world) == ["a", "b"] * 3
    finally:
        break_service(OUTBOX, port=str(clusters[OUTBOX].port))
        pooler.remove()


def test_no_function_of_a_neighbour_is_called(world: World) -> None:
    """A login that may create in a schema of the search path offers a function that fits better than that of Postgres."""
    path = Path(os.environ["PGSERVICEFILE"])
    text = path.read_text(encoding="utf-8")
    role = f"frame_writer_{os.getpid()}"
    world.query(OUTBOX, "create table public.stolen (what text)")
    world.query(
        OUTBOX,
        """
        create function public.convert_to(t text, encoding text) returns bytea language plpgsql as $$
        begin insert into public.stolen values (t); return pg_catalog.convert_to(t, encoding::name); end $$;
        """,
    )
    try:
        world.query(OUTBOX, f"create role {role} login password 'secret' in role relaybox_producer")
        world.query(OUTBOX, f"grant insert on public.stolen to {role}")
        path.write_text(re.sub(r"(?m)^user=.*$", f"user={role}\npassword=secret", text), encoding="utf-8")
        assert send_partition(OPTIONS, FIRST, batches("a", "b")).sent_now
    finally:
        path.write_text(text, encoding="utf-8")
        world.query(OUTBOX, f"drop owned by {role}")
        world.query(OUTBOX, f"drop role {role}")
    assert world.query(OUTBOX, "select what from public.stolen") == []
    assert sent(world) == ["a", "b"]


def test_no_transaction_waits_for_the_first_row(world: World) -> None:
    """Spark may need long for it; a session that is idle in a transaction is ended."""
    sessions = "select count(*) from pg_stat_activity where application_name = 'relaybox frame'"

    def slow() -> Iterator[pa.RecordBatch]:
        assert world.value(OUTBOX, sessions) == 0
        yield from batches("a")

    assert send_partition(OPTIONS, FIRST, slow()).sent_now


def test_g1_a_trigger_of_others_that_drops_messages_is_an_error(world: World) -> None:
    """The partition is not taken for sent: without the trigger it is sent as a whole."""
    world.query(
        OUTBOX,
        "create function public.drop_some() returns trigger language plpgsql as "
        "$$ begin if new.payload = 'b' then return null; end if; return new; end $$",
    )
    world.query(
        OUTBOX, "create trigger drop_some before insert on relaybox.outbox for each row execute function public.drop_some()"
    )
    with pytest.raises(SparkFailed, match="1 of 2 messages of partition 1 of write/w1 were inserted"):
        send_partition(OPTIONS, FIRST, batches("a", "b"))
    assert sent(world) == []
    world.query(OUTBOX, "drop trigger drop_some on relaybox.outbox")
    assert send_partition(OPTIONS, FIRST, batches("a", "b")).sent_now


@pytest.mark.parametrize(
    "call",
    [
        f"record_partition('job', 'write/w1', '{FIRST.run}', 0, 'digest', 1)",
        f"complete_write('job', 'write/w1', '{FIRST.run}', 0)",
    ],
)
def test_g7_a_partition_waits_for_the_disk_whatever_the_role_says(world: World, call: str) -> None:
    with world.session(OUTBOX) as session, session.cursor() as cursor:
        cursor.execute("set synchronous_commit = off")
        cursor.execute(f"select relaybox.{call}")
        cursor.execute("show synchronous_commit")
        assert cursor.fetchone() == ("on",)
