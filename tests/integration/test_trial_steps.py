"""A trial of a next version in the store: its attempts, the comparison with what was sent, and how it is promoted or dropped."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import pytest

from relaybox.errors import DerivationChanged, DerivationFailed, LaneLost, NotSubscribed, RequestRefused
from relaybox.failpoints import TRIAL_FAILPOINTS
from relaybox.spark.derivations.ledger import open_ledger
from relaybox.spark.derivations.publishing import Published, send
from relaybox.spark.derivations.source import load_source
from relaybox.spark.derivations.trials import open_trials
from tests.integration.logged_in import logged_in_as
from tests.support.backups import Backups
from tests.support.derivations import HERE, ROUTE, STORE, DerivedWorld
from tests.support.killed_child import kill_at
from tests.support.patience import patience
from tests.support.streams import deliver
from tests.support.trials import (
    TWO,
    Row,
    attempts,
    batches,
    compare,
    counts,
    derive_all,
    drop,
    fail_then_try,
    late,
    promote,
    sending,
    source,
    trial,
    trials,
    tried,
    try_all,
    versions,
    with_next,
)
from tests.support.world import World, wait_until


@pytest.fixture
def delays(world: World) -> DerivedWorld:
    """Version 1 has a candidate, version 2."""
    return with_next(world)


WORK_OF_STEPS: dict[str, Callable[[DerivedWorld], object]] = {
    **dict.fromkeys(("trial.committing", "trial.committed", "trial_attempt.committing", "trial_attempt.committed"), try_all),
    **dict.fromkeys(("derive.begin", "derive.copied", "derive.inserted", "derive.committing", "derive.committed"), try_all),
    **dict.fromkeys(("trial_failure.committing", "trial_failure.committed"), fail_then_try),
}


def marked(step: str) -> object:
    """The steps of a task are those of test_derivation_steps.py: one of them is enough for each change."""
    return step if step.startswith("trial") or step == "derive.committing" else pytest.param(step, marks=pytest.mark.thorough)


@pytest.mark.parametrize("step", [marked(step) for step in WORK_OF_STEPS])
def test_g3_a_trial_that_is_killed_at_any_step_has_the_messages_of_one_attempt(
    delays: DerivedWorld, tmp_path: Path, step: str
) -> None:
    """And the outbox has none of them, and version 1 goes on."""
    assert {one for one in TRIAL_FAILPOINTS if not one.startswith("trial_end")} <= set(WORK_OF_STEPS)
    deliver(delays.world, 10)
    derive_all(delays)
    sent = delays.sent()
    kill_at(step, tmp_path, lambda: WORK_OF_STEPS[step](delays))
    try_all(delays)
    assert tried(delays) == [f"late m{number}" for number in range(1, 11)]
    done = [(first, last, count) for state, first, last, count in attempts(delays) if state == "done"]
    assert done == [(1, 4, 4), (5, 8, 4), (9, 10, 2)]
    deliver(delays.world, 2)
    derive_all(delays)
    assert delays.sent() == [*sent, "late m11", "late m12"]
    assert compare(delays).is_equal


@pytest.mark.parametrize("step", ["trial_end.committing", "trial_end.committed"])
@pytest.mark.parametrize("end", [promote, drop])
def test_g3_an_end_that_is_killed_is_whole_or_not_there(
    delays: DerivedWorld, tmp_path: Path, step: str, end: Callable[[DerivedWorld], object]
) -> None:
    deliver(delays.world, 6)
    derive_all(delays)
    try_all(delays)
    kill_at(step, tmp_path, lambda: end(delays))
    is_ended = step == "trial_end.committed"
    state = {promote: "promoted", drop: "dropped"}[end] if is_ended else "open"
    assert [one for _, one, _ in trials(delays)] == [state]
    assert versions(delays) == ([1, 2] if state == "promoted" else [1])
    assert (tried(delays) == []) == is_ended
    if end is promote:
        promote(delays)
        assert versions(delays) == [1, 2]
    deliver(delays.world, 2)
    derive_all(delays)
    assert delays.sent() == [f"late m{number}" for number in range(1, 9)]


def test_the_comparison_counts_and_samples_what_differs(delays: DerivedWorld) -> None:
    """One message is changed, one is only in the old output, two causes give one more; headers count, `derived_from` does not."""

    def better(position: int) -> list[Row]:
        match position:
            case 2:
                return []
            case 3:
                return [{"key": "k0", "payload": "better m3"}]
            case 5:
                return [*late(5), {"key": "k5", "payload": "more m5"}]
            case 6:
                return [{**late(6)[0], "headers": '{"late": 1}'}]
            case _:
                return late(position)

    deliver(delays.world, 8)
    derive_all(delays)
    try_all(delays, better, "2", "7")
    found = compare(delays)
    assert (found.trial.first_stream_position, found.trial.last_stream_position, found.compared_from) == (2, 7, 2)
    assert counts(found) == {"equal": 3, "changed": 2, "only_old": 1, "only_new": 1}
    assert found.changed_keys == 3
    assert [(one.difference, one.stream_position, one.old_payload, one.new_payload) for one in found.samples] == [
        ("changed", 3, "late m3", "better m3"),
        ("changed", 6, "late m6", "late m6"),
        ("only_new", 5, None, "more m5"),
        ("only_old", 2, "late m2", None),
    ]
    assert (found.samples[1].old_headers, found.samples[1].new_headers) == ("{}", '{"late": 1}')


def test_equal_messages_of_one_cause_are_paired_whatever_their_order(delays: DerivedWorld) -> None:
    deliver(delays.world, 2)
    derive_all(delays, make=lambda _: [{"payload": one} for one in ("a", "a", "b")])
    try_all(delays, lambda _: [{"payload": one} for one in ("b", "a", "c", "a")])
    assert counts(compare(delays)) == {"equal": 6, "changed": 0, "only_old": 0, "only_new": 2}


def test_messages_of_others_in_between_are_not_compared(delays: DerivedWorld) -> None:
    """An application sends while an attempt publishes, with a header that says the same."""
    deliver(delays.world, 3)
    derive_all(delays)
    forged = (
        "insert into relaybox.outbox (seq, topic, sender, headers, payload) "
        "select 100, topic, sender, headers, 'forged' from relaybox.outbox limit 1"
    )
    delays.world.query(STORE, forged)
    delays.world.query(STORE, "update relaybox_internal.derivation_attempt set last_seq = 100")
    try_all(delays)
    assert counts(compare(delays)) == {"equal": 3, "changed": 0, "only_old": 0, "only_new": 0}


def test_the_comparison_begins_where_the_outbox_has_all(delays: DerivedWorld) -> None:
    deliver(delays.world, 10)
    derive_all(delays)
    try_all(delays)
    delays.world.query(STORE, "delete from relaybox.outbox where seq <= 6")
    found = compare(delays)
    assert found.compared_from == 9
    assert counts(found) == {"equal": 2, "changed": 0, "only_old": 0, "only_new": 0}
    delays.world.query(STORE, "delete from relaybox.outbox")
    found = compare(delays)
    assert found.compared_from == found.trial.last_stream_position + 1
    assert sum(counts(found).values()) == 0


def test_promotion_begins_after_what_the_old_version_has_done(delays: DerivedWorld) -> None:
    """Version 1 went on; the file still says version 1, and runs derive with version 2."""
    deliver(delays.world, 6)
    derive_all(delays)
    try_all(delays)
    deliver(delays.world, 3)
    derive_all(delays)
    assert promote(delays) == 10
    deliver(delays.world, 2)
    derive_all(delays)
    query = "select headers -> 'derived_from' ->> 'version' from relaybox.outbox order by seq"
    assert [version for (version,) in delays.world.query(STORE, query)] == ["1"] * 9 + ["2"] * 2
    assert (tried(delays), trials(delays)) == ([], [(2, "promoted", "better")])
    assert promote(delays) == 12, "a promotion that is repeated changes nothing"
    with pytest.raises(DerivationChanged, match=r"is at version 2 since .*, and next is version 2"), trial(delays):
        pass
    delays.configure(**TWO, next={"version": 3, "with": f"{HERE}:copies"})
    deliver(delays.world, 1)
    derive_all(delays)
    assert len(delays.sent()) == 12


def test_nothing_that_was_not_tried_is_said_to_be_promoted(delays: DerivedWorld) -> None:
    """The file names another version, or another source, than the trial that was promoted had."""
    deliver(delays.world, 3)
    derive_all(delays)
    try_all(delays)
    promote(delays)
    delays.configure(**{"with": f"{HERE}:copies", "next": {**TWO, "with": f"{HERE}:odd_ones"}})
    with pytest.raises(
        DerivationChanged, match=r"version 2 .* was promoted at .*: tests\S+:twos with .*; now it is \S+:odd_ones with"
    ):
        promote(delays)
    delays.configure(**TWO, next={"version": 3, "with": f"{HERE}:copies"})
    with pytest.raises(RequestRefused, match="version 3 of the derivation of route delays was never tried in store hub"):
        promote(delays)
    assert versions(delays) == [1, 2]


def test_a_promotion_with_republish_sends_the_corrected_range_again(delays: DerivedWorld) -> None:
    deliver(delays.world, 6)
    derive_all(delays)
    try_all(delays, start="4", through="5")
    assert promote(delays, republish=True) == 4
    derive_all(delays, make=lambda position: [{"payload": f"better m{position}"}])
    assert delays.sent()[6:] == ["better m4", "better m5", "better m6"]
    assert delays.world.query(STORE, "select count(distinct message_id) from relaybox.outbox") == [(9,)]


def test_g3_a_trial_does_not_derive_from_what_only_an_older_version_has(delays: DerivedWorld) -> None:
    """The present version got a dead letter of the one before, which had derived from the messages after it."""
    deliver(delays.world, 3)
    with open_ledger(delays.route, delays.derivation) as opened:
        opened.begin(load_source(opened.derivation, route=ROUTE))
        for _ in range(2):
            attempt = opened.begin_attempt(1, "test")
            assert attempt is not None
            if attempt.firsts == [1]:
                opened.fail(attempt, "a reason", dead_letter=True)
            else:
                send(sending(attempt), batches(attempt, late))
        attempt = opened.begin_attempt(1, "test")
        assert attempt is not None
        send(sending(attempt), batches(attempt, late))
    delays.configure(**{"with": f"{HERE}:copies", "version": 2, "next": {**TWO, "version": 3}})
    derive_all(delays)
    delays.world.query(STORE, "select relaybox.redrive('derive.delays.v2', 'repaired')")
    deliver(delays.world, 1)
    derive_all(delays)
    assert delays.sent() == ["late m2", "late m3", "late m1", "late m4"]
    with pytest.raises(RequestRefused, match="none after stream position 3, which an older version has"), trial(delays, "2", "3"):
        pass
    with trial(delays) as opened_trial:
        attempt = opened_trial.begin_attempt(4, "test")
        assert attempt is not None
        assert (attempt.firsts, attempt.lasts) == ([4], [4])
        send(sending(attempt, version=3, is_trial=True), batches(attempt, late))
    assert promote(delays, republish=True) == 4
    derive_all(delays)
    assert delays.sent() == ["late m2", "late m3", "late m1", "late m4", "late m4"]


def test_a_trial_is_compared_where_senders_are_bound_to_roles(delays: DerivedWorld) -> None:
    """Row security of the outbox then hides rows from everybody but its owner, and our sessions refuse to read fewer."""
    deliver(delays.world, 3)
    derive_all(delays)
    try_all(delays, make=lambda position: [{"key": f"k{position % 3}", "payload": "other"}])
    delays.world.query(STORE, "select relaybox_internal.bind_senders(true)")
    with logged_in_as(delays.world, "relaybox_driver"), open_trials(delays.route) as opened:
        found = opened.compare(sample_count=1)
    assert counts(found)["changed"] == 3
    assert [(one.old_payload, one.new_payload) for one in found.samples] == [("late m1", "other")]


def test_a_trial_that_is_not_done_is_not_promoted(delays: DerivedWorld) -> None:
    deliver(delays.world, 6)
    derive_all(delays)
    with trial(delays) as opened:
        attempt = opened.begin_attempt(4, "test")
        assert attempt is not None
        send(sending(attempt, version=2, is_trial=True), batches(attempt, late))
    with pytest.raises(RequestRefused, match="has derived from stream positions 1 to 4 only, of 1 to 6"):
        promote(delays)
    try_all(delays)
    promote(delays)


def test_a_source_that_changed_is_another_trial(delays: DerivedWorld) -> None:
    """Neither gone on with nor promoted, while version 1 goes on."""
    deliver(delays.world, 6)
    derive_all(delays)
    try_all(delays)
    for candidate in ({**TWO, "with": f"{HERE}:odd_ones"}, {**TWO, "version": 3}, {"version": 2, "sql": "select 1"}):
        delays.configure(**{"with": f"{HERE}:copies", "next": candidate})
        with pytest.raises(DerivationChanged, match=r"trial 1 of route delays.* is of version 2: tests\S+:twos"):
            try_all(delays)
    with pytest.raises(DerivationChanged, match=r"now it is version 2: sql"):
        promote(delays)
    assert versions(delays) == [1]
    drop(delays)
    try_all(delays)
    promote(delays)


def test_a_trial_of_another_range_is_refused(delays: DerivedWorld) -> None:
    deliver(delays.world, 6)
    derive_all(delays)
    try_all(delays, start="2")
    with pytest.raises(
        DerivationChanged, match="was asked for the range from 2 to the last, and this run asks for 3 to the last"
    ):
        try_all(delays, start="3")
    try_all(delays, start="2")
    try_all(delays)
    assert len(attempts(delays)) == 2


def test_a_range_that_the_old_version_has_not_derived_is_refused(delays: DerivedWorld) -> None:
    deliver(delays.world, 3)
    with pytest.raises(DerivationChanged, match="has derived no message yet"):
        try_all(delays)
    derive_all(delays)
    deliver(delays.world, 3)
    with pytest.raises(RequestRefused, match="has derived from stream positions 1 to 3"):
        try_all(delays, start="4")
    try_all(delays, start="3")
    assert tried(delays) == ["late m3"]


def test_a_run_of_airflow_begins_one_trial(delays: DerivedWorld) -> None:
    """After a drop it neither begins another one nor goes on with that of another run. It goes on with its own, and with an open one."""
    deliver(delays.world, 6)
    derive_all(delays)

    def begin(run: str) -> int:
        with open_trials(delays.route) as opened:
            return opened.begin(source(delays), start=None, through=None, begun_by=run, once=True).trial_id

    assert [begin("r1"), begin("r1"), begin("r2")] == [1, 1, 1]
    with open_trials(delays.route) as opened:
        opened.begin(source(delays), start=None, through=None, begun_by="r3", once=True)
        assert opened.begin_attempt(4, "r3") is not None
    drop(delays)
    for run in ("r1", "r3"):
        with pytest.raises(
            RequestRefused, match=rf"trial 1 of version 2 .* was dropped at .* by test: worse\. This run \({run}\)"
        ):
            begin(run)
    assert begin("r2") == 2, "it has begun none, and worked on none"
    with pytest.raises(RequestRefused, match="a run begins one trial"):
        begin("r1")
    with trial(delays) as opened:
        assert opened.trial_id == 2, "a command goes on with the open one"


def test_a_raised_version_drops_the_trial(delays: DerivedWorld) -> None:
    deliver(delays.world, 6)
    derive_all(delays)
    with trial(delays) as opened:
        attempt = opened.begin_attempt(4, "test")
        assert attempt is not None
        delays.configure(**TWO)
        derive_all(delays)
        with pytest.raises(RequestRefused, match=r"trial 1 of version 2 of route delays was dropped at .*: version 2 began"):
            send(sending(attempt, version=2, is_trial=True), batches(attempt, late))
        with pytest.raises(RequestRefused, match="was dropped"):
            opened.begin_attempt(4, "test")
    assert (tried(delays), trials(delays)) == ([], [(2, "dropped", "version 2 began")])


def test_g3_tasks_of_one_attempt_write_once(delays: DerivedWorld) -> None:
    deliver(delays.world, 3)
    derive_all(delays)
    with trial(delays) as opened:
        attempt = opened.begin_attempt(10, "test")
        assert attempt is not None
        one = sending(attempt, version=2, is_trial=True)
        with ThreadPoolExecutor(4) as pool:
            done = list(pool.map(lambda n: send(one, batches(attempt, lambda _: [{"payload": f"{n}"}])), range(4)))
    assert sorted(one.now for one in done) == [False, False, False, True]
    assert len(tried(delays)) == 3
    assert len(set(tried(delays))) == 1


def test_g3_of_two_runs_at_once_the_later_attempt_counts(delays: DerivedWorld) -> None:
    deliver(delays.world, 3)
    derive_all(delays)
    with trial(delays) as one, trial(delays) as other:
        assert one.trial_id == other.trial_id
        first, second = one.begin_attempt(10, "one"), other.begin_attempt(10, "other")
        assert first is not None
        assert second is not None
        with pytest.raises(LaneLost, match=r"attempt 1 of trial 1 was ended at .*: it is superseded"):
            send(sending(first, version=2, is_trial=True), batches(first, late))
        assert send(sending(second, version=2, is_trial=True), batches(second, late)) == Published(3)
        one.fail(first, "a reason", dead_letter=True)
    assert (tried(delays), [state for state, *_ in attempts(delays)]) == (delays.sent(), ["superseded", "done"])


def test_two_trials_that_begin_at_once_are_one(delays: DerivedWorld) -> None:
    deliver(delays.world, 3)
    derive_all(delays)

    def begin(_: int) -> int:
        with trial(delays) as opened:
            return opened.trial_id

    with ThreadPoolExecutor(4) as pool:
        assert len(set(pool.map(begin, range(4)))) == 1


def test_a_message_for_which_the_function_fails_is_set_aside_and_makes_no_dead_letter(delays: DerivedWorld) -> None:
    deliver(delays.world, 3)
    derive_all(delays)
    with trial(delays) as opened:
        attempt = opened.begin_attempt(1, "test")
        assert attempt is not None
        opened.fail(attempt, "a mistake", dead_letter=True)
    try_all(delays)
    found = compare(delays)
    assert (found.set_aside, counts(found)) == (1, {"equal": 2, "changed": 0, "only_old": 1, "only_new": 0})
    assert delays.world.query(STORE, "select from relaybox_internal.dead_letter") == []


def test_what_the_outbox_would_refuse_a_trial_refuses(delays: DerivedWorld) -> None:
    deliver(delays.world, 1)
    derive_all(delays)
    with trial(delays) as opened:
        attempt = opened.begin_attempt(1, "test")
        assert attempt is not None
        for row in ({"payload": None}, {"payload": "a", "key": "x" * 201}, {"payload": "a", "headers": "[1]"}):
            with pytest.raises(DerivationFailed):
                send(sending(attempt, version=2, is_trial=True), batches(attempt, lambda _, row=row: [row]))
    assert tried(delays) == []


def test_g3_a_promotion_in_the_middle_of_a_batch_waits_for_it_or_ends_it(
    delays: DerivedWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An attempt that publishes is waited for; one that has not begun to publish loses. No message is derived twice, none is lost."""
    deliver(delays.world, 6)
    derive_all(delays)
    try_all(delays)
    deliver(delays.world, 4)
    publishing = Event()

    def is_waiting() -> bool:
        query = "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and query ~ 'promote_der'"
        return bool(delays.world.value(STORE, query))

    def wait(failpoint: str, _: object) -> None:
        if failpoint == "derive.inserted":
            publishing.set()
            wait_until(is_waiting, "the promotion waits for the attempt")

    with open_ledger(delays.route, delays.derivation) as opened, ThreadPoolExecutor(1) as pool:
        opened.begin(load_source(opened.derivation, route=ROUTE))
        attempt = opened.begin_attempt(2, "test")
        assert attempt is not None
        with monkeypatch.context() as patched:
            patched.setattr("relaybox.spark.derivations.publishing.reach", wait)
            sent = pool.submit(send, sending(attempt), batches(attempt, late))
            assert publishing.wait(patience(30))
            assert promote(delays) == 9
            assert sent.result().now
        with pytest.raises(NotSubscribed):
            opened.begin_attempt(2, "test")
        opened.session.rollback()
        assert opened.is_promoted()
    derive_all(delays)
    assert delays.sent() == [f"late m{number}" for number in range(1, 11)]


