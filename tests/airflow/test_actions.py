"""What the tasks of replay, redrive and skip do, with real stores; Airflow itself comes in test_real_scheduler.py."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from relaybox.airflow.approvals import cell, digest_shown
from relaybox.airflow.dags.actions import build_redrive_dags, build_skip_dags
from relaybox.airflow.dags.replay import build_replay_dags
from relaybox.consumer import Consumer
from relaybox.stores.init.one_store import initialise_store
from tests.airflow.answers import APPROVED, answered
from tests.airflow.deferred import execute
from tests.airflow.replay_world import reading
from tests.support.senders import declare, send_caused, stream
from tests.support.streams import deliver, fetch
from tests.support.world import World

STORE = "hub"


@pytest.fixture
def twelve(connected: World) -> World:
    """12 messages, all acknowledged by `billing`, save 2 and 4 that it refused."""
    deliver(connected, 12)
    connected.query(STORE, "select relaybox.subscribe('billing', 'flights', nack_limit => 1)")
    with Consumer(STORE, "billing", until_empty=True) as consumer:
        consumer.run(refuse_two)
    return connected


def refuse_two(_: object, message: Any) -> None:
    if message.stream_position in (2, 4):
        raise ValueError("a | bad <one>")


def run_task(world: World, dag_id: str, task_id: str, *, pulled: dict[str, Any] | None = None, **params: object) -> Any:
    """Executes one task of a route's DAG, as a run that ada started would."""
    builders: dict[str, Callable[..., Any]] = {
        "replay": build_replay_dags,
        "redrive": build_redrive_dags,
        "skip": build_skip_dags,
    }
    dag = builders[dag_id](world.routes)[f"relaybox_{dag_id}__flights"]
    cleared = params.pop("cleared", 0)
    run = SimpleNamespace(
        dag_id=dag.dag_id,
        run_id="r1",
        run_type=params.pop("run_type", "manual"),
        clear_number=cleared,
        triggering_user_name="ada",
        data_interval_start=None,
        data_interval_end=None,
    )

    def pull(task_ids: str) -> Any:
        return answered(pulled or {}, dag_id).get(task_ids)

    ti = SimpleNamespace(try_number=1, xcom_pull=pull)
    filled = {**{name: dag.params[name] for name in dag.params}, "store": STORE, **params}
    return execute(dag.get_task(task_id), {"params": filled, "dag_run": run, "ti": ti})


def test_a_replay_is_counted_then_read_by_the_consumer_of_the_second_cursor(twelve: World) -> None:
    """The task ends when they have read it; messages that are dead letters do not come again."""
    counted = run_task(twelve, "replay", "count", subscription="billing", start="3", through="9")
    assert (counted["first_stream_position"], counted["last_stream_position"], counted["message_count"], counted["dry_run"]) == (
        3,
        9,
        7,
        True,
    )
    ended = threading.Event()
    read: list[tuple[int, bool]] = []

    def consume() -> None:
        while not ended.is_set():
            with suppress(Exception), Consumer(STORE, "billing.replay", poll_seconds=0.05, until_empty=True) as consumer:
                read.extend((message.stream_position, message.replayed) for message in consumer)

    reader = threading.Thread(target=consume)
    reader.start()
    try:
        done = run_task(twelve, "replay", "replay", subscription="billing", start="3", through="9", reason="audit")
    finally:
        ended.set()
        reader.join()
    assert done == {
        "replayed_as": "billing.replay",
        "first_stream_position": 3,
        "last_stream_position": 9,
        "done_stream_position": 9,
    }
    assert read == [(stream_position, True) for stream_position in (3, 5, 6, 7, 8, 9)]
    assert fetch(twelve, 5) == []


def asking(world: World) -> World:
    """The store asks for an approval before messages are given again."""
    document = yaml.safe_load(world.path.read_text())
    document["stores"][STORE] = {"require_approval": True}
    world.path.write_text(yaml.safe_dump(document))
    initialise_store(world.routes.stores[STORE], world.routes)
    return world


