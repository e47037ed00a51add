"""The demo's report, computed from a ledger made by hand: every number, and every disagreement it must name."""

from __future__ import annotations

import io
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from rich.console import Console

from relaybox.local.demo.airline import Fate, OpenTime, Tally
from relaybox.local.demo.display import PLAIN_WIDTH
from relaybox.local.demo.facts import BatchTimes, CascadeStep, DemoFacts, HopTimes, Latency, LogFacts
from relaybox.local.demo.report import Report, show_report
from relaybox.local.demo.spark_facts import DerivedFacts, LakeFacts, SparkProgress
from relaybox.verification.reliability import measure_delivery
from relaybox.verification.results import LegVerification, RouteVerification

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


def after(seconds: float) -> datetime:
    return BEGIN + timedelta(seconds=seconds)


FIRST_HOP = HopTimes(
    "flights/1",
    (
        BatchTimes(1, 100, 100, planned_at=after(10), published_at=after(11)),
        BatchTimes(2, 700, 800, planned_at=after(20), published_at=after(22)),
        BatchTimes(3, 200, 1000, planned_at=after(31), published_at=after(32)),
    ),
)
SECOND_HOP = HopTimes("flights/2", (BatchTimes(1, 1000, 1000, planned_at=after(33), published_at=after(40)),))
RECEIVED = Counter({"UA": 600, "AA": 400})
LOGS = (
    LogFacts("flights/1", "hub", RECEIVED, RECEIVED, ()),
    LogFacts("flights/2", "analytics", RECEIVED, RECEIVED, ()),
)
FACTS = DemoFacts(
    hops=(FIRST_HOP, SECOND_HOP),
    logs=LOGS,
    first_committed_at=BEGIN,
    last_arrived_at=after(40),
    latency=Latency(1000, 21.5, 38.25),
    steady=None,
    cascade_of=FIRST_HOP.largest,
    cascade=(
        CascadeStep(after(20), "airline", "planned as batch 2 of flights/1", ""),
        CascadeStep(after(22), "hub", "arrived, flights/1", ""),
        CascadeStep(after(41.5), "airline", "settled, flights/1", "confirm DAG"),
    ),
)
TALLY = Tally(RECEIVED, 36, Counter({Fate.COMMITTED: 20, Fate.ROLLED_BACK: 2, Fate.SAVEPOINT_UNDONE: 3, Fate.LATE: 1}))


def leg(name: str, *, sent: int = 1000, unique: int = 1000, received: int = 1000, in_flight: int = 0) -> LegVerification:
    delivery = measure_delivery(sent=sent, unique_received=unique, received=received)
    return LegVerification(name, "here", "there", sent, received, in_flight, 3, 3, delivery, (), ())


PROOF = RouteVerification(
    route="flights",
    verified_at=after(50),
    duration_seconds=5.0,
    hops=(leg("flights/1"), leg("flights/2")),
    end_to_end=leg("flights"),
    sender_count=2,
    disordered_senders=(),
    repeated_ids=(),
    streams=(),
)
DERIVED = DerivedFacts("delays", 1, SparkProgress(2, 1000, 32, 32, 1000), RECEIVED, Counter({"UA": 12}))
LAKE = LakeFacts("flights_lake", "/lake/flights", 1, 1000, 1000, None)
REPORT = Report(TALLY, OpenTime(after(5), after(31.5)), PROOF, FACTS, DERIVED, LAKE)


def test_rates_of_a_hop_count_the_time_in_which_batches_were_on_their_way() -> None:
    """1,000 messages in 1 + 2 + 1 seconds."""
    assert FIRST_HOP.row_count == 1000
    assert FIRST_HOP.rows_per_second == 250
    assert HopTimes("flights/1", ()).rows_per_second == 0


def test_the_rate_in_all_is_from_the_first_commit_to_the_last_arrival() -> None:
    assert REPORT.messages_per_second == 1000 / 40


