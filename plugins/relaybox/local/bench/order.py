"""`relaybox bench order`: what order and deduplication cost. One hop, and four streams of the same messages that take turns.

Without indexes; from 64 gapless senders in order; from 64 gapless senders with 5 % of the messages sent twice and 5 %
displaced by up to 1,000 stream positions, which `fifo` must put right; and from 64 gapless senders in order whose clocks each name
the message before, in a `causal` stream.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from relaybox import errors
from relaybox.amounts import amount
from relaybox.hops.transfer import transfer_hop
from relaybox.local.bench.contestants import timed
from relaybox.local.bench.environment import describe_environment
from relaybox.local.bench.report import show_seconds, spread, write_json
from relaybox.local.bench.rounds import WARM_UP, show_progress, shown_turns, take_turns
from relaybox.local.bench.runners import RUNNERS
from relaybox.local.bench.stores import DESTINATION, SOURCE, BenchStores, bench_directory, open_bench_stores
from relaybox.stores.init.one_store import SEGMENT_ROWS

if TYPE_CHECKING:
    from relaybox.hops.runners import SliceRunner

PLAIN, ORDERED, DISORDERED, CAUSAL = "plain", "ordered", "disordered", "causal"
TITLES = {
    PLAIN: "no indexes, order none",
    ORDERED: "64 gapless senders in order, fifo",
    DISORDERED: "64 gapless senders, 5 % twice, 5 % displaced, fifo",
    CAUSAL: "64 gapless senders in order, each message names the one before it, causal",
}
ORDERS = {PLAIN: "none", ORDERED: "fifo", DISORDERED: "fifo", CAUSAL: "causal"}
RATIOS = {
    (ORDERED, PLAIN): "64 senders in order / no indexes",
    (DISORDERED, ORDERED): "5 % twice, 5 % displaced / in order",
    (CAUSAL, PLAIN): "64 senders in order, causal / no indexes",
}
SENDERS = 64
SHARE, STREAM_POSITIONS = 0.05, 1000

_DECLARE = "select relaybox.declare_sender(%s || '-' || n, 'gapless') from generate_series(0, %s - 1) n"
_ARRANGE = """
create temporary table arranged as
select row_number() over (order by stream_position) as stream_position, n
from (
    select n, n + case when %(topic)s = 'disordered' and random() < %(share)s then random() * %(stream_positions)s else 0 end as
        stream_position
    from generate_series(1, %(messages)s) n
    union all
    select n, n + random() * %(stream_positions)s
    from generate_series(1, %(messages)s) n where %(topic)s = 'disordered' and random() < %(share)s
) a
"""
_SEND = """
insert into relaybox.outbox (topic, sender, index, clock, key, payload)
select
    %(topic)s, %(topic)s || '-' || n %% %(senders)s, case when %(topic)s <> 'plain' then (n - 1) / %(senders)s + 1 end,
    case when %(topic)s = 'causal' and n > 1 then jsonb_build_object('causal-' || (n - 1) %% %(senders)s, (n - 2) / %(senders)s + 1) end,
    'order-' || n, json_build_object('order', n, 'sku', md5(n::text), 'checksum', md5('order ' || n), 'note', repeat('x', 150))::text
from arranged order by stream_position
"""
_DELIVERED = """
select
    count(*), count(distinct (sender, index)), count(*) filter (where index <> previous + 1),
    (select sum(d.row_count) from relaybox_internal.decision d where d.log_id = %(log_id)s),
    (select sum(d.duplicate_count) from relaybox_internal.decision d where d.log_id = %(log_id)s)
from (
    select r.sender, r.index, coalesce(lag(r.index) over (partition by r.sender order by r.stream_position), 0) as previous
    from relaybox.read_stream(%(stream)s, 0, 2147483647) r
) s
"""


@dataclass(frozen=True)
class OrderMeasurement:
    """One contestant moved all its messages once. Uniqueness rates: reported by the stream, and of what was sent."""

    contestant: str
    round: int
    seconds: float
    row_count: int
    delivered: int
    out_of_order: int
    uniqueness_reported: float
    uniqueness_sent: float

    @property
    def rows_per_second(self) -> float:
        return self.row_count / self.seconds


def run_bench_order(
    *, messages: int, rounds: int = 3, json_path: Path | None = None, runner: str = "spark", console: Console | None = None
) -> tuple[OrderMeasurement, ...]:
    """Makes two clusters, measures, prints, writes JSON, and removes the clusters.

    Raises:
        ConfigurationError: an argument is out of range.
        ContentDiffers: a message was lost, doubled or out of order, or UR is reported wrongly.
        Terminal, Transient: a store failed.
    """
    if runner not in RUNNERS:
        raise errors.ConfigurationError(
            f"bench order: runner is {runner}, it must be one of {', '.join(RUNNERS)}.",
            next_step="Run: relaybox bench order --help",
        )
    console = console or Console()
    with (
        bench_directory(console) as directory,
        open_bench_stores(directory, {"batch_rows": max(1, messages // 4)}) as stores,
        RUNNERS[runner]() as slice_runner,
    ):
        stores.new_route()
        with show_progress(console) as progress:
            for topic in progress.track(TITLES, description="filling the outbox"):
                _fill(stores, topic, messages)
        measurements = tuple(_take_turns(stores, slice_runner, messages, rounds, console))
        environment = describe_environment(stores)
    print_report(measurements, messages, rounds, console)
    document = {
        "messages": messages,
        "rounds": rounds,
        "runner": runner,
        "environment": environment,
        "measurements": [asdict(m) for m in measurements],
        "ratios": {f"{a}/{b}": spread(ratios(measurements, a, b)) for a, b in RATIOS},
    }
    write_json(document, json_path)
    return measurements


def ratios(measurements: tuple[OrderMeasurement, ...], contestant: str, baseline: str) -> list[float]:
    """Rows per second of one contestant over another's, by round."""
    rates = {(m.contestant, m.round): m.rows_per_second for m in measurements}
    return [rates[contestant, round_] / rates[baseline, round_] for name, round_ in rates if name == contestant]


