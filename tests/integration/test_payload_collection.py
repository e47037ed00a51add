"""A file goes when no message of any store refers to it and none will, and never before, whatever moves or dies meanwhile."""

from __future__ import annotations

import json
import os
import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg2
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from relaybox import errors
from relaybox.failpoints import PAYLOAD_FAILPOINTS
from relaybox.hops.confirmations import settle_hop
from relaybox.outbox import put
from relaybox.payloads import MARK, PayloadStore
from relaybox.payloads.collection_plan import plan_collection
from relaybox.payloads.files import DirectoryFiles
from relaybox.payloads.gathering import PlaceReferences
from relaybox.payloads.listing import FileTotal, PlaceListing, StoredFile, TrashedFile
from relaybox.payloads.place_stores import Neighbour, PlaceStore, StoreIdentity, require_neighbours_known
from relaybox.payloads.preparing import forget_place_store, prepare_place
from relaybox.payloads.store_references import stores_kept_still
from relaybox.payloads.trash import restore_files
from relaybox.retention.segments import retain_store
from relaybox.routes import load_routes
from tests.integration.store_metrics import put_back
from tests.support.backups import Backups
from tests.support.cli import invoke, start
from tests.support.killed_child import kill_at
from tests.support.patience import patience
from tests.support.payloads import PLACE, Directory, add_place, collect, place_of, refs, send, stores_of
from tests.support.world import World, wait_until


@pytest.fixture
def large(world: World, tmp_path: Path) -> World:
    """Segments of ten rows, a route that keeps nothing longer than it is needed, and a place that remembers the stores."""
    world.cut_small_segments()
    world.change_route(retention={"replay_window_seconds": 0})
    add_place(world, tmp_path / "payloads")
    prepare_place(place_of(world), stores_of(world), recorded_by="test")
    return world


@pytest.fixture
def place(large: World) -> Directory:
    return Directory(PayloadStore(place_of(large).location))


def drop_all(world: World) -> None:
    """Moves what was sent to the last store, and drops it wherever it may be dropped."""
    world.transfer_all()
    world.settle_all()
    for store in world.routes.stores.values():
        retain_store(store, recorded_by="test", patience_seconds=0)


def test_what_no_message_refers_to_goes_into_the_trash_and_later_for_good(large: World, place: Directory) -> None:
    """Rolled back, and never sent; of young files nobody can say that yet. A dry run says the same, and moves nothing."""
    sent, rolled_back, orphan = place.write(), place.write(), place.write("longer than the others")
    young = place.write(days=0.5)
    send(large, sent)
    with large.session() as connection, connection.cursor() as cursor:
        put(cursor, "flights", "UA", rolled_back.payload, headers=rolled_back.headers)
        connection.rollback()
    dry = collect(large, dry_run=True)
    assert place.refs == refs(sent, rolled_back, orphan, young)
    done = collect(large)
    totals = (FileTotal(2, 29), FileTotal(1, 7), FileTotal(1, 7))
    assert (dry.trashed, dry.referenced, dry.young) == (done.trashed, done.referenced, done.young) == totals
    assert (place.refs, place.trash) == (refs(sent, young), refs(rolled_back, orphan))
    assert collect(large).trashed == FileTotal(0, 0)
    done = collect(large, trash_seconds=-60)
    assert (done.removed, done.in_trash) == (FileTotal(2, 29), FileTotal(0, 0))
    assert (place.refs, place.trash) == (refs(sent, young), set())
    assert sorted(path.name for path in place.path.iterdir() if path.is_dir()) == sorted(
        {".stores", ".trash", *(ref[:10] for ref in place.refs)}
    ), "folders that are empty go"


def test_a_message_keeps_its_file_from_store_to_store_until_the_last_one_dropped_it(large: World, place: Directory) -> None:
    """In the outbox, in the logs, and nowhere: the newest segment stays, so others follow."""
    first = place.write()
    send(large, first)
    assert collect(large).trashed.count == 0
    large.send_many(30)
    drop_all(large)
    assert large.value("airline", "select min(seq) > 1 from relaybox.outbox")
    large.query("analytics", "select relaybox.subscribe('reader', 'flights', 'latest')")
    assert (collect(large).trashed.count, place.refs) == (1, set()), "every log has dropped it"
    restore_files(place_of(large), stores_of(large), everything=True)
    assert place.refs == refs(first)


def test_a_subscription_keeps_the_file_in_the_last_store(large: World, place: Directory) -> None:
    large.query("analytics", "select relaybox.subscribe('reader', 'flights')")
    kept = place.write()
    send(large, kept)
    large.send_many(30)
    drop_all(large)
    for store in ("airline", "hub"):
        assert large.value(store, "select count(*) from relaybox_internal.sent_rows where headers is not null") == 0
        assert large.value(store, "select count(*) from relaybox_internal.log where headers is not null") == 0
    assert (collect(large).trashed.count, place.refs) == (0, refs(kept))
    large.query("analytics", "select relaybox.unsubscribe('reader')")
    drop_all(large)
    assert (collect(large).trashed.count, place.refs) == (1, set())


