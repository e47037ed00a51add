"""`relaybox init` leaves alone what is not its own: it replaces functions and views, and drops nothing on which others depend."""

from __future__ import annotations

import re
import shutil
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from relaybox import errors
from relaybox.stores.init.one_store import StoreInitialised, initialise_store
from relaybox.stores.schema import migrations
from tests.support.patience import patience
from tests.support.world import World, wait_until

pytestmark = pytest.mark.thorough

STORE = "hub"
OTHERS = """
create schema app;
create table app.orders (id integer, segment text default relaybox_internal.segment_name('app', 1));
create view app.arrived as select message_id, log_position from relaybox.inbox;
create materialized view app.counted as select count(*) as messages from relaybox.inbox;
create function app.newest() returns bigint language sql begin atomic select max(log_position) from relaybox.inbox; end;
create function app.of_rows(one relaybox.inbox) returns text language sql return one.topic;
create view app.named as select relaybox_internal.segment_name('app', id) from app.orders;
create function app.named() returns text language sql return relaybox_internal.segment_name('app', 1);
create index orders_by_segment on app.orders (relaybox_internal.segment_name('app', id));
alter table app.orders add constraint named check (relaybox_internal.segment_name('app', id) <> '');
alter table app.orders enable row level security;
create policy arrived on app.orders using (exists (select from relaybox.inbox i where i.log_position = id));
create policy named on app.orders using (relaybox_internal.segment_name('app', id) = segment);
create function app.refuse() returns trigger language plpgsql as $$ begin return null; end $$;
create trigger refused instead of insert on relaybox.inbox for each row execute function app.refuse();
create rule ignored as on delete to relaybox.inbox do instead nothing;
create view relaybox.mine as select hop from relaybox.inbox;
create function relaybox.mine() returns integer language sql as 'select 1';
"""
ON_THE_VIEW = {
    "view app.arrived": "drop view app.arrived",
    "materialized view app.counted": "drop materialized view app.counted",
    "function app.newest()": "drop function app.newest()",
    "function app.of_rows(relaybox.inbox)": "drop function app.of_rows(relaybox.inbox)",
    "policy arrived on table app.orders": "drop policy arrived on app.orders",
    "trigger refused on view relaybox.inbox": "drop trigger refused on relaybox.inbox",
    "rule ignored on view relaybox.inbox": "drop rule ignored on relaybox.inbox",
    "view relaybox.mine": "drop view relaybox.mine",
}
ON_THE_FUNCTION = {
    "default value for column segment of table app.orders": "alter table app.orders alter segment drop default",
    "view app.named": "drop view app.named",
    "function app.named()": "drop function app.named()",
    "index app.orders_by_segment": "drop index app.orders_by_segment",
    "constraint named on table app.orders": "alter table app.orders drop constraint named",
    "policy named on table app.orders": "drop policy named on app.orders",
}
LOOK = """
select jsonb_object_agg(what, which) from (
    select c.oid::regclass::text || ' relation' as what, c.oid::text || coalesce(c.relacl::text, '') as which
    from pg_class c where c.relnamespace = 'app'::regnamespace or c.relname in ('mine', 'inbox')
    union all
    select p.oid::regprocedure::text, p.oid::text || coalesce(p.proacl::text, '') from pg_proc p
    where p.pronamespace = 'app'::regnamespace or p.pronamespace in ('relaybox'::regnamespace, 'relaybox_internal'::regnamespace)
    union all
    select polname || ' policy', oid::text from pg_policy
    union all
    select tgname || ' trigger', oid::text from pg_trigger where not tgisinternal
    union all
    select rulename || ' rule', w.oid::text from pg_rewrite w join pg_class c on c.oid = w.ev_class where c.relname = 'inbox'
    union all
    select 'default', oid::text from pg_attrdef where adrelid = 'app.orders'::regclass
    union all
    select attname || ' column of inbox', attacl::text from pg_attribute where attrelid = to_regclass('relaybox.inbox') and attacl is not null
) found
"""
"""Everything that must be there afterwards as before, with the oids and the rights of each."""

Change = Callable[[str, str, str], None]


