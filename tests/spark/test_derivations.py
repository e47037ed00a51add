"""Derived messages: of each message of the stream exactly one attempt published, whatever the function, Spark or a store does."""

from __future__ import annotations

import itertools
from pathlib import Path
from zipfile import ZipFile

import pytest
from pyspark import SparkFiles
from pyspark.sql import DataFrame, SparkSession

from relaybox.errors import ConfigurationError, DerivationChanged, DerivationFailed, LaneLost, NotSubscribed
from relaybox.spark.derivations.deriving import Derived, derive
from relaybox.spark.derivations.ledger import open_ledger
from relaybox.spark.derivations.previewing import preview
from relaybox.spark.derivations.source import load_source
from relaybox.spark.tasks import ContextSession
from tests.spark.frames import serve
from tests.support.derivations import HERE, ROUTE, STORE, SUBSCRIPTION, DerivedWorld, any_number
from tests.support.streams import deliver
from tests.support.world import World


@pytest.fixture
def delays(frames: SparkSession, world: World) -> DerivedWorld:
    serve(frames)
    derived = DerivedWorld(world)
    derived.configure(**{"with": f"{HERE}:copies"})
    world.register()
    return derived


def run(frames: SparkSession, delays: DerivedWorld) -> Derived:
    return derive(delays.route, delays.derivation, ContextSession(frames.sparkContext), recorded_by="test")


def test_each_message_is_derived_from_once_in_the_order_of_the_stream(frames: SparkSession, delays: DerivedWorld) -> None:
    deliver(delays.world, 40)
    assert run(frames, delays) == Derived(ROUTE, 1, attempts=1, messages=40, derived=40)
    assert run(frames, delays) == Derived(ROUTE, 1)
    deliver(delays.world, 5, backwards=True)
    run(frames, delays)
    assert delays.sent() == [f"late m{number}" for number in range(1, 46)]
    assert delays.attempts() == [(1, "published", "{[1,41)}", 40, 40), (2, "published", "{[41,46)}", 5, 5)]
    assert delays.done() == 45


def test_derived_messages_arrive_with_their_causes(frames: SparkSession, delays: DerivedWorld) -> None:
    """The route moves them as any message; the header says which message of which stream caused each."""
    deliver(delays.world, 3)
    run(frames, delays)
    for hop in delays.route.hops:
        delays.world.transfer(hop)
    query = "select sender, topic, key, payload, headers -> 'derived_from' from relaybox.read_stream('delays') order by stream_position"
    assert delays.world.query("analytics", query) == [
        (ROUTE, ROUTE, f"k{number}", f"late m{number}", {"stream": "flights", "stream_position": number, "version": 1})
        for number in (1, 2, 3)
    ]


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        ("twos", [f"m{number}{part}" for number in range(1, 13) for part in "ab"]),
        ("odd_ones", [f"m{number}" for number in range(1, 13, 2)]),
        ("nothing", []),
        (
            "counts",
            [
                f'{{"sender":"s{sender}","count":{count}}}'
                for batch in ((3, 3, 2), (2, 1, 1))
                for sender, count in zip((1, 2, 3) if batch[0] == 3 else (3, 1, 2), batch, strict=True)
            ],
        ),
    ],
)
def test_a_function_may_split_filter_and_aggregate(
    frames: SparkSession, delays: DerivedWorld, function: str, expected: list[str]
) -> None:
    delays.configure(**{"with": f"{HERE}:{function}", "batch_rows": 8})
    deliver(delays.world, 12)
    assert run(frames, delays).attempts == 2
    assert sorted(delays.sent()) == sorted(expected) if function == "counts" else delays.sent() == expected
    assert delays.done() == 12


def test_a_query_of_sql_derives_too(frames: SparkSession, delays: DerivedWorld) -> None:
    delays.configure(sql="select stream_position, upper(payload) as payload from flights where key <> 'k1'")
    deliver(delays.world, 9)
    run(frames, delays)
    assert delays.sent() == ["M2", "M3", "M4", "M5", "M6", "M7", "M9"]


def test_ids_follow_from_the_cause(frames: SparkSession, delays: DerivedWorld) -> None:
    """A store that was restored to a time before sends the same ids again, however the batches are cut."""
    delays.configure(**{"with": f"{HERE}:twos"})
    deliver(delays.world, 6)
    run(frames, delays)
    ids = "select message_id, payload from relaybox.outbox order by seq"
    before = delays.world.query(STORE, ids)
    delays.world.query(STORE, "delete from relaybox.outbox")
    delays.world.query(STORE, "delete from relaybox_internal.derivation_attempt")
    delays.world.query(STORE, f"select relaybox.replay('{SUBSCRIPTION}', '1', 'test')")
    delays.world.query(STORE, "update relaybox_internal.cursor set done_stream_position = 0, fetched_stream_position = 0")
    delays.configure(**{"with": f"{HERE}:twos", "batch_rows": 4})
    run(frames, delays)
    assert delays.world.query(STORE, ids) == before