def test_a_dead_letter_keeps_its_file(large: World, place: Directory) -> None:
    large.query("analytics", "select relaybox.subscribe('reader', 'flights', nack_limit => 1)")
    kept = place.write()
    send(large, kept)
    large.send_many(30)
    large.transfer_all()
    large.query("analytics", "select relaybox.nack('reader', 1, 'no', min(token)) from relaybox.fetch('reader', 1)")
    large.query("analytics", "select relaybox.ack('reader', max(stream_position), min(token)) from relaybox.fetch('reader', 100)")
    drop_all(large)
    assert large.value("analytics", "select count(*) from relaybox.dead_letters") == 1
    assert (collect(large).trashed.count, place.refs) == (0, refs(kept))


def test_a_file_that_is_gone_for_good_is_named_until_its_message_is_dropped(large: World, place: Directory) -> None:
    """Whoever gives the message up drops its dead letter: then retention drops it as any other."""
    large.query("analytics", "select relaybox.subscribe('reader', 'flights', nack_limit => 1)")
    gone = place.write()
    send(large, gone)
    (place.path / gone.reference.ref).unlink()
    large.send_many(30)
    large.transfer_all()
    large.query("analytics", "select relaybox.nack('reader', 1, 'no file', min(token)) from relaybox.fetch('reader', 1)")
    large.query("analytics", "select relaybox.ack('reader', max(stream_position), min(token)) from relaybox.fetch('reader', 100)")
    drop_all(large)
    (named,) = collect(large).missing
    assert (named.store, named.ref) == ("analytics", gone.reference.ref)
    assert invoke("payloads", "check").exit_code == 1
    (letter,) = large.query("analytics", "select dead_letter_id from relaybox.dead_letters")[0]
    assert invoke("dead-letters", "drop", "analytics", str(letter), "--reason", "its file is gone").exit_code == 0
    drop_all(large)
    assert (collect(large).missing, invoke("payloads", "check").exit_code) == ((), 0)


@pytest.mark.parametrize(
    "insert",
    [
        pytest.param(
            "insert into relaybox_internal.adopted_row (adoption_id, message_id, topic, sender, headers, payload) "
            "select a.adoption_id, gen_random_uuid(), 'flights', 'UA', %s::jsonb, 'x' from relaybox_internal.adopted_table a",
            id="backlog of an adopted table",
        ),
        pytest.param(
            "insert into relaybox_internal.unmapped_row (adoption_id, problem, content) "
            "select a.adoption_id, 'no topic', json_build_object('headers', replace(%s, '/', '\\/'))::text "
            "from relaybox_internal.adopted_table a",
            id="rows that are set aside, with slashes as some libraries write them",
        ),
    ],
)
def test_what_waits_to_be_sent_keeps_its_file(large: World, place: Directory, insert: str) -> None:
    large.query(
        "hub",
        "insert into relaybox_internal.adopted_table (table_name, mapping, on_unmapped, state, template) "
        "values ('app.orders', '{}', 'set_aside', 'backlog', 1)",
    )
    kept, gone = place.write(), place.write()
    large.query("hub", insert, json.dumps(dict(kept.headers)))
    done = collect(large)
    assert (done.trashed.count, done.referenced.count, place.refs, place.trash) == (1, 1, refs(kept), refs(gone))


def test_a_place_whose_mark_was_lost_keeps_its_files(large: World, place: Directory) -> None:
    """As by a copy without hidden files. With a new mark no message refers to the place any more: their names still do."""
    kept, orphan = place.write(), place.write()
    send(large, kept)
    mark = json.loads((place.path / MARK).read_text())["place"]
    (place.path / MARK).unlink()
    with pytest.raises(errors.CollectionRefused, match=r"it has files of payloads, such as .* and no .relaybox-payloads.json"):
        prepare_place(place_of(large), stores_of(large), recorded_by="test")
    place.store.prepare()
    done = collect(large)
    assert (done.other_places, done.referenced.count, place.refs, place.trash) == ((mark,), 1, refs(kept), refs(orphan))
    assert f"by {mark}, the id of another place" in invoke("payloads", "collect").stdout


def test_a_place_that_is_changed_for_another_one_in_the_middle_is_left_alone(
    large: World, place: Directory, tmp_path: Path
) -> None:
    orphan = place.write()
    collecting = start_collecting(large, tmp_path, "payloads.decided=pause")
    wait_until((tmp_path / "hits.jsonl").exists, "all is decided", deadline_seconds=patience(60))
    content = (place.path / MARK).read_text()
    (place.path / MARK).write_text(json.dumps({"place": "another"}))
    (tmp_path / "payloads.decided.go").touch()
    _, stderr = collecting.communicate(timeout=patience(120))
    assert (collecting.returncode, place.refs, "another place was mounted" in stderr) == (5, refs(orphan), True)
    (place.path / MARK).write_text(content)
    assert collect(large).trashed.count == 1


def test_a_transaction_that_is_open_keeps_the_files_that_it_may_still_refer_to(large: World, place: Directory) -> None:
    """Also one that has done nothing yet. It is named, and no one waits for it."""
    with large.session() as connection, connection.cursor() as cursor:
        cursor.execute("set application_name = 'slow sender'; select 1")
        later = place.store.write("a")
        earlier = place.write(days=1)
        done = collect(large, grace_seconds=0)
        assert (done.trashed.count, done.young.count, place.refs) == (1, 1, refs(later))
        assert done.held_by is not None
        assert "store airline: slow sender (pid " in done.held_by
        assert place.trash == refs(earlier)
        put(cursor, "flights", "UA", later.payload, headers=later.headers)
        assert collect(large, grace_seconds=0).young.count == 1
        connection.commit()
    done = collect(large, grace_seconds=0)
    assert (done.referenced.count, done.young.count, done.held_by) == (1, 0, None)