def test_an_approved_replay_reads_what_the_approver_saw_and_no_more(twelve: World) -> None:
    """Messages that arrive after the count are not read again, though the form says: up to the newest."""
    asking(twelve)
    counted = run_task(twelve, "replay", "count", subscription="billing", start="9")
    assert "| messages | 4 |" in counted["table"]
    deliver(twelve, 5)
    pulled = {"count": counted, "approve": {**APPROVED, "clear_number": 0}}
    with reading("billing.replay", STORE) as reader:
        done = run_task(twelve, "replay", "replay", pulled=pulled, subscription="billing", start="9", reason="audit")
    assert (done["first_stream_position"], done["last_stream_position"]) == (9, 12)
    assert reader.stream_positions == [9, 10, 11, 12]
    audit = "select detail ->> 'on_behalf_of' from relaybox.consumer_action where action = 'replay'"
    assert twelve.value(STORE, audit) == "ada, approved by grace"


def test_a_subscription_that_began_anew_after_the_count_is_not_replayed(twelve: World) -> None:
    """The approval is of the subscription that was counted, not of its name. The next run counts the new one."""
    asking(twelve)
    form = {"subscription": "billing", "start": "3", "through": "9", "reason": "audit"}
    counted = run_task(twelve, "replay", "count", **form)
    number = twelve.value(STORE, "select subscription_id from relaybox_internal.subscription")
    assert f"billing \\(number {number}, since " in counted["table"]
    twelve.query(STORE, "select relaybox.unsubscribe('billing')")
    pulled = {"count": counted, "approve": {**APPROVED, "clear_number": 0}}
    with pytest.raises(AirflowFailException, match="no subscription billing"):
        run_task(twelve, "replay", "replay", pulled=pulled, **form)
    twelve.query(STORE, "select relaybox.subscribe('billing', 'flights')")
    with pytest.raises(AirflowFailException, match=f"that one is number {number}, .* is that of number {number + 1} now"):
        run_task(twelve, "replay", "replay", pulled=pulled, **form)
    assert twelve.value(STORE, "select count(*) from relaybox_internal.replay_range") == 0
    again = {**pulled, "count": run_task(twelve, "replay", "count", **form)}
    with reading("billing.replay", STORE):
        assert run_task(twelve, "replay", "replay", pulled=again, **form)["done_stream_position"] == 9


def test_an_approval_that_does_not_say_of_which_subscription_approves_nothing(twelve: World) -> None:
    """A version of before had counted, and its run was approved after the upgrade."""
    asking(twelve)
    form = {"subscription": "billing", "start": "3", "through": "9", "reason": "audit"}
    counted = {name: value for name, value in run_task(twelve, "replay", "count", **form).items() if "subscri" not in name}
    with pytest.raises(AirflowFailException, match="an earlier version of Relaybox has shown it"):
        run_task(twelve, "replay", "replay", pulled={"count": counted, "approve": {**APPROVED, "clear_number": 0}}, **form)


def test_letters_of_a_subscription_that_began_anew_are_not_redriven(twelve: World) -> None:
    """The approval is of the subscription that was shown."""
    order = {"subscription": "billing", "reason": "fixed in 1.4"}
    shown = run_task(twelve, "redrive", "show", **order)
    twelve.query(STORE, "select relaybox.unsubscribe('billing'); select relaybox.subscribe('billing', 'flights')")
    with pytest.raises(AirflowFailException, match="subscription billing is not the one that was approved"):
        run_task(twelve, "redrive", "redrive", pulled={"show": shown, "approve": APPROVED}, **order)
    assert twelve.value(STORE, "select count(*) from relaybox.dead_letters where state = 'open'") == 2