def test_the_cascade_is_that_of_the_largest_batch() -> None:
    assert FIRST_HOP.largest.batch == 2


def test_batches_within_a_time_were_planned_and_published_in_it() -> None:
    """Batch 3 was planned while the late transaction was open, and published after it had committed."""
    assert [batch.batch for batch in FIRST_HOP.within(REPORT.late.begin, REPORT.late.end)] == [1, 2]
    assert [batch.batch for batch in FIRST_HOP.within(after(15), after(60))] == [2, 3]


def test_a_report_without_fault_has_none() -> None:
    assert REPORT.faults == []


@pytest.mark.parametrize(
    ("report", "fault"),
    [
        (
            replace(REPORT, verification=replace(PROOF, end_to_end=leg("flights", in_flight=1))),
            "verify says: in flight",
        ),
        (
            replace(REPORT, verification=replace(PROOF, hops=(leg("flights/1"), leg("flights/2", unique=999, received=999)))),
            "flights/2: R 0.999000, UR 1",
        ),
        (
            replace(REPORT, verification=replace(PROOF, end_to_end=leg("flights", received=1250))),
            "flights: R 1, UR 0.800000",
        ),
        (
            replace(REPORT, tally=replace(TALLY, committed=Counter({"UA": 600, "AA": 401}))),
            "the outbox has 1,000 messages, producers committed 1,001",
        ),
        (
            replace(REPORT, facts=replace(FACTS, logs=(LOGS[0], replace(LOGS[1], unique=Counter({"UA": 599, "AA": 400}))))),
            "analytics: 600 messages of UA, 599 of them unique; 600 were committed",
        ),
        (
            replace(REPORT, facts=replace(FACTS, logs=(replace(LOGS[0], received=Counter({"UA": 600})), LOGS[1]))),
            "hub: 0 messages of AA, 400 of them unique; 400 were committed",
        ),
        (
            replace(REPORT, facts=replace(FACTS, logs=(LOGS[0], replace(LOGS[1], disordered=("AA",))))),
            "analytics: out of order: AA",
        ),
        (
            replace(REPORT, derived=replace(DERIVED, flights=Counter({"UA": 1200, "AA": 400}))),
            "delays: the derived messages tell of 1,200 flights of UA; 600 were committed",
        ),
        (
            replace(REPORT, lake=replace(LAKE, row_count=1001)),
            "flights_lake: 1,001 rows, 1,000 compared; 1,000 messages were committed",
        ),
        (
            replace(REPORT, lake=replace(LAKE, first_difference=7)),
            "flights_lake: the table differs from the stream at stream position 7",
        ),
    ],
)
def test_each_disagreement_is_a_fault(report: Report, fault: str) -> None:
    """Verify, R, UR, the producers' count, each sender's count at each store, the order, derivation and table: any of them alone."""
    assert fault in report.faults


def test_the_report_shows_its_numbers() -> None:
    """What a reader looks for is there, on a console that is no terminal too."""
    output = io.StringIO()
    show_report(REPORT, Console(file=output, width=PLAIN_WIDTH), airflow_url="http://127.0.0.1:8080")
    shown = " ".join(output.getvalue().split())
    for expected in (
        "committed 1,000 24 rolled back",
        "rolled back 36 2, and 3 to a savepoint",
        "hub 1,000 1,000 2 2",
        "flights/1 here → there 1,000 1,000 1 1 exactly once 3 250 moving",
        "all, the start of Spark included 1,000 21.50 s 38.25 s",
        "settled, flights/1 21.50 s airline confirm DAG",
        "open for 26 s. Meanwhile 800 messages of others were planned and arrived (batches: 2)",
        "delays, version 1 1,000 2 32 32 1,000 12",
        "flights_lake, Delta 1,000 1 1,000 yes",
        "table: /lake/flights",
        "http://127.0.0.1:8080",
        "once, unchanged and in order",
    ):
        assert expected in shown, shown