def test_a_transaction_may_begin_up_to_the_grace_after_its_file(large: World, place: Directory) -> None:
    with large.session() as connection, connection.cursor() as cursor:
        cursor.execute("select 1")
        within, before = place.write(days=0.9), place.write(days=1.1)
        done = collect(large)
        assert (place.refs, place.trash) == (refs(within), refs(before))
        assert done.young.count == 1
        connection.rollback()


def test_a_prepared_transaction_that_sent_is_waited_for_and_named(large: World, place: Directory) -> None:
    """Nobody knows when it began. One that has sent nothing keeps nothing."""
    kept = place.write()
    with large.session() as connection:
        connection.tpc_begin("idle")
        with connection.cursor() as cursor:
            cursor.execute("create table public.other (n integer)")
        connection.tpc_prepare()
        assert collect(large, dry_run=True).trashed.count == 1
        connection.tpc_rollback("idle") if connection.status == psycopg2.extensions.STATUS_READY else connection.tpc_rollback()
    with large.session() as connection:
        connection.tpc_begin("sender")
        with connection.cursor() as cursor:
            put(cursor, "flights", "UA", kept.payload, headers=kept.headers)
        connection.tpc_prepare()
        with pytest.raises(errors.StoreBusy, match=r"prepared transaction 'sender'.*Nothing was removed"):
            collect(large)
        assert place.refs == refs(kept)
        with ThreadPoolExecutor() as pool:
            collecting = pool.submit(collect, large, patience_seconds=patience(60))
            connection.tpc_commit()
            assert collecting.result(patience(120)).referenced.count == 1
    assert place.refs == refs(kept)


def test_a_transaction_whose_beginning_is_hidden_is_waited_for(large: World, place: Directory, tmp_path: Path) -> None:
    """The login of the tasks may lack pg_read_all_stats: then it waits, and says what to grant."""
    place.write()
    large.query("airline", "create role hidden_tasks login password 'secret' in role relaybox_driver")
    services = tmp_path / "services.conf"
    before = services.read_text()
    try:
        sections = before.split("[airline]")
        head, rest = sections[0], sections[1]
        own, _, others = rest.partition("\n[")
        kept = "\n".join(line for line in own.splitlines() if not line.startswith(("user", "password")))
        services.write_text(f"{head}[airline]{kept}\nuser=hidden_tasks\npassword=secret\n{'[' + others if others else ''}")
        with psycopg2.connect(**_parameters(before, "airline")) as connection, connection.cursor() as cursor:
            cursor.execute("select 1")
            with pytest.raises(errors.StoreBusy, match="Grant it pg_read_all_stats"):
                collect(large)
            connection.rollback()
        assert collect(large).trashed.count == 1
    finally:
        services.write_text(before)
        large.query("airline", "drop owned by hidden_tasks; drop role hidden_tasks")


def _parameters(text: str, service: str) -> dict[str, str]:
    section = text.partition(f"[{service}]")[2].partition("[")[0]
    return dict(line.split("=", 1) for line in section.split() if "=" in line)


def test_while_references_are_read_no_store_drops_a_segment_and_says_why(large: World, place: Directory) -> None:
    """Else a message could move from a store that is read later into one that was read before."""
    send(large, place.write())
    large.send_many(30)
    large.transfer_all()
    large.settle_all()
    with stores_kept_still(stores_of(large)):
        done = retain_store(large.routes.store("airline"), recorded_by="test", patience_seconds=0)
        assert [(table.outcome, table.dropped_count) for table in done.tables if table.hop is None] == [("busy", 0)]
        assert "relaybox payloads (pid" in str(done.tables[0].holder)
    done = retain_store(large.routes.store("airline"), recorded_by="test", patience_seconds=0)
    assert next(table.dropped_count for table in done.tables if table.hop is None) == 3


def test_a_message_that_goes_round_while_stores_are_read_keeps_its_file(large: World, place: Directory, tmp_path: Path) -> None:
    """Sent on by a consumer against the order in which stores are read: from hub back to analytics' way, then dropped in hub."""
    content = yaml.safe_load(large.path.read_text())
    content["routes"]["back"] = {"topics": ["back"], "path": ["hub", "airline"], "retention": {"replay_window_seconds": 0}}
    large.path.write_text(yaml.safe_dump(content))
    large.register()
    large.query("hub", "select relaybox.subscribe('sender_on', 'flights')")
    kept = place.write()
    send(large, kept)
    large.send_many(30)
    large.transfer_all()
    large.settle_all()
    for store in ("airline", "analytics"):
        retain_store(large.routes.store(store), recorded_by="test", patience_seconds=0)
    assert large.value("airline", "select count(*) from relaybox_internal.sent_rows where headers is not null") == 0
    held_up = start_collecting(large, tmp_path, "payloads.read:1=pause")  # airline is read, hub is not
    wait_until((tmp_path / "hits.jsonl").exists, "airline is read", deadline_seconds=patience(60))
    with large.session("hub") as connection, connection.cursor() as cursor:
        cursor.execute("select stream_position, headers, payload, token from relaybox.fetch('sender_on', 100)")
        rows = cursor.fetchall()
        put(cursor, "back", "hub", rows[0][2], headers=rows[0][1])
        cursor.execute("select relaybox.ack('sender_on', %s, %s)", (rows[-1][0], rows[-1][3]))
        connection.commit()
    large.query(
        "hub", "insert into relaybox.outbox (topic, sender, payload) select 'back', 'hub', n::text from generate_series(1, 30) n"
    )
    (back,) = large.routes.route("back").hops
    large.transfer(back)
    settle_hop(large.routes.route("back"), back, recorded_by="test")
    retain_store(large.routes.store("hub"), recorded_by="test", patience_seconds=0)
    (tmp_path / "payloads.read.go").touch()
    stdout, stderr = held_up.communicate(timeout=patience(120))
    assert held_up.returncode == 0, stderr
    assert place.refs == refs(kept), stdout