@pytest.fixture
def change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Change:
    """Changes a file of `sql/` as the next version might: a text in it becomes another. An empty text removes the file."""
    directory = tmp_path / "sql"
    shutil.copytree(migrations.sql_directory(), directory)
    monkeypatch.setattr(migrations, "sql_directory", lambda: directory)

    def write(name: str, before: str, after: str) -> None:
        (path,) = directory.rglob(name)
        assert before in path.read_text()
        if after:
            path.write_text(path.read_text().replace(before, after, 1))
        else:
            path.unlink()

    return write


@pytest.fixture
def beside(world: World) -> Iterator[World]:
    """A store with objects of others on every kind of edge, and a role with rights of its own."""
    world.send("one", "two")
    world.transfer()
    world.query(STORE, OTHERS)
    with reader(world, STORE):
        yield world


@contextmanager
def reader(world: World, service: str) -> Iterator[None]:
    """A role of the user, with rights on our objects that were granted directly."""
    for statement in (
        "create role others_reader",
        "grant usage on schema relaybox to others_reader",
        "grant select on relaybox.inbox to others_reader with grant option",
        "grant select (payload), update (topic) on relaybox.inbox to others_reader",
        "grant execute on function relaybox_internal.segment_name(text, bigint) to others_reader",
    ):
        world.query(service, statement)
    yield
    world.query(service, "drop owned by others_reader")
    world.query(service, "drop role others_reader")


def init(world: World) -> StoreInitialised:
    return initialise_store(world.routes.store(STORE), world.routes)


def found(world: World, service: str = STORE) -> Mapping[str, str]:
    seen: dict[str, str] = world.value(service, LOOK)
    if "app.counted relation" in seen:
        seen["counted"] = str(world.value(service, "select messages from app.counted"))
    return seen


def test_an_upgrade_keeps_every_object_of_others_and_every_right(beside: World) -> None:
    """All functions and views are applied again: nothing of others, no oid and no grant changes."""
    before = found(beside)
    beside.query(STORE, "update relaybox_internal.installed_object set digest = 'older'")
    assert init(beside).functions_renewed
    assert found(beside) == before
    assert before["counted"] == "2"
    assert not init(beside).changed


def test_only_the_files_that_changed_are_applied(beside: World, change: Change) -> None:
    """A new column at the end of a view fits into it: what depends on the view stays."""
    before = found(beside)
    version = "select oid || ' ' || xmin from pg_proc where oid = 'relaybox_internal.segment_name(text, bigint)'::regprocedure"
    untouched = beside.value(STORE, version)
    change("inbox.sql", "l.clock, l.sent_at", "l.clock, l.sent_at, l.sender as sent_by")
    assert init(beside).functions_renewed
    assert found(beside) == before
    assert beside.value(STORE, "select count(sent_by) from relaybox.inbox") == 2
    assert beside.value(STORE, version) == untouched


def test_what_depends_on_a_view_whose_columns_changed_is_named_one_and_all(beside: World, change: Change) -> None:
    """`create or replace` refuses another order of columns. The store is as before; without the objects the view is made anew."""
    before = found(beside)
    change("inbox.sql", "i.hop, l.log_position, l.message_id", "i.hop, l.message_id, l.log_position")
    with pytest.raises(errors.ObjectsInTheWay, match=r"must drop view relaybox.inbox, whose columns changed\.") as refused:
        init(beside)
    assert_named(str(refused.value), ON_THE_VIEW)
    assert found(beside) == before
    for drop in ON_THE_VIEW.values():
        beside.query(STORE, drop)
    assert init(beside).functions_renewed
    assert beside.value(
        STORE, "select array_agg(attname order by attnum) from pg_attribute where attrelid = 'relaybox.inbox'::regclass"
    )[1:3] == ["message_id", "log_position"]
    assert_rights_kept(before, found(beside))


def test_what_depends_on_a_function_whose_result_changed_is_named_one_and_all(beside: World, change: Change) -> None:
    before = found(beside)
    change("segment_name.sql", "returns text", "returns varchar")
    with pytest.raises(
        errors.ObjectsInTheWay,
        match=r"must drop function relaybox_internal.segment_name\(.*\), whose parameters or result changed\.",
    ) as refused:
        init(beside)
    assert_named(str(refused.value), ON_THE_FUNCTION)
    assert found(beside) == before
    for drop in ON_THE_FUNCTION.values():
        beside.query(STORE, drop)
    assert init(beside).functions_renewed
    assert_rights_kept(before, found(beside))