@pytest.mark.parametrize(
    ("kind", "answer", "says"),
    [
        ("replay", None, "This run has no approval"),
        ("replay", {**APPROVED, "chosen_options": ["Reject"]}, "This run has no approval"),
        ("replay", {**APPROVED, "clear_number": 0}, "was cleared after its approval"),
        ("redrive", None, "This run has no approval"),
        ("skip", None, "This run has no approval"),
    ],
)
def test_nothing_is_done_in_a_run_that_nobody_approved(
    twelve: World, kind: str, answer: dict[str, Any] | None, says: str
) -> None:
    """The approval was marked as a success; it was rejected; the run was cleared; or its DAG did not ask yet."""
    asking(twelve)
    actions = "select count(*) from relaybox.consumer_action where action in ('replay', 'redrive')"
    shown = {"dead_letter_ids": [1], "attempts": [1], "through": 1, "table": "|"}
    counted = run_task(twelve, "replay", "count", subscription="billing", start="3", through="9")
    form = {"subscription": "billing", "start": "3", "through": "9", "reason": "why", "cleared": 1}
    if kind == "skip":
        form = {"sender": "airline", "reason": "why"}
    with pytest.raises(AirflowFailException, match=says):
        run_task(twelve, kind, kind, pulled={"show": shown, "count": counted, "approve": answer}, **form)
    assert twelve.value(STORE, actions) == 0


@pytest.mark.parametrize("kind", ["replay", "redrive", "skip"])
def test_what_was_shown_after_the_question_is_not_done(twelve: World, kind: str) -> None:
    """The task that shows was cleared, under the open question or after the answer; or an earlier version had asked."""
    asking(twelve)
    counted = run_task(twelve, "replay", "count", subscription="billing", start="3", through="9")
    shown = {"dead_letter_ids": [1], "attempts": [1], "through": 1, "table": "|"}
    form = {"subscription": "billing", "start": "3", "through": "9", "reason": "why"}
    if kind == "skip":
        form = {"sender": "airline", "reason": "why"}
    found = counted if kind == "replay" else shown
    for digest in (digest_shown({**found, "table": "another one"}), None):
        answer = {**APPROVED, "clear_number": 0, "digest": digest}
        with pytest.raises(AirflowFailException, match=r"has found is not what was approved: .* Nothing was done"):
            run_task(twelve, kind, kind, pulled={"show": shown, "count": counted, "approve": answer}, **form)
    assert digest_shown({**counted, "estimated_seconds": -1}) == digest_shown(counted)
    actions = "select count(*) from relaybox.consumer_action where action in ('replay', 'redrive')"
    assert twelve.value(STORE, actions) == 0


def test_a_replay_asks_nobody_where_nothing_is_replayed(twelve: World) -> None:
    """A run that only counts, and a range without messages."""
    asking(twelve)
    for form in ({"start": "3", "dry_run": True}, {"start": "latest"}):
        counted = run_task(twelve, "replay", "count", subscription="billing", **form)
        with pytest.raises(AirflowSkipException, match="nobody is asked"):
            run_task(twelve, "replay", "approve", pulled={"count": counted}, subscription="billing", **form)


@pytest.mark.parametrize(
    ("params", "says"),
    [
        ({"start": "1", "reason": "audit"}, "The field Subscription .subscription. is empty"),
        ({"subscription": "billing", "reason": "audit"}, "The field From .start. is empty"),
        ({"subscription": "billing", "start": "1"}, "The field Reason .reason. is empty"),
        ({"subscription": "nobody", "start": "1", "reason": "audit"}, "no subscription nobody to stream flights"),
        ({"subscription": "billing", "start": "1", "run_type": "backfill", "reason": "x y z"}, "Leave From and To empty"),
    ],
)
def test_a_replay_that_makes_no_sense_fails_at_once_and_says_what_to_fill_in(
    twelve: World, params: dict[str, object], says: str
) -> None:
    with pytest.raises(AirflowFailException, match=says):
        run_task(twelve, "replay", "replay", **params)