def start_collecting(world: World, directory: Path, failpoints: str) -> Any:
    """The command in a process of its own, with these failpoints."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {"FAILPOINTS": failpoints, "FAILPOINTS_DIRECTORY": str(directory), "ENVIRONMENT": "test"}.items():
            patch.setenv(f"RELAYBOX_{name}", value)
        return start("payloads", "collect")


@pytest.mark.parametrize("moment", ["payloads.asked", "payloads.read"])
def test_a_file_whose_message_commits_while_stores_are_read_stays(
    large: World, place: Directory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    """Its transaction is open when its store is asked since when transactions are open, and commits before or after it is read."""
    for name, value in {"FAILPOINTS": f"{moment}:1=pause", "FAILPOINTS_DIRECTORY": str(tmp_path), "ENVIRONMENT": "test"}.items():
        monkeypatch.setenv(f"RELAYBOX_{name}", value)
    with large.session() as sender, ThreadPoolExecutor() as pool, sender.cursor() as cursor:
        cursor.execute("select 1")
        kept = place.store.write("a")
        put(cursor, "flights", "UA", kept.payload, headers=kept.headers)
        collecting = pool.submit(collect, large, grace_seconds=0)
        wait_until((tmp_path / "hits.jsonl").exists, "airline is asked", deadline_seconds=patience(60))
        sender.commit()
        (tmp_path / f"{moment}.go").touch()
        assert collecting.result(patience(120)).trashed.count == 0
    assert place.refs == refs(kept)


def test_a_file_that_was_not_listed_before_the_references_stays(large: World, place: Directory, tmp_path: Path) -> None:
    """The clock of its writer, and that of the disk, is three days behind."""
    collecting = start_collecting(large, tmp_path, "payloads.read:3=pause")
    wait_until((tmp_path / "hits.jsonl").exists, "all are read", deadline_seconds=patience(60))
    kept = place.write(days=3)
    send(large, kept)
    (tmp_path / "payloads.read.go").touch()
    assert collecting.wait(patience(120)) == 0
    assert place.refs == refs(kept)


def test_a_store_that_ends_the_reading_ends_the_collection(large: World, place: Directory, tmp_path: Path) -> None:
    """What its messages refer to may have moved since."""
    orphan = place.write()
    collecting = start_collecting(large, tmp_path, "payloads.read:3=pause")
    wait_until((tmp_path / "hits.jsonl").exists, "all are read", deadline_seconds=patience(60))
    large.query(
        "airline",
        "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'relaybox payloads' and datname = current_database()",
    )
    (tmp_path / "payloads.read.go").touch()
    _, stderr = collecting.communicate(timeout=patience(120))
    assert (collecting.returncode, place.refs) == (4, refs(orphan))
    assert "without it nothing is removed" in stderr


@pytest.mark.parametrize("broken", ["unreachable", "not initialised", "another store"])
def test_without_the_answer_of_a_store_nothing_is_removed(
    large: World, place: Directory, tmp_path: Path, broken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also of one that no route uses."""
    orphan = place.write()
    if broken == "another store":
        content = yaml.safe_load(large.path.read_text())
        content["stores"]["spare"] = {"service": "spare"}
        large.path.write_text(yaml.safe_dump(content))
        services = tmp_path / "services.conf"
        services.write_text(
            services.read_text() + services.read_text().partition("[hub]")[2].join(["\n[spare]", ""]).partition("\n[airline]")[0]
        )
    elif broken == "not initialised":
        large.query("analytics", "drop schema relaybox cascade; drop schema relaybox_internal cascade")
    else:
        services = tmp_path / "services.conf"
        services.write_text(services.read_text().replace("[analytics]", "[analytics]\nport=1\n[was_analytics]"))
    kinds = {
        "unreachable": errors.StoreUnreachable,
        "not initialised": errors.StoreNotInitialised,
        "another store": errors.RelayboxError,
    }
    with pytest.raises(kinds[broken], match=r"analytics|spare"):
        collect(large)
    assert (place.refs, place.trash) == (refs(orphan), set())
    run = invoke("payloads", "collect", "--json")
    assert run.exit_code == (4 if broken == "unreachable" else 5)
    assert run.document["places"] == []


def test_a_place_that_does_not_remember_its_stores_is_not_collected(large: World, tmp_path: Path) -> None:
    """A place of before: whether other installations use it, only a person knows."""
    add_place(large, tmp_path / "old")
    old = Directory(PayloadStore(tmp_path / "old"))
    old.store.prepare()
    orphan = old.write()
    with pytest.raises(
        errors.CollectionRefused, match="If messages of no other stores than airline, analytics, hub refer to it: relaybox"
    ):
        collect(large)
    assert old.refs == refs(orphan)
    assert invoke("payloads", "prepare", PLACE).exit_code == 0
    assert collect(large).trashed.count == 1