@pytest.mark.parametrize(("kept", "objects"), [(one, objects) for objects in (ON_THE_VIEW, ON_THE_FUNCTION) for one in objects])
def test_one_dependent_object_is_enough_to_stop_and_stays(
    beside: World, change: Change, kept: str, objects: Mapping[str, str]
) -> None:
    """Each kind of object by itself."""
    for name, drop in objects.items():
        if name != kept:
            beside.query(STORE, drop)
    change("inbox.sql", "i.hop, l.log_position, l.message_id", "i.hop, l.message_id, l.log_position")
    change("segment_name.sql", "returns text", "returns varchar")
    for drop in (ON_THE_FUNCTION if objects is ON_THE_VIEW else ON_THE_VIEW).values():
        beside.query(STORE, drop)
    before = found(beside)
    with pytest.raises(errors.ObjectsInTheWay) as refused:
        init(beside)
    assert_named(str(refused.value), [kept])
    assert found(beside) == before


def test_a_function_that_disappeared_is_dropped_only_if_nobody_depends_on_it(beside: World, change: Change) -> None:
    """Names that others gave to objects in our schema are no business of ours."""
    change(
        "ensure_log_segments.sql",
        "relaybox_internal.segment_name(format('log_%s', log_id_), k)",
        "format('log_%s_s%s', log_id_, lpad(k::text, 6, '0'))",
    )
    change(
        "refuse_unlogged.sql",
        "relaybox_internal.segment_name(format('log_%s', log_id_), n.number)",
        "format('log_%s_s%s', log_id_, lpad(n.number::text, 6, '0'))",
    )
    change("segment_name.sql", "create", "")
    with pytest.raises(errors.ObjectsInTheWay, match="which is not part of this version") as refused:
        init(beside)
    assert_named(str(refused.value), ON_THE_FUNCTION)
    for drop in ON_THE_FUNCTION.values():
        beside.query(STORE, drop)
    assert init(beside).functions_renewed
    assert beside.value(STORE, "select to_regproc('relaybox_internal.segment_name')") is None
    assert beside.value(STORE, "select relaybox.mine()") == 1


def test_a_function_with_another_signature_takes_the_rights_of_the_former_one(beside: World, change: Change) -> None:
    for drop in ON_THE_FUNCTION.values():
        beside.query(STORE, drop)
    change("segment_name.sql", "number bigint", "number bigint, digits integer default 6")
    assert init(beside).functions_renewed
    signatures = "select array_agg(pronargs::int) from pg_proc where proname = 'segment_name'"
    assert beside.value(STORE, signatures) == [3]
    assert beside.value(
        STORE,
        "select has_function_privilege('others_reader', 'relaybox_internal.segment_name(text, bigint, integer)', 'execute')",
    )
    assert not init(beside).changed


def test_a_view_of_ours_on_a_view_of_ours_is_made_anew_with_it(world: World, change: Change) -> None:
    """relaybox.subscriptions reads relaybox_internal.lane_cursors."""
    world.query(STORE, "select relaybox.subscribe('billing', 'flights')")
    change("lane_cursors.sql", "l.subscription_id, l.lane,", "l.lane, l.subscription_id,")
    assert init(world).functions_renewed
    assert world.value(STORE, "select count(*) from relaybox.subscriptions") == 1
    assert world.value(STORE, "select has_table_privilege('relaybox_consumer', 'relaybox.subscriptions', 'select')")
    assert not init(world).changed


def test_an_object_that_was_dropped_by_hand_is_made_again(world: World) -> None:
    world.query(STORE, "drop view relaybox.inbox")
    assert init(world).functions_renewed
    assert world.value(STORE, "select has_table_privilege('relaybox_consumer', 'relaybox.inbox', 'select')")


def test_a_store_of_before_the_record_knows_its_own_objects_by_the_files(beside: World, change: Change) -> None:
    """Functions that have the name of a file are ours; the others stay."""
    before = found(beside)
    beside.query(STORE, "truncate relaybox_internal.installed_object")
    assert init(beside).functions_renewed
    assert found(beside) == before
    assert not init(beside).changed


