"""What a hot query reads does not grow with what a store keeps: pages of one call, small and large."""

from __future__ import annotations

import pytest

from relaybox.hops.idle_hops import pass_idle_hops
from tests.integration.pages import pages
from tests.support.world import World, insert, routes_file

POLL = "select relaybox_internal.hop_has_work('invoices/1')"
LOWER = "select lower::text from relaybox_internal.hop_out where hop = 'invoices/1'"


@pytest.fixture
def beside(world: World) -> World:
    """The hop invoices/1 leaves the store of flights/1, has moved a message, and has nothing to move since."""
    routes_file(world.path.parent, more_routes={"invoices": {"topics": ["invoices"], "path": ["airline", "hub"]}})
    world.initialise()
    world.send("invoice 1", topic="invoices")
    world.transfer(world.routes.hop("invoices/1"))
    return world


def send_batches(world: World, count: int) -> None:
    """This number of transactions of 200 messages of flights."""
    for _ in range(count):
        world.send_many(200)


def test_a_poll_of_an_idle_hop_does_not_read_what_other_hops_have_moved(beside: World) -> None:
    """The driver of the busy hop moves the idle hop's snapshot on; else each poll reads all that was sent since."""
    before = pages(beside, "airline", POLL)
    for _ in range(3):
        send_batches(beside, 30)
        beside.transfer()
    after = pages(beside, "airline", POLL)
    assert after <= 1.2 * before + 30, f"a poll touched {before} pages, and {after} after 18,000 messages of others"
    beside.send("invoice 2", topic="invoices")
    assert beside.value("airline", POLL) is True
    beside.transfer(beside.routes.hop("invoices/1"))
    assert beside.payloads("invoices/1") == ["invoice 1", "invoice 2"]


def test_a_message_whose_transaction_is_open_meanwhile_is_moved_later(beside: World) -> None:
    """The snapshot that the idle hop is moved on to knows which transactions were open."""
    with beside.session() as late:
        insert(late, "late invoice", topic="invoices")
        lower = beside.value("airline", LOWER)
        send_batches(beside, 30)
        beside.transfer()
        assert beside.value("airline", LOWER) != lower
        late.commit()
    assert beside.value("airline", POLL) is True
    beside.transfer(beside.routes.hop("invoices/1"))
    assert beside.payloads("invoices/1") == ["invoice 1", "late invoice"]


def test_a_hop_that_has_something_to_move_is_left_to_its_own_driver(beside: World) -> None:
    beside.send("invoice 2", topic="invoices")
    lower = beside.value("airline", LOWER)
    send_batches(beside, 30)
    beside.transfer()
    assert beside.value("airline", LOWER) == lower
    beside.transfer(beside.routes.hop("invoices/1"))
    assert beside.payloads("invoices/1") == ["invoice 1", "invoice 2"]


def rows_read(world: World, store: str) -> int:
    """Entries of the outbox's indexes that sessions have read until now."""
    return int(
        world.value(
            store,
            """
            select coalesce(sum(idx_tup_read), 0) from pg_stat_user_indexes i
            join pg_inherits p on p.inhrelid = i.relid where p.inhparent = 'relaybox.outbox'::regclass
            """,
        )
    )


def test_a_driver_does_not_count_what_another_hop_has_to_move(beside: World) -> None:
    """It reads the first messages alone, also in a segment without statistics: counting all took a second of each transfer."""
    for _ in range(200):
        beside.send_many(100, topic="invoices")
    before = rows_read(beside, "airline")
    with beside.store_session() as source:
        assert pass_idle_hops(source, beside=beside.first_hop.name) == 0
        source.execute("select pg_stat_force_next_flush()")
        source.rollback()
    read = rows_read(beside, "airline") - before
    assert read < 2_000, f"{read} rows were read to see that one of 20,000 is to be moved"