@pytest.mark.parametrize(
    ("function", "says"),
    [
        ("raises", r"raises failed: ValueError: no such airline \\0 \\ud800. Nothing was sent"),
        ("no_frame", "returned str, no DataFrame"),
        ("other_columns", "a message has no column delay"),
        ("other_topic", "3 derived messages of route delays have a topic that is not the route's, such as elsewhere"),
        ("other_cause", "have a stream_position such as 1001, which is not among 1 to 3"),
    ],
)
def test_a_function_that_makes_no_messages_fails_loudly_and_sends_nothing(
    frames: SparkSession, delays: DerivedWorld, function: str, says: str
) -> None:
    deliver(delays.world, 3)
    delays.configure(**{"with": f"{HERE}:{function}"})
    for _ in range(2):
        with pytest.raises(DerivationFailed, match=says):
            run(frames, delays)
    assert delays.sent() == []
    assert [(attempt, state) for attempt, state, *_ in delays.attempts()] == [(1, "failed"), (2, "failed")]
    assert delays.done() == 0
    reasons = delays.world.query(STORE, "select reason from relaybox_internal.derivation_attempt")
    assert all(says.split(maxsplit=1)[0] in reason for (reason,) in reasons)


@pytest.mark.parametrize(
    ("function", "says"),
    [
        ("nowhere.at_all:delays", "the import of nowhere.at_all failed: ModuleNotFoundError"),
        (f"{HERE}:absent", "has no function absent"),
        (f"{HERE}:not_callable", "has no function not_callable"),
    ],
)
def test_a_function_that_is_not_there_is_refused_before_anything_is_fetched(
    frames: SparkSession, delays: DerivedWorld, function: str, says: str
) -> None:
    deliver(delays.world, 3)
    delays.configure(**{"with": function})
    with pytest.raises(ConfigurationError, match=says):
        run(frames, delays)
    assert delays.attempts() == []


def test_messages_for_which_the_function_fails_alone_become_dead_letters(frames: SparkSession, delays: DerivedWorld) -> None:
    """The others are derived, in their order; a redriven dead letter is derived after them."""
    deliver(delays.world, 25)
    delays.configure(**{"with": f"{HERE}:no_tens", "row_errors": "dead_letter"})
    assert run(frames, delays).dead_letters == 2
    assert delays.sent() == [f"m{number}" for number in range(1, 26) if number not in (10, 20)]
    letters = "select stream_position, reason, detail like '%%bad row m%%' from relaybox.dead_letters order by stream_position"
    assert delays.world.query(STORE, letters) == [(10, "refused", True), (20, "refused", True)]
    delays.configure(**{"with": f"{HERE}:copies", "changed_source": "warn"})
    delays.world.query(STORE, f"select relaybox.redrive('{SUBSCRIPTION}', 'repaired')")
    run(frames, delays)
    assert delays.sent()[23:] == ["late m10", "late m20"]
    assert delays.world.query(STORE, "select distinct state from relaybox.dead_letters") == [("redriven",)]


@pytest.mark.parametrize(("message", "told"), [("m1", "surrogates not allowed"), ("m2", r"no such gate .{1,3}ud800 of m2")])
def test_a_lone_surrogate_is_an_error_and_no_end_of_the_task(
    frames: SparkSession, delays: DerivedWorld, message: str, told: str
) -> None:
    """A plain worker of Spark 4.2.0 hangs for ever when the text of an error has one."""
    deliver(delays.world, int(message.removeprefix("m")))
    delays.configure(**{"with": f"{HERE}:lone_surrogate", "batch_rows": 1, "start": message.removeprefix("m")})
    with pytest.raises(DerivationFailed, match=told):
        run(frames, delays)
    assert delays.sent() == []
    assert [state for _, state, *_ in delays.attempts()] == ["failed"]


def test_a_function_that_fails_for_each_message_ends_the_run(frames: SparkSession, delays: DerivedWorld) -> None:
    """Then not the messages are wrong. The dead letters say what Python raised, without what no store takes."""
    deliver(delays.world, 7)
    delays.configure(**{"with": f"{HERE}:never", "row_errors": "dead_letter", "dead_letter_limit": 3})
    with pytest.raises(
        DerivationFailed, match=r"3 messages, one after the other, are dead letters now.*ValueError: never m3 \\0"
    ):
        run(frames, delays)
    letters = delays.world.query(STORE, "select stream_position, detail from relaybox.dead_letters order by stream_position")
    assert [position for position, _ in letters] == [1, 2, 3]
    assert "ValueError: never m1" in letters[0][1]
    assert letters[0][1].endswith("Nothing was sent.")  # without the advice to set row_errors
    delays.configure(**{"with": f"{HERE}:copies", "version": 2})
    run(frames, delays)
    delays.world.query(STORE, "select relaybox.redrive('derive.delays.v2', 'repaired')")
    run(frames, delays)
    assert sorted(delays.sent()) == [f"late m{number}" for number in range(1, 8)]


