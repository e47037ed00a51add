"""The demo's last word: what was sent, what arrived, how fast, and what was found wrong."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from relaybox.local.demo.airline import Fate, OpenTime, Tally
from relaybox.local.demo.facts import DemoFacts, LogFacts
from relaybox.local.demo.spark_facts import DerivedFacts, LakeFacts
from relaybox.verification.reliability import PERFECT, show_ratio
from relaybox.verification.results import LegVerification, RouteVerification


@dataclass(frozen=True)
class Report:
    """The producers' own tally, the verification, what the stores hold, and what Spark made of the stream."""

    tally: Tally
    late: OpenTime
    verification: RouteVerification
    facts: DemoFacts
    derived: DerivedFacts
    lake: LakeFacts

    @property
    def faults(self) -> list[str]:
        """Everything in which they disagree, or that is not exactly once and in order; empty is what the demo shows."""
        return [
            *self._verification_faults(),
            *(fault for log in self.facts.logs for fault in self._log_faults(log)),
            *self._derived_faults(),
            *self._lake_faults(),
        ]

    @property
    def messages_per_second(self) -> float:
        """From the first commit to the last arrival."""
        seconds = (self.facts.last_arrived_at - self.facts.first_committed_at).total_seconds()
        return self.tally.committed_count / seconds

    def _verification_faults(self) -> Iterator[str]:
        if self.verification.outcome != "delivered":
            yield f"verify says: {self.verification.outcome}"
        for leg in (*self.verification.hops, self.verification.end_to_end):
            if leg.delivery != PERFECT:
                yield f"{leg.name}: R {show_ratio(leg.delivery.reliability)}, UR {show_ratio(leg.delivery.uniqueness)}"
        if self.verification.end_to_end.sent != self.tally.committed_count:
            yield f"the outbox has {self.verification.end_to_end.sent:,} messages, producers committed {self.tally.committed_count:,}"

    def _log_faults(self, log: LogFacts) -> Iterator[str]:
        for sender in sorted(self.tally.committed.keys() | log.received.keys()):
            sent, received, unique = self.tally.committed[sender], log.received[sender], log.unique[sender]
            if not sent == received == unique:
                yield f"{log.store}: {received:,} messages of {sender}, {unique:,} of them unique; {sent:,} were committed"
        if log.disordered:
            yield f"{log.store}: out of order: {', '.join(log.disordered)}"

    def _derived_faults(self) -> Iterator[str]:
        for sender in sorted(self.tally.committed.keys() | self.derived.flights.keys()):
            sent, told = self.tally.committed[sender], self.derived.flights[sender]
            if sent != told:
                yield f"{self.derived.route}: the derived messages tell of {told:,} flights of {sender}; {sent:,} were committed"

    def _lake_faults(self) -> Iterator[str]:
        lake, sent = self.lake, self.tally.committed_count
        if not lake.row_count == lake.compared_count == sent:
            yield f"{lake.export}: {lake.row_count:,} rows, {lake.compared_count:,} compared; {sent:,} messages were committed"
        if lake.first_difference is not None:
            yield f"{lake.export}: the table differs from the stream at stream position {lake.first_difference}"


def show_report(report: Report, console: Console, *, airflow_url: str) -> None:
    """Prints the report: tables, and the outcome last."""
    console.print(_sent(report), _stores(report), _hops(report), _latencies(report), _cascade(report.facts))
    console.print(_derived(report.derived), _lake(report.lake))
    console.print(_late(report), highlight=False, soft_wrap=True)
    console.print(f"Airflow, no login: {airflow_url}", highlight=False, soft_wrap=True)
    for fault in report.faults:
        console.print(Text.assemble(("wrong:", "bold red"), f" {fault}"), highlight=False, soft_wrap=True)
    if not report.faults:
        console.print("[bold green]Every committed message is at the last store once, unchanged and in order.[/bold green]")