def test_a_store_that_relaybox_yaml_lost_stops_the_collection(large: World, place: Directory) -> None:
    """An older file, or that of another installation: its messages may need the files. A person may say that they do not."""
    orphan = place.write()
    content = yaml.safe_load(large.path.read_text())
    del content["stores"]["analytics"]
    content["routes"]["flights"]["path"] = ["airline", "hub"]
    older = large.path.with_name("older.yaml")
    older.write_text(yaml.safe_dump(content))
    with pytest.raises(errors.CollectionRefused, match=r"relaybox.yaml does not have may need it: analytics \(id "):
        collect(large, load_routes(older))
    assert place.refs == refs(orphan)
    with pytest.raises(errors.CollectionRefused, match="no store with the name or id 'nobody'"):
        forget_place_store(place_of(large), stores_of(large), "nobody", reason="why", recorded_by="test")
    with pytest.raises(errors.CollectionRefused, match=r"relaybox.yaml still has store analytics: .* Nothing was changed"):
        forget_place_store(place_of(large), stores_of(large), "analytics", reason="dropped", recorded_by="test")
    older_stores = list(load_routes(older).stores.values())
    forget_place_store(place_of(large), older_stores, "analytics", reason="dropped", recorded_by="test")
    assert collect(large, load_routes(older)).trashed.count == 1
    assert collect(large).recorded == ("analytics",), "it is asked again as soon as the file has it"


def test_a_store_that_is_new_in_relaybox_yaml_is_remembered_before_anything_goes(large: World, place: Directory) -> None:
    for path in (place.path / ".stores").iterdir():
        if json.loads(path.read_text())["store"] == "hub":
            path.unlink()
    place.write()
    done = collect(large)
    assert (done.recorded, done.trashed.count) == (("hub",), 1)
    assert len(list((place.path / ".stores").iterdir())) == 3


def test_a_store_that_is_too_new_for_relaybox_yaml_stops_the_collection(large: World, tmp_path: Path) -> None:
    """No collection has asked it yet, so the place does not remember it. The store at the other end of its hop does."""
    content = yaml.safe_load(large.path.read_text())
    content["payloads"][PLACE]["location"] = str(tmp_path / "new")
    large.path.write_text(
        yaml.safe_dump(
            {**content, "routes": {**content["routes"], "later": {"topics": ["later"], "path": ["analytics", "airline"]}}}
        )
    )
    del content["stores"]["analytics"]
    content["routes"]["flights"]["path"] = ["airline", "hub"]
    older = large.path.with_name("older.yaml")
    older.write_text(yaml.safe_dump(content))
    prepare_place(place_of(large), list(load_routes(older).stores.values()), recorded_by="test")
    place = Directory(PayloadStore(tmp_path / "new"))
    place.write()
    assert collect(large, load_routes(older)).trashed.count == 1, "of hops of before, prepare has said that they need nothing"
    large.register()
    needed = place.write()
    with large.session("analytics") as connection, connection.cursor() as cursor:
        put(cursor, "later", "UA", needed.payload, headers=needed.headers)
        connection.commit()
    with pytest.raises(
        errors.CollectionRefused, match=r"not have store analytics, .* hop later/1 connects it with store airline since"
    ):
        collect(large, load_routes(older))
    assert place.refs == refs(needed)
    older_stores = list(load_routes(older).stores.values())
    with pytest.raises(errors.CollectionRefused, match="no store with the name or id 'nobody'"):
        forget_place_store(place_of(large), older_stores, "nobody", reason="why", recorded_by="test")
    forget_place_store(place_of(large), older_stores, "analytics", reason="given up", recorded_by="test")
    assert collect(large, load_routes(older)).trashed.count == 1
    assert collect(large).recorded == ("analytics",), "it is asked again as soon as the file has it"
    assert place.refs == refs(needed)
    with pytest.raises(errors.CollectionRefused, match=r"analytics \(id "):
        collect(large, load_routes(older))


def test_init_lets_a_place_remember_a_new_store(large: World, tmp_path: Path, backups: Backups) -> None:
    """Else nobody knows it once the store at the other end of its hop is restored to a time before, as long as no collection asked it."""
    before = yaml.safe_load(large.path.read_text())
    before["payloads"][PLACE]["location"] = str(tmp_path / "new")
    del before["stores"]["analytics"]
    before["routes"]["flights"]["path"] = ["airline", "hub"]
    older = large.path.with_name("older.yaml")
    older.write_text(yaml.safe_dump(before))
    place = Directory(PayloadStore(tmp_path / "new"))
    unprepared = invoke("--config", str(older), "init", "airline")
    assert (unprepared.exit_code, "warning: payloads pictures: it may not remember all stores" in unprepared.stderr) == (0, True)
    prepare_place(load_routes(older).payload_place(PLACE), list(load_routes(older).stores.values()), recorded_by="test")
    backup = backups.take("airline")
    before["stores"]["analytics"] = {}
    before["routes"]["later"] = {"topics": ["later"], "path": ["airline", "analytics"]}
    large.path.write_text(yaml.safe_dump(before))
    assert "analytics" not in invoke("init", "--dry-run").stderr
    assert "payloads pictures: it remembers analytics now" in invoke("init").stderr
    assert "remembers" not in invoke("init").stderr
    needed = place.write()
    with large.session("airline") as connection, connection.cursor() as cursor:
        put(cursor, "later", "UA", needed.payload, headers=needed.headers)
        connection.commit()
    large.transfer(large.routes.routes["later"].hops[0])
    backups.restore("airline", backup)
    with pytest.raises(errors.CollectionRefused, match=r"relaybox.yaml does not have may need it: analytics \(id "):
        collect(large, load_routes(older))
    assert place.refs == refs(needed)