@pytest.mark.parametrize("function", ["raises", "other_columns", "doubled_column"])
def test_a_function_that_fails_before_it_sees_a_row_sets_no_message_aside(
    frames: SparkSession, delays: DerivedWorld, function: str
) -> None:
    """Else a broken function would turn the whole stream into dead letters."""
    deliver(delays.world, 3)
    delays.configure(**{"with": f"{HERE}:{function}", "row_errors": "dead_letter"})
    with pytest.raises(DerivationFailed):
        run(frames, delays)
    assert delays.world.query(STORE, "select from relaybox.dead_letters") == []
    assert [state for _, state, *_ in delays.attempts()] == ["failed"]


def test_a_higher_version_begins_where_the_file_says_and_a_lower_one_is_refused(
    frames: SparkSession, delays: DerivedWorld
) -> None:
    deliver(delays.world, 6)
    run(frames, delays)
    deliver(delays.world, 2)
    delays.configure(**{"with": f"{HERE}:odd_ones", "version": 2})
    run(frames, delays)
    assert delays.sent()[6:] == ["m7"]
    delays.configure(**{"with": f"{HERE}:odd_ones", "version": 5, "start": "4"})
    run(frames, delays)
    assert delays.sent()[7:] == ["m5", "m7"]
    open_ones = "select subscription from relaybox.subscriptions"
    assert delays.world.query(STORE, open_ones) == [("derive.delays.v5",)]
    delays.configure(**{"with": f"{HERE}:odd_ones", "version": 2})
    with pytest.raises(DerivationChanged, match=r"is at version 5 since .*, relaybox.yaml says version 2"):
        run(frames, delays)


def test_another_source_under_the_same_version_is_refused_or_warned_of(frames: SparkSession, delays: DerivedWorld) -> None:
    deliver(delays.world, 3)
    delays.configure(sql="select payload from flights")
    run(frames, delays)
    deliver(delays.world, 1)
    delays.configure(sql="select upper(payload) as payload from flights")
    with pytest.raises(DerivationChanged, match="version 1 of the derivation of route delays is sql with digest"):
        run(frames, delays)
    delays.configure(sql="select upper(payload) as payload from flights", changed_source="warn")
    run(frames, delays)
    assert delays.sent() == ["m1", "m2", "m3", "M4"]


def test_a_later_run_takes_over_and_the_earlier_one_publishes_nothing(frames: SparkSession, delays: DerivedWorld) -> None:
    """With a function that gives other rows each time: the output is that of one attempt."""
    deliver(delays.world, 20)
    delays.configure(**{"with": f"{HERE}:any_number"})
    session = ContextSession(frames.sparkContext)
    runs = itertools.count()

    def run_another_first(flights: DataFrame) -> DataFrame:
        if next(runs) == 0:
            run(frames, delays)
        return any_number(flights)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(f"{HERE}.any_number", run_another_first)
        with pytest.raises(LaneLost, match=r"was ended at .*: it is superseded"):
            derive(delays.route, delays.derivation, session, recorded_by="earlier")
    states = [(attempt, state) for attempt, state, *_ in delays.attempts()]
    assert states == [(1, "superseded"), (2, "published")]
    (_, _, _, _, derived), sent = delays.attempts()[1], delays.sent()
    assert len(sent) == derived
    assert len({one.split()[0] for one in sent}) == len(sent)


def test_a_subscription_that_somebody_ended_is_an_error(frames: SparkSession, delays: DerivedWorld) -> None:
    deliver(delays.world, 3)
    run(frames, delays)
    delays.world.query(STORE, f"select relaybox.unsubscribe('{SUBSCRIPTION}', 'tidying up')")
    deliver(delays.world, 3)
    with pytest.raises(NotSubscribed, match=r"with stream position 3 done.*give the derivation version 2"):
        run(frames, delays)
    delays.configure(**{"with": f"{HERE}:copies", "version": 2})
    run(frames, delays)
    assert delays.sent() == [f"late m{number}" for number in range(1, 7)]


