"""docs/rights.md: each role tries each right on a store with messages, and the page has the table of what came out."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path

import psycopg2
import pytest

from relaybox.stores.init.one_store import initialise_store
from tests.support.services import read_service
from tests.support.world import World, routes_file

PAGE = Path(__file__).resolve().parents[2] / "docs" / "rights.md"
BEGIN, END = "<!-- table: written by UPDATE_DOCS=1 pytest tests/integration/test_rights_table.py -->\n", "<!-- end of table -->\n"

ROLES: Mapping[str, str] = {
    "none": "",
    "producer": "relaybox_producer",
    "consumer": "relaybox_consumer",
    "operator": "relaybox_operator, relaybox_consumer",
    "viewer": "relaybox_viewer",
    "reader": "relaybox_reader",
    "driver": "relaybox_driver",
    "owner": "app_owner",
}
"""The heading of the column -> the roles of its login. An operator is a consumer besides."""

BEGIN_BOUND = "<!-- bound: written by UPDATE_DOCS=1 pytest tests/integration/test_rights_table.py -->\n"
END_BOUND = "<!-- end of bound -->\n"

OPERATOR = "stream_operator"
"""The login of an operator of the stream, who has a column in the second table only."""

LOGINS: Mapping[str, str] = {**ROLES, OPERATOR: ROLES["operator"]}

BOUND: Mapping[str, str] = {
    "consumer that is bound": "consumer",
    "operator of the stream": OPERATOR,
    "operator of no stream": "operator",
    **{heading: heading for heading in ("viewer", "reader", "driver", "owner")},
}
"""The heading of the column in the second table -> the heading of the same login in the first one."""

BEGIN_GRANTED = "<!-- granted: written by UPDATE_DOCS=1 pytest tests/integration/test_rights_table.py -->\n"
END_GRANTED = "<!-- end of granted -->\n"

GRANTED: Mapping[str, str] = {
    "consumer with the topic": "consumer",
    "operator without a topic": "operator",
    **{heading: heading for heading in ("viewer", "reader", "driver", "owner")},
}
"""The same of the third table."""

OF_TOPICS = (
    *(
        "subscribe",
        "fetch",
        "end a subscription",
        "count a replay (`replay`, `dry_run => true`)",
        "count a replay (`count_replay`)",
        "replay",
        "redrive dead letters",
        "drop a dead letter",
    ),
    *("see subscriptions and their lag", "see dead letters, without payloads", "read payloads of dead letters"),
    *("read payloads of the logs", "read a stream", "read a log", "grant a topic to a role"),
)
"""What a grant is about, or might be thought to be about."""

OF_SUBSCRIPTIONS = (
    *(
        "fetch",
        "end a subscription",
        "count a replay (`replay`, `dry_run => true`)",
        "count a replay (`count_replay`)",
        "replay",
        "redrive dead letters",
        "drop a dead letter",
    ),
    *("cancel a replay", "drop a dead letter of the stream"),
    *("see subscriptions and their lag", "see dead letters, without payloads", "read payloads of dead letters"),
    *("read payloads of the logs", "read a stream", "bind a subscription to a role", "bind an operator to a stream"),
)
"""What a binding is about, or might be thought to be about."""

RIGHTS: Mapping[str, str] = {
    "send a message": "insert into relaybox.outbox (topic, sender, payload) values ('flights', 'UA', 'new')",
    "choose `seq` of a message": "insert into relaybox.outbox (seq, topic, sender, payload) values (99, 'flights', 'UA', 'new')",
    "declare a sender": "select relaybox.declare_sender('pump', 'gapless')",
    "record a put": "select relaybox.record_put('pump', 'key', 'digest', 0)",
    "subscribe": "select relaybox.subscribe('another', 'flights')",
    "fetch": "select * from relaybox.fetch('billing')",
    "end a subscription": "select relaybox.unsubscribe('billing', 'a test')",
    "count a replay (`replay`, `dry_run => true`)": "select relaybox.replay('billing', 'earliest', 'a test', dry_run => true)",
    "count a replay (`count_replay`)": "select relaybox.count_replay('billing', 'earliest', null, null)",
    "replay": "select relaybox.replay('billing', 'earliest', 'a test')",
    "cancel a replay": "select relaybox.cancel_replay('billing.replay-1', 'a test')",
    "redrive dead letters": "select relaybox.redrive('billing', 'a test')",
    "drop a dead letter": "select relaybox.drop_dead_letter({letter}, 'a test')",
    "drop a dead letter of the stream": "select relaybox.drop_dead_letter({stream_letter}, 'a test')",
    "see subscriptions and their lag": "select * from relaybox.subscriptions, relaybox.lag('billing')",
    "see dead letters, without payloads": "select dead_letter_id, state, reason, message_id from relaybox.dead_letters",
    "see ledgers, streams and segments": (
        "select h.hop, s.stream from relaybox_internal.hop_out h, relaybox_internal.batch b, relaybox_internal.stream s"
    ),
    "see senders, topics and times of messages": "select topic, sender, sent_at from relaybox_internal.log",
    "read payloads of the outbox": "select payload from relaybox.outbox",
    "read payloads of the logs": "select payload from relaybox.inbox",
    "read a stream": "select * from relaybox.read_stream('flights', 0, 10)",
    "pin a range of a stream (`stream_range`)": "select * from relaybox.stream_range('flights')",
    "find the files of detached messages": "select count(*) from relaybox.read_detached('flights', 0), relaybox.detached_files('flights', '')",
    "read a log": "select * from relaybox.read_log('flights/1', 0, 10)",
    "read payloads of dead letters": "select payload from relaybox.dead_letters",
    "see trials of a derivation": "select * from relaybox_internal.derivation_trial, relaybox_internal.derivation_trial_attempt",
    "compare a trial": "select * from relaybox_internal.compare_derivation_trial(1, 1)",
    "promote or drop a trial": "select relaybox_internal.drop_derivation_trial(1, 'test', 'a test')",
    "write a ledger": "update relaybox_internal.hop_out set attempt = attempt",
    "write a log": (
        "insert into relaybox_internal.log (log_id, epoch, log_position, index, message_id, sent_at, topic, sender, payload) "
        "values (1, 1, 1000, 1, gen_random_uuid(), now(), 'flights', 'UA', 'forged')"
    ),
    "change a message": "update relaybox_internal.log set payload = 'forged'",
    "remove a message": "delete from relaybox.outbox",
    "make segments": "select relaybox_internal.ensure_outbox_segments()",
    "drop a segment that nobody needs": "select * from relaybox_internal.drop_oldest_segment(null, null)",
    "record a restored or promoted store": "update relaybox_internal.store set timeline = timeline",
    "bind a sender to a role": "select relaybox_internal.bind_sender('UA', 'relaybox_producer')",
    "bind a subscription to a role": "select relaybox_internal.bind_subscription('billing', 'relaybox_consumer')",
    "bind an operator to a stream": "select relaybox_internal.bind_operator('flights', 'relaybox_consumer')",
    "grant a topic to a role": "select relaybox_internal.grant_topic('flights', 'relaybox_consumer')",
    "alter a table": "alter table relaybox_internal.hop_out add column mine integer",
    "make a table in a schema of Relaybox": "create table relaybox.mine (n integer)",
}
"""What somebody may want to do -> the statement that does it, in a store where it has an effect."""


TRIAL = """
insert into relaybox_internal.derivation (route, version, subscription_id, source_name, source_digest)
select 'delays', 1, min(subscription_id), 'sql', 'digest' from relaybox_internal.subscription;
insert into relaybox_internal.derivation_trial (
    derivation_id, version, source_name, source_digest, first_stream_position, last_stream_position, done_stream_position, begun_by
) select derivation_id, 2, 'sql', 'digest', 1, 1, 1, 'test' from relaybox_internal.derivation;
insert into relaybox_internal.derivation_trial_attempt (
    trial_id, attempt, token, first_stream_position, last_stream_position, begun_by
) select trial_id, 1, 'token', 1, 1, 'test' from relaybox_internal.derivation_trial;
insert into relaybox_internal.derivation_trial_message (trial_id, message_id, topic, sender, headers, payload)
select trial_id, gen_random_uuid(), 'delays', 'delays', '{"derived_from": {"stream_position": 1}}', 'late'
from relaybox_internal.derivation_trial
"""


@pytest.fixture
def store(owned: World) -> Iterator[World]:
    """A local route in one store with ten messages, a subscription with a replay, and a dead letter of both it and the stream; a trial.

    Its owner is no superuser.
    """
    routes_file(owned.path.parent, route={"path": ["hub", "hub"]})
    initialise_store(owned.routes.store("hub"), owned.routes)
    owned.query(
        "hub", "insert into relaybox.outbox (topic, sender, payload) select 'flights', 'UA', n from generate_series(1, 10) n"
    )
    owned.transfer()
    owned.query("hub", "select relaybox.subscribe('billing', 'flights', start => 'earliest', nack_limit => 1)")
    with owned.session("hub", autocommit=True) as consumer, consumer.cursor() as cursor:
        cursor.execute("select token from relaybox.fetch('billing', 1, worker => 'w')")
        cursor.execute("select relaybox.nack('billing', 1, 'bad', %s)", cursor.fetchone())
    owned.query("hub", "select relaybox.replay('billing', '1', 'a test', second_cursor => true)")
    owned.query(
        "hub",
        "insert into relaybox_internal.dead_letter (stream_id, log_id, log_position, reason) "
        "select l.stream_id, l.log_id, 2, 'other_content' from relaybox_internal.stream_log l",
    )
    owned.query("hub", TRIAL)
    database = owned.value("hub", "select current_database()")
    for heading, roles in LOGINS.items():
        member = f"in role {roles}" if roles else ""
        owned.query("administer_hub", f"create role {heading}_of_the_table login password 'p' {member}")
        owned.query("administer_hub", f"grant connect on database {database} to {heading}_of_the_table")
    yield owned
    for heading in LOGINS:
        owned.query("administer_hub", f"drop owned by {heading}_of_the_table")
        owned.query("administer_hub", f"drop role {heading}_of_the_table")


def test_the_table_of_rights_is_what_each_role_may_do(store: World) -> None:
    """Each statement is tried by each login, and rolled back. An error that is no missing right or binding fails the test."""
    letters = _letters(store)
    rows = [
        f"| {right} | {' | '.join(_try(heading, right, statement, letters) for heading in ROLES)} |\n"
        for right, statement in RIGHTS.items()
    ]
    table = f"| | {' | '.join(ROLES)} |\n|---{'|:-:' * len(ROLES)}|\n{''.join(rows)}"
    _compare(table, BEGIN, END)


def test_the_table_of_bound_subscriptions_is_what_each_role_may_do(store: World) -> None:
    """The same where the store binds subscriptions to roles, one consumer is bound, and one operator to the stream."""
    letters = _letters(store)
    store.query("hub", "select relaybox_internal.bind_subscriptions(true)")
    store.query("hub", "select relaybox_internal.bind_subscription('billing', 'consumer_of_the_table')")
    store.query("hub", f"select relaybox_internal.bind_operator('flights', '{OPERATOR}_of_the_table')")
    rows = [
        f"| {right} | {' | '.join(_try(login, right, RIGHTS[right], letters) for login in BOUND.values())} |\n"
        for right in OF_SUBSCRIPTIONS
    ]
    _compare(f"| | {' | '.join(BOUND)} |\n|---{'|:-:' * len(BOUND)}|\n{''.join(rows)}", BEGIN_BOUND, END_BOUND)


def test_the_table_of_granted_topics_is_what_each_role_may_do(store: World) -> None:
    """The same where the store grants topics to roles, and one consumer has the topic of the route."""
    letters = _letters(store)
    store.query("hub", "select relaybox_internal.bind_topics(true)")
    store.query("hub", "select relaybox_internal.grant_topic('flights', 'consumer_of_the_table')")
    rows = [
        f"| {right} | {' | '.join(_try(login, right, RIGHTS[right], letters) for login in GRANTED.values())} |\n"
        for right in OF_TOPICS
    ]
    _compare(f"| | {' | '.join(GRANTED)} |\n|---{'|:-:' * len(GRANTED)}|\n{''.join(rows)}", BEGIN_GRANTED, END_GRANTED)


def test_the_page_says_what_no_right_hides(store: World) -> None:
    """A consumer without a topic: it reads no message, and learns their number; a login with pg_read_all_stats sees a literal."""
    store.query("hub", "select relaybox_internal.bind_topics(true)")
    service = {**read_service("hub"), "user": "consumer_of_the_table", "password": "p"}
    with closing(psycopg2.connect(**service)) as session, session.cursor() as cursor:
        cursor.execute("select count(*) from relaybox.inbox")
        assert cursor.fetchone() == (0,)
        cursor.execute("explain analyze select from relaybox.inbox")
        assert "Rows Removed by Filter: 10" in "\n".join(line for (line,) in cursor.fetchall())
        cursor.execute("select count(*) from pg_stat_user_tables where relname = 'outbox_s000000'")
        assert cursor.fetchone() == (1,)
    store.query("administer_hub", "grant pg_read_all_stats to viewer_of_the_table")
    producer = {**read_service("hub"), "user": "producer_of_the_table", "password": "p"}
    with closing(psycopg2.connect(**producer)) as sender, sender.cursor() as sending:
        sending.execute("insert into relaybox.outbox (topic, sender, payload) values ('flights', 'UA', %s)", ("a secret",))
        watcher = {**service, "user": "viewer_of_the_table"}
        with closing(psycopg2.connect(**watcher)) as session, session.cursor() as cursor:
            cursor.execute("select query from pg_stat_activity where usename = 'producer_of_the_table'")
            assert "a secret" in str(cursor.fetchone())


def _compare(table: str, begin: str, end: str) -> None:
    text = PAGE.read_text(encoding="utf-8")
    shown = text[text.index(begin) + len(begin) : text.index(end)]
    if os.environ.get("UPDATE_DOCS"):
        PAGE.write_text(text.replace(begin + shown, f"{begin}\n{table}\n"), encoding="utf-8")
        return
    assert shown.strip() == table.strip()


def _letters(store: World) -> Mapping[str, int]:
    """The dead letter of the subscription, and that of the stream itself."""
    found = dict(store.query("hub", "select subscription, dead_letter_id from relaybox.dead_letters"))
    return {"letter": found["billing"], "stream_letter": found[None]}


def _try(heading: str, right: str, statement: str, letters: Mapping[str, int]) -> str:
    login = f"{heading}_of_the_table"
    text = statement.format(**letters)
    service = {**read_service("hub"), "user": login, "password": "p"}
    with closing(psycopg2.connect(**service)) as session, session.cursor() as cursor:
        try:
            cursor.execute(text)
            if text.startswith("select") and not cursor.rowcount:
                return ""
        except psycopg2.errors.InsufficientPrivilege:
            return ""
        except psycopg2.Error as error:
            if error.pgcode in ("RB040", "RB041"):
                return ""
            pytest.fail(f"{right}, as {heading}: {error}")
        finally:
            session.rollback()
    return "yes"


def test_every_role_of_the_store_has_a_column() -> None:
    from relaybox.stores.init.server import ROLES as MADE_BY_INIT

    assert set(MADE_BY_INIT) == set(re.findall(r"relaybox_\w+", " ".join(ROLES.values())))