def test_init_leaves_what_a_person_has_to_say_of_a_place(large: World, place: Directory) -> None:
    """Of a place that remembers no store, of a forgotten one, and of one in another cluster."""
    hub = next(path for path in (place.path / ".stores").iterdir() if json.loads(path.read_text())["store"] == "hub")
    hub.write_text(json.dumps({**json.loads(hub.read_text()), "system_identifier": 7}))
    others = [store for store in stores_of(large) if store.name != "analytics"]
    forget_place_store(place_of(large), others, "analytics", reason="dropped", recorded_by="test")
    content = {path.name: path.read_text() for path in hub.parent.iterdir()}
    assert invoke("init").stderr == ""
    assert {path.name: path.read_text() for path in hub.parent.iterdir()} == content
    for path in hub.parent.iterdir():
        path.unlink()
    assert (invoke("init").stderr, list(hub.parent.iterdir())) == ("", [])


def test_a_store_that_was_forgotten_and_connected_again_is_forgotten_again(large: World, place: Directory) -> None:
    """The command that the error names works each time. The place remembers the store by its id, and then by its name too."""
    content = yaml.safe_load(large.path.read_text())
    del content["stores"]["analytics"]
    content["routes"]["flights"]["path"] = ["airline", "hub"]
    older = large.path.with_name("older.yaml")
    older.write_text(yaml.safe_dump(content))
    older_stores = list(load_routes(older).stores.values())
    for later in ("later1", "later2", "later3"):
        forget_place_store(place_of(large), older_stores, "analytics", reason="dropped", recorded_by="test")
        place.write()
        assert collect(large, load_routes(older)).trashed.count == 1
        newer = yaml.safe_load(large.path.read_text())
        newer["routes"][later] = {"topics": [later], "path": ["analytics", "airline"]}
        large.path.write_text(yaml.safe_dump(newer))
        large.register()
        with pytest.raises(errors.CollectionRefused, match="not have store analytics") as refused:
            collect(large, load_routes(older))
        assert f"relaybox payloads forget {PLACE} analytics --reason" in refused.value.next_step


@pytest.mark.parametrize("newest_is_first", [True, False])
def test_the_newest_time_at_which_a_store_was_forgotten_counts(newest_is_first: bool, tmp_path: Path) -> None:
    """In whatever order the files of the place are listed."""
    hub = PlaceStore(StoreIdentity("hub", "1", 1), AT, "test")
    forgotten = [
        PlaceStore(StoreIdentity("analytics", id_, 1), AT + timedelta(days=days), "test", "dropped")
        for id_, days in (("2", 3), ("analytics", 1))
    ]
    remembered = [hub, *(forgotten if newest_is_first else reversed(forgotten))]
    for days, is_forgotten in ((2, True), (4, False)):
        neighbour = Neighbour("hub", "flights/2", "analytics", AT + timedelta(days=days))
        with nullcontext() if is_forgotten else pytest.raises(errors.CollectionRefused):
            require_neighbours_known(DirectoryFiles(tmp_path), PLACE, remembered, [hub.identity], [neighbour])


def test_of_two_stores_of_one_name_the_command_names_the_one_that_is_gone(large: World, place: Directory) -> None:
    """A store that was made anew, and recorded by prepare: its name alone does not say which of them is to be forgotten."""
    place.write()
    gone = str(uuid.uuid4())
    hub = next(path for path in (place.path / ".stores").iterdir() if json.loads(path.read_text())["store"] == "hub")
    (hub.parent / f"{gone}.json").write_text(json.dumps({**json.loads(hub.read_text()), "store_id": gone}))
    with pytest.raises(errors.CollectionRefused) as refused:
        collect(large)
    assert f"relaybox payloads forget {PLACE} {gone} --reason" in refused.value.next_step
    assert invoke("payloads", "forget", PLACE, gone, "--reason", "made anew").exit_code == 0
    assert collect(large).trashed.count == 1


@pytest.mark.parametrize("recorded_at", ["yesterday", "2026-11-01T00:00:00", 7, None])
def test_a_store_that_was_recorded_at_no_time_is_told_as_damaged(large: World, place: Directory, recorded_at: object) -> None:
    """By the file, before anything is compared with it."""
    path = next((place.path / ".stores").iterdir())
    path.write_text(json.dumps({**json.loads(path.read_text()), "recorded_at": recorded_at}))
    with pytest.raises(errors.CollectionRefused, match=rf"{path.name} is damaged"):
        collect(large)


def test_a_store_in_another_cluster_is_confirmed_by_a_person(large: World, place: Directory) -> None:
    """A copy for tests, with the same files mounted, lacks the newest messages."""
    place.write()
    for path in (place.path / ".stores").iterdir():
        content = json.loads(path.read_text())
        path.write_text(json.dumps({**content, "system_identifier": content["system_identifier"] + (content["store"] == "hub")}))
    with pytest.raises(errors.CollectionRefused, match=r"other clusters than before: hub \(was in cluster"):
        collect(large)
    assert prepare_place(place_of(large), stores_of(large), recorded_by="test").recorded == ("hub",)
    assert collect(large).trashed.count == 1