def test_a_dry_run_shows_what_would_be_sent_and_writes_nothing(frames: SparkSession, delays: DerivedWorld) -> None:
    deliver(delays.world, 7)
    session = ContextSession(frames.sparkContext)
    delays.configure(**{"with": f"{HERE}:twos", "start": "4"})
    shown = preview(delays.route, delays.derivation, session, sample_count=2)
    assert (shown.first_stream_position, shown.last_stream_position, shown.messages, shown.derived) == (4, 7, 4, 8)
    assert [row["payload"] for row in shown.samples] == ["m4a", "m4b"]
    assert delays.world.query(STORE, "select from relaybox_internal.derivation") == []
    assert delays.sent() == []
    run(frames, delays)
    again = preview(delays.route, delays.derivation, session, sample_count=2)
    assert (again.first_stream_position, again.last_stream_position, again.messages, again.samples) == (8, 7, 0, [])


def test_begin_is_the_same_twice_at_once(delays: DerivedWorld) -> None:
    source = load_source(delays.derivation, route=ROUTE)
    for _ in range(2):
        with open_ledger(delays.route, delays.derivation) as ledger:
            ledger.begin(source)
    assert delays.world.query(STORE, "select route, version from relaybox_internal.derivation") == [(ROUTE, 1)]


TEXT = "from pyspark.sql import functions as f\n\ndef made(rows):\n    return rows.select('stream_position', f.lit('{}').alias('payload'))\n"


@pytest.fixture
def edited(delays: DerivedWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of the module whose function derives, five messages at a time."""
    folder = Path(SparkFiles.getRootDirectory())  # where the workers look, too
    file = folder / f"edited_{tmp_path.name}.py"
    file.write_text(TEXT.format("old"))
    monkeypatch.syspath_prepend(str(folder))
    delays.configure(**{"with": f"{file.stem}:made", "batch_rows": 5})
    return file


def test_a_module_that_is_changed_during_a_run_stops_it(frames: SparkSession, delays: DerivedWorld, edited: Path) -> None:
    """No message is sent under the digest of another text; and this process, which has the old one, derives with neither."""
    deliver(delays.world, 12)
    session = ContextSession(frames.sparkContext)
    change = lambda _: edited.write_text(TEXT.format("new"))  # noqa: E731
    with pytest.raises(
        DerivationChanged, match=r"route delays: the text of edited_\S+ at \S+ has digest .*it was changed meanwhile"
    ):
        derive(delays.route, delays.derivation, session, recorded_by="test", progress=change)
    assert delays.sent() == ["old"] * 5
    with pytest.raises(DerivationChanged, match="which Python does not read again"):
        run(frames, delays)
    delays.configure(**{"with": f"{edited.stem}:made", "batch_rows": 5, "version": 2})
    with pytest.raises(DerivationChanged, match="Restart the process"):
        run(frames, delays)
    assert delays.sent() == ["old"] * 5


def test_a_module_that_is_removed_during_a_run_stops_it(frames: SparkSession, delays: DerivedWorld, edited: Path) -> None:
    """With row_errors: dead_letter too, no message becomes a dead letter: it says nothing of one."""
    deliver(delays.world, 12)
    delays.configure(**{"with": f"{edited.stem}:made", "batch_rows": 5, "row_errors": "dead_letter"})
    remove = lambda _: edited.unlink()  # noqa: E731
    with pytest.raises(DerivationChanged, match=r"route delays: the text of edited_\S+ at \S+ can't be read any more"):
        derive(delays.route, delays.derivation, ContextSession(frames.sparkContext), recorded_by="test", progress=remove)
    assert delays.sent() == ["old"] * 5
    assert delays.world.query(STORE, "select from relaybox.dead_letters") == []


def test_g3_a_module_that_is_changed_while_spark_derives_sends_nothing(
    frames: SparkSession, delays: DerivedWorld, edited: Path
) -> None:
    """Workers import it when they need it: after the attempt began."""
    change = f"open({str(edited)!r}, 'a').write('# changed')"
    edited.write_text(
        "from pyspark.sql import functions as f\n\ndef made(rows):\n"
        f"    changed = f.udf(lambda payload: str({change}))\n"
        "    return rows.select('stream_position', changed('payload').alias('payload'))\n"
    )
    deliver(delays.world, 3)
    with pytest.raises(DerivationChanged, match="it was changed meanwhile"):
        run(frames, delays)
    assert delays.sent() == []
    assert [state for _, state, *_ in delays.attempts()] == ["failed"]


def test_a_function_may_be_in_an_archive(
    frames: SparkSession, delays: DerivedWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As spark-submit --py-files takes it."""
    name, archive = f"zipped_{tmp_path.name}", tmp_path / "code.zip"
    with ZipFile(archive, "w") as code:
        code.writestr(f"{name}.py", TEXT.format("zipped"))
    monkeypatch.syspath_prepend(str(archive))
    delays.configure(**{"with": f"{name}:made"})
    deliver(delays.world, 2)
    run(frames, delays)
    assert delays.sent() == ["zipped"] * 2