def test_an_owner_s_init_leaves_the_objects_of_a_superuser_alone(owned: World, change: Change) -> None:
    """Beside our schema and in it; and it does not fail on them either."""
    initialise_store(owned.routes.store(STORE), owned.routes)
    superuser = f"administer_{STORE}"
    with others_of_a_superuser(owned, superuser), reader(owned, superuser):
        before = found(owned, superuser)
        owned.query(superuser, "update relaybox_internal.installed_object set digest = 'older'")
        assert init(owned).functions_renewed
        assert found(owned, superuser) == before
        assert owned.value(superuser, "select has_table_privilege('others_reader', 'relaybox.notes', 'select')")
        change("inbox.sql", "i.hop, l.log_position, l.message_id", "i.hop, l.message_id, l.log_position")
        with pytest.raises(errors.ObjectsInTheWay) as refused:
            init(owned)
        assert_named(str(refused.value), ON_THE_VIEW)
        assert f"(owner {owned.value(superuser, 'select current_user')})" in str(refused.value)


@contextmanager
def others_of_a_superuser(world: World, superuser: str) -> Iterator[None]:
    world.query(superuser, OTHERS)
    world.query(superuser, "create table relaybox.notes (note text); grant select on relaybox.notes to public")
    yield
    world.query(
        superuser, "drop schema app cascade; drop view relaybox.mine; drop function relaybox.mine(); drop table relaybox.notes"
    )


def test_producers_consumers_and_drivers_notice_nothing_of_an_init(world: World) -> None:
    """Six inits, each of which replaces every function and view, while messages are sent, moved, fetched and read."""
    world.query(STORE, "select relaybox.subscribe('billing', 'flights')")
    ended = threading.Event()
    work = {
        "send": lambda: world.send("a", "b"),
        "transfer": world.transfer,
        "fetch": lambda: fetch_and_acknowledge(world),
        "read": lambda: world.query(STORE, "select count(*) from relaybox.inbox"),
    }

    def repeat(do: Callable[[], object]) -> None:
        while not ended.is_set():
            do()

    def progress() -> list[int]:
        sent = world.value("airline", "select last_value from relaybox.outbox_seq")
        return [
            sent,
            *world.query(
                STORE,
                (
                    "select published_position, (select sum(done_stream_position) from relaybox_internal.lane_cursors) "
                    "from relaybox_internal.hop_in"
                ),
            )[0],
        ]

    with ThreadPoolExecutor(len(work)) as pool:
        running = [pool.submit(repeat, do) for do in work.values()]
        try:
            for _ in range(6):
                seen = progress()
                for store in ("airline", STORE):
                    world.query(store, "update relaybox_internal.installed_object set digest = 'older'")
                    assert initialise_store(world.routes.store(store), world.routes).functions_renewed
                wait_until(
                    lambda seen=seen: (
                        any(one.done() for one in running) or all(now > then for now, then in zip(progress(), seen, strict=True))
                    ),
                    "messages are sent, moved and acknowledged",
                )
        finally:
            ended.set()
        for one in running:
            one.result(timeout=patience(60))


def fetch_and_acknowledge(world: World) -> None:
    with world.session(STORE) as connection, connection.cursor() as cursor:
        cursor.execute("select stream_position from relaybox.fetch('billing', worker => 'one')")
        stream_positions = [stream_position for (stream_position,) in cursor.fetchall()]
        if stream_positions:
            cursor.execute("select relaybox.ack('billing', %s)", (max(stream_positions),))
        connection.commit()


def assert_named(said: str, objects: Mapping[str, str] | list[str]) -> None:
    """Each object, and no other."""
    lists = re.findall(r"On it depend: (.*?)\.(?= It must drop| Drop or change)", said)
    named = [one.partition(" (owner ")[0] for listed in lists for one in listed.split("; ")]
    assert sorted(named) == sorted(objects), said
    assert "relaybox init" in said


def assert_rights_kept(before: Mapping[str, str], after: Mapping[str, str]) -> None:
    for what in ("relaybox.inbox relation", "payload column of inbox", "topic column of inbox"):
        key = what if what in after else what.removeprefix("relaybox.")
        assert sorted(rights(after[key])) == sorted(rights(before[key]))


def rights(entry: str) -> list[str]:
    return entry[entry.index("{") :].strip("{}").split(",")