def test_two_collections_at_once_move_each_file_once(large: World, place: Directory) -> None:
    """The second one waits until the first has read; then both move."""
    kept, orphans = place.write(), [place.write() for _ in range(20)]
    send(large, kept)
    with ThreadPoolExecutor(2) as pool:
        done = list(pool.map(lambda _: collect(large), range(2)))
    assert sum(one.trashed.count for one in done) == 20
    assert (place.refs, place.trash) == (refs(kept), refs(*orphans))


def test_a_collection_beside_another_one_that_reads_fails_and_removes_nothing(large: World, place: Directory) -> None:
    orphan = place.write()
    with stores_kept_still([large.routes.store("hub")]), pytest.raises(errors.StoreBusy, match="relaybox payloads"):
        collect(large)
    assert place.refs == refs(orphan)


@pytest.mark.parametrize("failpoint", PAYLOAD_FAILPOINTS)
def test_a_collection_that_is_killed_at_any_step_is_gone_on_with(
    large: World, place: Directory, tmp_path: Path, failpoint: str
) -> None:
    """Nothing that a message refers to is gone after the kill, and the next run does the rest."""
    assert failpoint in PAYLOAD_FAILPOINTS
    kept, back, orphans = place.write(), place.write(), [place.write() for _ in range(3)]
    send(large, kept)
    collect(large)  # back and orphans are in the trash
    send(large, back)  # as a store that was restored has it
    more = [place.write() for _ in range(3)]
    kill_at(failpoint, tmp_path, lambda: collect(large, trash_seconds=-60))
    assert refs(kept) <= place.refs
    assert back.reference.ref in place.refs | place.trash
    done = collect(large)
    assert done.referenced.count + done.put_back.count == 2
    assert collect(large, trash_seconds=-60).in_trash.count == 0
    assert (place.refs, place.trash) == (refs(kept, back), set())
    assert not refs(*orphans, *more) & place.refs


def test_what_a_restored_store_refers_to_comes_back_from_the_trash(large: World, place: Directory) -> None:
    """Its messages are older than the collection. Consumers refuse them until then, and the error says where to look."""
    back, other = place.write("a"), place.write("b")
    collect(large)
    send(large, back)
    with pytest.raises(errors.PayloadMissing, match="relaybox payloads restore"):
        place.store.read(_Sent(back.headers))
    done = restore_files(place_of(large), stores_of(large))
    assert (done.restored.count, done.in_trash.count, place.refs) == (1, 1, refs(back))
    (place.path / back.reference.ref).unlink()
    assert invoke("payloads", "restore", PLACE, "--all").exit_code == 0
    assert place.refs == refs(other)
    send(large, other)
    collect(large)
    assert place.refs == refs(other)
    assert collect(large).put_back.count == 0


class _Sent:
    def __init__(self, headers: Any) -> None:
        self.headers = headers


def test_a_collection_brings_back_what_messages_refer_to(large: World, place: Directory) -> None:
    back = place.write()
    collect(large)
    send(large, back)
    done = collect(large, trash_seconds=-60)
    assert (done.put_back.count, done.removed.count, place.refs) == (1, 0, refs(back))


def test_a_file_that_another_run_takes_out_of_the_trash_meanwhile_is_counted_nowhere(large: World, place: Directory) -> None:
    place.write()
    collect(large)

    def take_out(doing: str, _: int) -> None:
        if doing == "files looked at":
            next((place.path / ".trash").rglob("*-*-*/*")).unlink()

    done = restore_files(place_of(large), stores_of(large), everything=True, progress=take_out)
    assert (done.restored, done.in_trash) == (FileTotal(0, 0), FileTotal(0, 0))