def test_g11_a_store_that_is_restored_takes_the_trial_back_with_it(delays: DerivedWorld, backups: Backups) -> None:
    """A task of a lost attempt writes nothing, although another attempt has its number; a lost promotion is asked for again."""
    deliver(delays.world, 3)
    derive_all(delays)
    with trial(delays):
        pass
    early = backups.take(STORE)
    with trial(delays) as opened:
        lost = opened.begin_attempt(10, "test")
    assert lost is not None
    try_all(delays)
    promote(delays)
    backups.restore(STORE, early)
    with trial(delays) as opened:
        known = opened.begin_attempt(10, "test")
        assert known is not None
        assert known.attempt == lost.attempt
        with pytest.raises(LaneLost, match="the store does not know this attempt 1 of trial 1"):
            send(sending(lost, version=2, is_trial=True), batches(lost, late))
        send(sending(known, version=2, is_trial=True), batches(known, late))
    assert versions(delays) == [1]
    promote(delays)
    assert versions(delays) == [1, 2]


def test_viewers_see_trials_and_no_message_of_them(delays: DerivedWorld) -> None:
    deliver(delays.world, 1)
    derive_all(delays)
    try_all(delays)
    may = "select has_table_privilege(%s, 'relaybox_internal.derivation_trial{}', 'select')"
    for role, of_trials, of_messages in (
        ("relaybox_viewer", True, False),
        ("relaybox_reader", True, True),
        ("relaybox_driver", True, True),
        ("relaybox_consumer", False, False),
        ("relaybox_producer", False, False),
    ):
        found = [delays.world.value(STORE, may.format(table).replace("%s", f"'{role}'")) for table in ("", "_message")]
        assert found == [of_trials, of_messages], role


def test_an_empty_store_has_no_trial_to_compare_or_end(delays: DerivedWorld) -> None:
    for ask in (compare, drop):
        with pytest.raises(RequestRefused, match="route delays has no open trial in store hub"):
            ask(delays)
    with pytest.raises(RequestRefused, match="version 2 of the derivation of route delays was never tried in store hub"):
        promote(delays)