def _table(*columns: str) -> Table:
    """The first column is text, the others are numbers."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for number, column in enumerate(columns):
        table.add_column(column, justify="right" if number else "left")
    return table


def _sent(report: Report) -> Table:
    tally = report.tally
    undone, to_savepoint = tally.transactions[Fate.ROLLED_BACK], tally.transactions[Fate.SAVEPOINT_UNDONE]
    table = _table("producers, by their own count", "messages", "transactions")
    table.add_row("committed", f"{tally.committed_count:,}", f"{tally.transactions.total() - undone:,}")
    table.add_row("rolled back", f"{tally.rolled_back:,}", f"{undone:,}, and {to_savepoint:,} to a savepoint")
    return table


def _stores(report: Report) -> Table:
    table = _table("store", "received", "unique", "senders", "senders in order")
    for log in report.facts.logs:
        in_order = len(log.received) - len(log.disordered)
        table.add_row(log.store, *(f"{n:,}" for n in (log.received.total(), log.unique.total(), len(log.received), in_order)))
    return table


def _hops(report: Report) -> Table:
    table = _table("hop", "sent", "received", "R", "UR", "delivery", "batches", "messages/s")
    for leg, times in zip(report.verification.hops, report.facts.hops, strict=True):
        table.add_row(*_leg(leg), f"{len(times.batches):,}", f"{times.rows_per_second:,.0f} moving")
    table.add_row(*_leg(report.verification.end_to_end), "", f"{report.messages_per_second:,.0f} in all")
    return table


def _leg(leg: LegVerification) -> Iterator[str]:
    yield f"{leg.name} {leg.source} → {leg.destination}"
    yield f"{leg.sent:,}"
    yield f"{leg.received:,}"
    yield show_ratio(leg.delivery.reliability)
    yield show_ratio(leg.delivery.uniqueness)
    yield leg.delivery.mode.value


def _latencies(report: Report) -> Table:
    table = _table("from commit to arrival at the last store", "messages", "p50", "p99")
    for what, latency in {
        "all, the start of Spark included": report.facts.latency,
        "committed since the last hop delivers": report.facts.steady,
    }.items():
        if latency is not None:
            table.add_row(what, f"{latency.message_count:,}", f"{latency.p50_seconds:.2f} s", f"{latency.p99_seconds:.2f} s")
    return table


def _cascade(facts: DemoFacts) -> Table:
    batch = facts.cascade_of
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in (f"{facts.hops[0].hop} batch {batch.batch}, {batch.row_count:,} messages", "after", "at", "recorded by"):
        table.add_column(column, justify="right" if column == "after" else "left")
    for step in facts.cascade:
        seconds = (step.happened_at - batch.planned_at).total_seconds()
        table.add_row(step.what, f"{seconds:.2f} s", step.store, step.recorded_by)
    return table


def _derived(derived: DerivedFacts) -> Table:
    progress = derived.progress
    table = _table("derivation, by Spark", "messages in", "attempts", "derived", "received", "flights told of", "of these late")
    table.add_row(
        f"{derived.route}, version {derived.version}",
        f"{progress.message_count:,}",
        f"{progress.attempt_count:,}",
        f"{progress.derived_count:,}",
        f"{progress.received_count:,}",
        f"{derived.flights.total():,}",
        f"{derived.late.total():,}",
    )
    return table


def _lake(lake: LakeFacts) -> Table:
    table = _table("export, by Spark", "rows", "version", "compared", "equals the stream")
    equals = "yes" if lake.first_difference is None else f"not at {lake.first_difference}"
    table.add_row(f"{lake.export}, Delta", f"{lake.row_count:,}", f"{lake.version}", f"{lake.compared_count:,}", equals)
    table.caption = f"table: {lake.path}"
    table.caption_justify = "left"
    return table


def _late(report: Report) -> str:
    seconds = (report.late.end - report.late.begin).total_seconds()
    batches = report.facts.hops[0].within(report.late.begin, report.late.end)
    row_count = sum(batch.row_count for batch in batches)
    return (
        f"One transaction stayed open for {seconds:.0f} s. Meanwhile {row_count:,} messages of others "
        f"were planned and arrived (batches: {len(batches):,}); then it committed, and its own followed."
    )