def test_only_counting_replays_nothing(twelve: World) -> None:
    with pytest.raises(AirflowSkipException, match="dry run"):
        run_task(twelve, "replay", "replay", subscription="billing", start="1", dry_run=True)
    assert twelve.value(STORE, "select count(*) from relaybox_internal.replay_range") == 0


def test_a_range_without_messages_is_said_to_be_empty_and_skipped(twelve: World, caplog: pytest.LogCaptureFixture) -> None:
    """By the task that counts, and by the one that replays; no second cursor is opened."""
    caplog.set_level("INFO", logger="relaybox")
    asked = {"subscription": "billing", "start": "latest", "reason": "audit"}
    counted = run_task(twelve, "replay", "count", **asked)
    assert (counted["message_count"], counted["dry_run"]) == (0, True)
    assert caplog.messages[-1] == "replay_empty subscription=billing start=latest through=latest"
    with pytest.raises(AirflowSkipException, match="store hub delivered no message from latest to latest"):
        run_task(twelve, "replay", "replay", **asked)
    assert twelve.value(STORE, "select count(*) from relaybox.subscriptions") == 1


def test_only_the_approved_dead_letters_are_redriven_and_the_approver_is_recorded(twelve: World) -> None:
    """A second time nothing happens: they are open no more. The table to approve has no payload and draws nothing."""
    order = {"subscription": "billing", "reason": "fixed in 1.4"}
    shown = run_task(twelve, "redrive", "show", **order)
    assert len(shown["dead_letter_ids"]) == 2
    assert "m2" not in shown["table"]
    first = {**shown, "dead_letter_ids": shown["dead_letter_ids"][:1], "attempts": shown["attempts"][:1]}
    pulled = {"show": first, "approve": APPROVED}
    assert run_task(twelve, "redrive", "redrive", pulled=pulled, **order) == {"redriven": 1}
    with pytest.raises(AirflowSkipException, match="none of the approved dead letters was redriven"):
        run_task(twelve, "redrive", "redrive", pulled=pulled, **order)
    assert [row[0] for row in fetch(twelve, 5)] == [2]
    audit = "select reason, detail ->> 'on_behalf_of' from relaybox.consumer_action where action = 'redrive'"
    assert twelve.query(STORE, audit) == [("fixed in 1.4", "ada, approved by grace")]
    assert run_task(twelve, "redrive", "show", **order)["dead_letter_ids"] == shown["dead_letter_ids"][1:]
    with pytest.raises(AirflowSkipException, match="no such open dead letter"):
        run_task(twelve, "redrive", "show", dead_letter_id=99, **order)