def test_only_files_of_relaybox_are_touched(large: World, place: Directory, tmp_path: Path) -> None:
    """Names of others stay, links are not followed, and what a killed writer left goes when it is old."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "2026-01-01").mkdir()
    (place.path / "notes.txt").write_text("mine")
    day = place.path / "2026-01-01"
    day.mkdir()
    (day / "20260101T000000Z-mine.txt").write_text("mine")
    (place.path / "2026-01-02").symlink_to(outside / "2026-01-01")
    (outside / "2026-01-01" / f"20260101T000000Z-{'a' * 32}").write_text("mine")
    old, new = (f"2026-01-01/20260101T000000Z-{letter * 32}.partial" for letter in "bc")
    for name in (old, new):
        (place.path / name).write_text("half")
    os.utime(place.path / old, (0, 0))
    done = collect(large)
    assert (done.partial_count, done.unknown_count, done.trashed.count) == (1, 3, 0)
    assert place.others == {"notes.txt", "2026-01-01/20260101T000000Z-mine.txt", new}
    assert list((outside / "2026-01-01").iterdir())


@pytest.mark.parametrize("folder", [".trash", ".stores"])
def test_a_link_in_place_of_a_folder_stops_the_collection(large: World, place: Directory, tmp_path: Path, folder: str) -> None:
    """Files would go through it, and nothing would find them there again."""
    sent = place.write()
    send(large, sent)
    (place.path / ".trash").mkdir()
    linked = place.path / folder
    linked.rename(tmp_path / "elsewhere")
    linked.symlink_to(tmp_path / "elsewhere")
    for call in (collect, lambda world: restore_files(place_of(world), stores_of(world))):
        with pytest.raises(errors.PayloadsUnavailable, match=rf"a link is in place of a folder.*{folder}"):
            call(large)
    assert place.store.read(_Sent(sent.headers)) == "content"


def test_a_file_is_kept_for_as_long_as_the_place_says(large: World, place: Directory) -> None:
    """For a table of a lake, which keeps references longer than the stores."""
    younger, older = place.write(days=9), place.write(days=11)
    assert collect(large, keep_seconds=10 * 86400).young.count == 1
    assert (place.refs, place.trash) == (refs(younger), refs(older))


def test_a_place_that_is_not_mounted_is_named(large: World, place: Directory, tmp_path: Path) -> None:
    place.path.rename(tmp_path / "elsewhere")
    place.path.mkdir()
    for command in ("list", "check", "collect"):
        run = invoke("payloads", command, "--json")
        assert (run.exit_code, run.document["places"]) == (4, []), command
        assert "not mounted" in run.document["errors"][PLACE]


AT = datetime(2026, 11, 1, tzinfo=UTC)
HOURS = st.integers(0, 200)


@given(
    files=st.dictionaries(st.integers(0, 30), HOURS),
    trash=st.dictionaries(st.integers(0, 30), HOURS),
    referenced=st.sets(st.integers(0, 30)),
    cutoff=HOURS,
    keep=HOURS,
    expired=HOURS,
)
@settings(max_examples=300)
def test_a_plan_never_removes_what_is_referred_to_or_young(
    *, files: dict[int, int], trash: dict[int, int], referenced: set[int], cutoff: int, keep: int, expired: int
) -> None:
    """Every file is in one list; and each that a message refers to ends where readers look, if it is anywhere."""

    def name(number: int) -> str:
        return f"2026-11-01/20261101T000000Z-{number:032x}"

    def at(hours: int) -> datetime:
        return AT + timedelta(hours=hours)

    listing = PlaceListing(
        {name(number): StoredFile(name(number), 1, at(hours)) for number, hours in files.items()},
        [TrashedFile(name(number), f".trash/t/{name(number)}", 1, at(hours)) for number, hours in trash.items()],
    )
    tails = {name(number).partition("/")[2] for number in referenced if number % 2}
    wanted = {name(number) for number in referenced if not number % 2}
    references = PlaceReferences(wanted, len(wanted), tails, (), 0, at(cutoff), None, ())
    plan = plan_collection(listing, references, keep_before=at(keep), trash_before=at(expired))
    assert len(plan.referenced) + len(plan.young) + len(plan.to_trash) == len(files)
    assert len(plan.to_put_back) + len(plan.to_remove) + len(plan.in_trash) == len(trash)
    there = {one.ref for one in (*plan.referenced, *plan.young, *plan.to_put_back)}
    assert {name(number) for number in referenced & (files.keys() | trash.keys())} <= there
    assert all(one.since < min(at(cutoff), at(keep)) for one in plan.to_trash)
    assert all(one.trashed_at < at(expired) for one in plan.to_remove)


def detach_oldest(world: World, store: str = "analytics") -> None:
    """Moves the oldest segment of the store's log out of it, as if its files were written."""
    begun = world.query(store, "select first, attempt from relaybox_internal.begin_detach(1, 'test')")
    assert begun
    assert (
        world.value(store, "select outcome from relaybox_internal.drop_oldest_segment(1, 'test', %s, %s)", *begun[0])
        == "detached"
    )


@pytest.fixture
def detached(large: World, place: Directory) -> tuple[World, Directory, set[str]]:
    """The only message that refers to a file is in a detached segment of the last store."""
    large.query("analytics", "select relaybox.subscribe('dead', 'flights')")
    kept = place.write()
    send(large, kept)
    large.send_many(30)
    drop_all(large)
    large.query(
        "analytics",
        "update relaybox_internal.hop_in set stopped_consumer = 'detach', detach_after_seconds = 3600, detach_to = '/files/'",
    )
    put_back(large, "decision.decided_at", 24, store="analytics")
    put_back(large, "cursor.moved_at", 24, store="analytics")
    detach_oldest(large)
    assert large.value("analytics", "select count(*) from relaybox_internal.log where headers ? 'relaybox-payload'") == 0
    return large, place, refs(kept)


def test_a_detached_segment_keeps_its_files_until_no_consumer_needs_it(detached: tuple[World, Directory, set[str]]) -> None:
    """Its references are in the store: no file of the segment is read."""
    world, place, kept = detached
    assert (collect(world).referenced.count, place.refs) == (1, kept)
    world.query("analytics", "select relaybox.unsubscribe('dead')")
    retain_store(world.routes.store("analytics"), recorded_by="test")
    assert world.value("analytics", "select count(*) from relaybox_internal.detached_payload") == 0
    assert (collect(world).trashed.count, place.refs) == (1, set())


def test_a_segment_that_an_earlier_version_detached_stops_the_collection(detached: tuple[World, Directory, set[str]]) -> None:
    """What its messages refer to is in its files only."""
    world, place, kept = detached
    world.query(
        "analytics",
        "update relaybox_internal.detached_segment set payloads_listed = false; delete from relaybox_internal.detached_payload",
    )
    with pytest.raises(
        errors.CollectionRefused, match=r"0 to 9 of flights/2 were detached.*Run: relaybox attach analytics flights/2"
    ):
        collect(world)
    assert place.refs == kept
    run = invoke("payloads", "list", "--json")
    assert (run.exit_code, list(run.document["places"][0]["errors"])) == (5, ["analytics"])