def _fill(stores: BenchStores, topic: str, messages: int) -> None:
    values = {"topic": topic, "messages": messages, "share": SHARE, "stream_positions": STREAM_POSITIONS, "senders": SENDERS}
    if topic != PLAIN:
        stores.query(SOURCE, _DECLARE, topic, SENDERS)
    with stores.session(SOURCE) as session, session.cursor() as cursor:
        cursor.execute("select relaybox_internal.ensure_outbox_segments(%s)", (3 * messages // SEGMENT_ROWS + 3,))
        cursor.execute(_ARRANGE, values)
        cursor.execute(_SEND, values)
        session.commit()
    stores.query(SOURCE, "vacuum (analyze) relaybox.outbox")


def _take_turns(
    stores: BenchStores, runner: SliceRunner, messages: int, rounds: int, console: Console
) -> Iterator[OrderMeasurement]:
    with shown_turns(take_turns(list(TITLES), rounds), console, title=TITLES.__getitem__) as turns:
        for round_, contestant in turns:
            measurement = _measure(stores, runner, contestant, messages, round_)
            name = "warm-up" if round_ == WARM_UP else f"round {round_}"
            console.print(f"{name}: {TITLES[contestant]}: {measurement.seconds:.2f} s")
            if round_ != WARM_UP:
                yield measurement


def _measure(stores: BenchStores, runner: SliceRunner, contestant: str, messages: int, round_: int) -> OrderMeasurement:
    """One transfer, its sessions and decisions included; then what the stream delivers is counted and compared with what was sent."""
    ((sent,),) = stores.query(SOURCE, "select count(*) from relaybox.outbox where topic = %s", contestant)
    with stores.empty_log(topic=contestant, order=ORDERS[contestant]) as log:
        stores.settle()
        with timed() as timer:
            transfer_hop(log.hop, runner, recorded_by="benchmark")
        stores.require_rows(DESTINATION, log.table, sent)
        ((delivered, distinct, out_of_order, received, duplicates),) = stores.query(
            DESTINATION, _DELIVERED, {"log_id": log.log_id, "stream": log.hop.stream}
        )
        uniqueness = float((received - duplicates) / received)
        if contestant == PLAIN:
            out_of_order = 0
        problems = {
            f"{messages} different messages were sent, {distinct} were delivered, {delivered} in all": (delivered, distinct)
            != (messages, messages),
            f"{out_of_order} came out of their sender's order": out_of_order != 0,
            f"UR is reported as {uniqueness}, it was {messages / sent}": abs(uniqueness - messages / sent) > 1e-9,
        }
        found = [problem for problem, holds in problems.items() if holds]
        if found:
            raise errors.ContentDiffers(f"bench order, {contestant}: {'; '.join(found)}.")
    return OrderMeasurement(contestant, round_, timer.seconds, sent, delivered, out_of_order, uniqueness, messages / sent)


def print_report(measurements: tuple[OrderMeasurement, ...], messages: int, rounds: int, console: Console) -> None:
    """Prints the times and uniqueness rates, then the ratios."""
    console.print(_table(measurements, messages, rounds), _ratios(measurements), sep="\n")


def _table(measurements: tuple[OrderMeasurement, ...], messages: int, rounds: int) -> Table:
    table = Table(
        "what one hop moves",
        "seconds: median\n(min to max)",
        "rows per second",
        "UR\nsent",
        "UR\nreported",
        title=f"{amount(messages, 'message')}, {amount(rounds, 'round')}",
        caption="UR: share of rows that are no duplicates, of what producers sent and as the store reports it. Good: both are the same.",
    )
    for contestant, title in TITLES.items():
        own = [m for m in measurements if m.contestant == contestant]
        seconds = [m.seconds for m in own]
        table.add_row(
            title,
            show_seconds(seconds),
            f"{median(m.rows_per_second for m in own):,.0f}",
            f"{own[0].uniqueness_sent:.6f}",
            f"{own[0].uniqueness_reported:.6f}",
        )
    return table


def _ratios(measurements: tuple[OrderMeasurement, ...]) -> Table:
    table = Table(
        "rows per second / rows per second of",
        "by round",
        "median",
        caption="1: it costs nothing. Higher is better, 0.5 is half as fast.",
    )
    for (contestant, baseline), title in RATIOS.items():
        values = ratios(measurements, contestant, baseline)
        table.add_row(title, " ".join(f"{value:.2f}" for value in values), f"{median(values):.2f}")
    return table