def test_a_dead_letter_that_was_refused_again_after_it_was_shown_is_not_redriven(
    twelve: World, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two people asked for it. One approved at once, its consumer refused the message again, then the other one approved."""
    order = {"subscription": "billing", "reason": "fixed in 1.4"}
    shown = run_task(twelve, "redrive", "show", **order)
    pulled = {"show": shown, "approve": APPROVED}
    assert run_task(twelve, "redrive", "redrive", pulled=pulled, **order)["redriven"] == len(shown["dead_letter_ids"])
    with Consumer(STORE, "billing", until_empty=True) as consumer:
        consumer.run(refuse_two)
    assert twelve.value(STORE, "select count(*) from relaybox.dead_letters where state = 'open'") == len(shown["dead_letter_ids"])
    with pytest.raises(AirflowSkipException, match="none of the approved dead letters was redriven"):
        run_task(twelve, "redrive", "redrive", pulled=pulled, **order)
    assert "was refused again: 2 attempts; it was not redriven" in capsys.readouterr().out


def test_a_cell_of_a_table_draws_nothing() -> None:
    assert cell("a | <b> [c](d)\n`e`") == r"a \| \<b\> \[c\]\(d\) \`e\`"


def test_the_gap_that_was_approved_is_given_up_and_no_more(connected: World) -> None:
    """At every store of the route; what is behind it is delivered there."""
    connected.change_route(order="fifo", runner="threads")
    connected.query("airline", "select relaybox.declare_sender('UA', 'gapless')")
    for index in (1, 4, 6):
        connected.query(
            "airline", "insert into relaybox.outbox (topic, sender, index, payload) values ('flights', 'UA', %s, 'x')", index
        )
    connected.transfer_all()
    order = {"sender": "UA", "reason": "the device burnt"}
    shown = run_task(connected, "skip", "show", **order)
    assert shown["through"] == 3
    assert "| hub | 1 | 2 to 3, 5 to 5 | 2 |" in shown["table"]
    done = run_task(connected, "skip", "skip", pulled={"show": shown, "approve": APPROVED}, **order)
    assert [(one["store"], one["gap"], one["released"]) for one in done] == [
        (store, {"first_index": 2, "last_index": 3}, 1) for store in ("hub", "analytics")
    ]
    again = run_task(connected, "skip", "skip", pulled={"show": shown, "approve": APPROVED}, **order)
    assert [one["gap"] for one in again] == [None, None]
    assert connected.query("hub", "select reason, skipped_by from relaybox_internal.skip") == [
        ("the device burnt", "ada, approved by grace: relaybox_skip__flights r1")
    ]
    with pytest.raises(AirflowSkipException, match="no message waits for a missing message of sender DL"):
        run_task(connected, "skip", "show", sender="DL", reason="why not")


def test_a_gap_of_a_later_epoch_is_not_given_up_by_an_approval_of_an_earlier_one(connected: World) -> None:
    """What was missing came after all; the sender began anew, and misses other messages of the same indexes."""
    connected.change_route(order="fifo", runner="threads")
    connected.query("airline", "select relaybox.declare_sender('UA', 'gapless')")
    insert = "insert into relaybox.outbox (topic, sender, epoch, index, payload) values ('flights', 'UA', %s, %s, 'x')"
    for index in (1, 4):
        connected.query("airline", insert, 1, index)
    connected.transfer_all()
    order = {"sender": "UA", "reason": "the device burnt"}
    shown = run_task(connected, "skip", "show", **order)
    assert (shown["epoch"], shown["through"]) == (1, 3)
    assert "up to index 3 of epoch 1" in shown["table"]
    for index in (2, 3):
        connected.query("airline", insert, 1, index)
    assert connected.value("airline", "select relaybox.new_epoch('UA')") == 2
    for index in (1, 4):
        connected.query("airline", insert, 2, index)
    connected.transfer_all()
    with pytest.raises(AirflowFailException, match=r"UA that was approved is of epoch 1, .* is at epoch 2"):
        run_task(connected, "skip", "skip", pulled={"show": shown, "approve": APPROVED}, **order)
    assert connected.value("hub", "select count(*) from relaybox_internal.skip") == 0
    assert run_task(connected, "skip", "show", **order)["epoch"] == 2


def test_a_skip_chooses_no_message_that_is_held(connected: World) -> None:
    """b waits for a3; a1 and a3 are held and wait for c, and a2 is missing: c comes first, then a2."""
    connected.change_route(order="causal", runner="threads")
    declare(connected, "a", "b", "c")
    send_caused(connected, "a", 1, {"c": 1})
    send_caused(connected, "a", 3, {})
    send_caused(connected, "b", 1, {"a": 3})
    connected.transfer_all()
    with pytest.raises(AirflowSkipException, match="no message waits for a missing message of sender a"):
        run_task(connected, "skip", "show", sender="a", reason="why")
    for sender, through in (("c", 1), ("a", 2)):
        order = {"sender": sender, "reason": "lost"}
        shown = run_task(connected, "skip", "show", **order)
        assert shown["through"] == through
        run_task(connected, "skip", "skip", pulled={"show": shown, "approve": APPROVED}, **order)
    assert stream(connected) == stream(connected, "analytics") == ["a1", "a3", "b1"]