def test_a_hop_that_another_session_has_locked_does_not_stop_the_driver_of_another(beside: World) -> None:
    lower = beside.value("airline", LOWER)
    with beside.session() as planner, planner.cursor() as cursor:
        cursor.execute("select from relaybox_internal.hop_out where hop = 'invoices/1' for update")
        send_batches(beside, 30)
        assert beside.transfer().row_count == 6_000
        assert beside.value("airline", LOWER) == lower
    with beside.store_session() as source:
        assert pass_idle_hops(source, beside=beside.first_hop.name) == 1
        assert pass_idle_hops(source, beside=beside.first_hop.name) == 0, "a narrow pair is read again"


def test_the_segments_of_one_log_are_found_without_those_of_others(world: World) -> None:
    """Retention asks for each log in turn: with all segments for each of them it would take hops times segments."""
    asked = {"a log": "select * from relaybox_internal.segments() s where s.log_id is not distinct from 1"}
    asked["the end of the list"] = f"{asked['a log']} order by s.first limit 1"
    before = {name: pages(world, "hub", query) for name, query in asked.items()}
    world.query("hub", "select relaybox_internal.ensure_outbox_segments(150)")
    world.query("hub", "analyze")
    after = {name: pages(world, "hub", query) for name, query in asked.items()}
    more = {name: (before[name], after[name]) for name in asked if after[name] > 1.2 * before[name] + 20}
    assert more == {}, "pages before and beside 150 segments of the outbox"


@pytest.mark.parametrize("lanes", [1, 2])
def test_a_fetch_opens_the_segments_of_its_range_alone(world: World, lanes: int) -> None:
    """With one lane and with more; a store that kept a thousand segments paid 4 ms for each fetch to lock all of them."""
    for number in range(3):
        for sender in ("UA", "LH", "BA"):
            world.send_many(5, sender=sender, prefix=f"{number} ")
        world.transfer()
    log_id = world.value("hub", "select log_id from relaybox_internal.hop_in where hop = 'flights/1'")
    world.query(
        "hub",
        f"""
        do $do$ begin for k in 100000..100310 loop execute format(
            'create table relaybox_internal.far_%s partition of relaybox_internal.log_{log_id} for values from (%s000) to (%s000)',
            k, k, k + 1
        ); end loop; end $do$
        """.replace("%", "%%"),
    )
    world.query("hub", "select relaybox.subscribe('billing', 'flights', lanes => %s)", lanes)
    with world.session("hub") as session, session.cursor() as cursor:
        fetched = []
        for _ in range(12):  # a generic plan is made after five calls, where it is not made at once
            cursor.execute("select stream_position, token from relaybox.fetch('billing', 2, worker => 'w')")
            fetched += cursor.fetchall()
            cursor.execute(
                """
                select count(*) from pg_locks l join pg_inherits i on i.inhrelid = l.relation
                join pg_inherits log on log.inhrelid = i.inhparent
                where log.inhparent = 'relaybox_internal.log'::regclass and l.pid = pg_backend_pid()
                """
            )
            assert cursor.fetchone()[0] <= 3, "segments of the log that a fetch has locked"
            position, token = fetched[-1]
            cursor.execute("select relaybox.ack('billing', %s, %s)", (position, token))
            session.commit()
    assert len(fetched) >= 20


HOT: dict[str, tuple[str, str]] = {
    "poll": ("airline", POLL),
    "plan": (
        "airline",
        (
            "select b.* from relaybox_internal.hop_out h cross join lateral relaybox_internal.outbox_buckets("
            "h.lower, pg_current_snapshot(), h.topics, 64, h.anchor_seq) b where h.hop = 'flights/1'"
        ),
    ),
    "poll of all": ("airline", "select * from relaybox_internal.hops_with_work()"),
    "pass": ("airline", "select * from relaybox_internal.pass_idle_hops('flights/1', 1000, 200000)"),
    "make segments": ("airline", "select relaybox_internal.ensure_outbox_segments()"),
    "seal": ("airline", "select * from relaybox_internal.seal_outbox_segments()"),
    "send": ("airline", "insert into relaybox.outbox (topic, sender, payload) values ('flights', 'UA', 'm')"),
    "status of a hop": ("airline", "select * from relaybox_internal.sending_states('{flights/1}')"),
    "status of all hops": (
        "airline",
        "select * from relaybox_internal.sending_states(array(select hop from relaybox_internal.hop_out))",
    ),
    "account": (
        "airline",
        (
            "select a.* from relaybox.outbox_seq q cross join lateral relaybox_internal.account_for_outbox("
            "array(select hop from relaybox_internal.hop_out), q.last_value - 20, q.last_value) a"
        ),
    ),
    "holders of the outbox": ("airline", "select * from relaybox_internal.outbox_holders()"),
    "ledgers": ("airline", "select * from relaybox_internal.ledgers_to_compact()"),
    "ledgers of logs": ("hub", "select * from relaybox_internal.ledgers_to_compact()"),
    "where, by its id": (
        "airline",
        (
            "select t.* from (select message_id from relaybox.outbox where seq = 5 offset 0) m "
            "cross join lateral relaybox_internal.trace_sent(m.message_id) t"
        ),
    ),
    "status of topics": ("airline", "select * from relaybox_internal.unrouted_topics(10)"),
    "where, old": ("airline", "select * from relaybox_internal.trace_reading('flights/1', 5)"),
    "where, new": (
        "airline",
        "select * from relaybox_internal.trace_reading('flights/1', (select last_value from relaybox.outbox_seq))",
    ),
    "retention": ("airline", "select * from relaybox_internal.drop_oldest_segment(null, 'test')"),
    "where it arrived": ("hub", "select * from relaybox_internal.trace_arrival('flights/1', 1, 0, 5)"),
    "where, what became of it": ("hub", "select * from relaybox_internal.trace_delivery('flights/1', 5)"),
    "where, what was derived from it": ("hub", "select * from relaybox_internal.trace_derived('flights', 5)"),
    "where, its cause": ("airline", "select * from relaybox_internal.trace_cause(5)"),
    "publish": (
        "hub",
        (
            "select c.* from relaybox_internal.hop_in i cross join lateral relaybox_internal.count_batch_rows("
            "i, i.published_batch, i.published_position - 4, i.published_position) c where i.hop = 'flights/1'"
        ),
    ),
}
"""What runs for each batch, poll and report, at the store where it runs."""

CATALOG_PAGES = 15
"""So many pages more may be those of catalogs and of the record of sealed segments."""


def test_hot_queries_touch_as_many_pages_with_sixty_segments_as_with_three(world: World) -> None:
    """Segments that are sealed are looked at by none of them."""
    world.cut_small_segments()
    routes_file(
        world.path.parent,
        route={"retention": {"replay_window_seconds": 86_400}},
        more_routes={"invoices": {"topics": ["invoices"], "path": ["airline", "hub"]}},
    )
    world.register()

    def fill(count: int) -> dict[str, int]:
        world.query("airline", "select relaybox_internal.ensure_outbox_segments(%s)", count // 10 + 2)
        world.send("invoice", topic="invoices")
        world.send_many(count)
        world.transfer_all()
        world.settle_all()
        for hop in ("invoices/1", "invoices/1", "flights/1"):
            world.transfer(world.routes.hop(hop))
        for store in ("airline", "hub"):
            world.query(store, "vacuum (analyze) relaybox.outbox, relaybox_internal.log, relaybox_internal.sealed_segment")
        return {what: pages(world, store, query) for what, (store, query) in HOT.items()}

    few = fill(33)
    many = fill(600)
    assert world.value("airline", "select count(*) from relaybox_internal.sealed_segment") >= 60
    grown = {what: (few[what], many[what]) for what in HOT if many[what] > 1.2 * few[what] + CATALOG_PAGES}
    assert grown == {}, "pages with 3 and with 60 segments"
