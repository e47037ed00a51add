"""`relaybox bench`: each benchmark is a module of relaybox.local.bench."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from relaybox.cli.exits import CommandGroup
from relaybox.cli.usage import CommandList, Runner

commands = CommandList(name="bench", cls=CommandGroup, help="Run a benchmark on its own clusters.", no_args_is_help=True)


class SliceCopier(StrEnum):
    """What copies the slices of a benchmark's hop."""

    SPARK = "spark"
    THREADS = "threads"


Rounds = Annotated[int, typer.Option("--rounds", min=1, help="Number of measurements of each contestant.")]
Copier = Annotated[SliceCopier, typer.Option("--runner", help="What copies the slices of the hop.")]
JsonPath = Annotated[Path | None, typer.Option("--json", help="Write every raw value to this file.", show_default=False)]


@commands.command("hop")
def bench_hop(
    messages: Annotated[
        int, typer.Option("--messages", min=1, help="Number of messages that each contestant moves in each round.")
    ] = 2_000_000,
    rounds: Rounds = 3,
    runner: Copier = SliceCopier.SPARK,
    json_path: JsonPath = None,
) -> None:
    """Compare a hop with `psql copy | psql copy` and with logical replication's initial sync.

    \b
    Examples:
      relaybox bench hop --messages 2000000 --json bench.json
      relaybox bench hop --messages 100000 --rounds 1 --runner threads
    """
    from relaybox.local.bench.hop import run_bench

    run_bench(messages=messages, rounds=rounds, json_path=json_path, runner=runner)


@commands.command("workers")
def bench_workers(
    messages: Annotated[
        int, typer.Option("--messages", min=1, help="Number of messages that are moved in each round.")
    ] = 400_000,
    rounds: Rounds = 3,
    megabytes_per_second: Annotated[
        float, typer.Option("--mb-per-second", help="What each session of a worker gets from a store, at most.")
    ] = 10.0,
    json_path: JsonPath = None,
) -> None:
    """Compare a hop on two Spark workers with one core each with the same hop on one of them.

    The stores are on the same machine. So that they are not the limit, the rate at which they send is simulated.

    \b
    Examples:
      relaybox bench workers --json workers.json
      relaybox bench workers --messages 100000 --rounds 1 --mb-per-second 5
    """
    from relaybox.local.bench.workers import run_bench_workers

    run_bench_workers(messages=messages, rounds=rounds, megabytes_per_second=megabytes_per_second, json_path=json_path)


@commands.command("order")
def bench_order(
    messages: Annotated[
        int, typer.Option("--messages", min=1000, help="Number of distinct messages that each contestant moves.")
    ] = 1_000_000,
    rounds: Rounds = 3,
    runner: Copier = SliceCopier.SPARK,
    json_path: JsonPath = None,
) -> None:
    """Compare a hop without sender kinds, one with 64 gapless senders in order, and one with duplicates and disorder.

    The last hop gets 5 % of its messages twice, and 5 % displaced by up to 1,000 stream positions. The
    benchmark checks what the hop delivers.

    \b
    Examples:
      relaybox bench order --json order.json
      relaybox bench order --messages 100000 --rounds 1 --runner threads
    """
    from relaybox.local.bench.order import run_bench_order

    run_bench_order(messages=messages, rounds=rounds, json_path=json_path, runner=runner)


@commands.command("spark")
def bench_spark(
    messages: Annotated[
        int, typer.Option("--messages", min=1, help="Number of messages that each contestant reads or moves in each round.")
    ] = 1_000_000,
    rounds: Rounds = 3,
    json_path: JsonPath = None,
) -> None:
    """Compare DataFrames that read a stream and write into an outbox with Spark's JDBC, and with a hop.

    Needs the JDBC driver of Postgres, such as Debian's package libpostgresql-jdbc-java.

    \b
    Examples:
      relaybox bench spark --json spark.json
      relaybox bench spark --messages 200000 --rounds 1
    """
    from relaybox.local.bench.frames import run_bench_spark

    run_bench_spark(messages=messages, rounds=rounds, json_path=json_path)


@commands.command("consume")
def bench_consume(
    messages: Annotated[
        int, typer.Option("--messages", min=1, help="Number of messages that each contestant reads.")
    ] = 1_000_000,
    rounds: Rounds = 3,
    json_path: JsonPath = None,
) -> None:
    """Compare fetch and ack with a plain select of the same rows, and with a common queue table.

    \b
    Examples:
      relaybox bench consume --json consume.json
      relaybox bench consume --messages 100000 --rounds 1
    """
    from relaybox.local.bench.consume import run_bench_consume

    run_bench_consume(messages=messages, rounds=rounds, json_path=json_path)


@commands.command("produce")
def bench_produce(
    messages: Annotated[
        int, typer.Option("--messages", min=800, help="Number of messages that each contestant sends in each round.")
    ] = 80_000,
    rounds: Rounds = 3,
    json_path: JsonPath = None,
) -> None:
    """Compare an insert into the outbox with one into an equal table without any machinery, and with other outboxes and queues.

    `make rivals` gets pgmq and PgQ, which are left out without it.

    \b
    Examples:
      relaybox bench produce --json produce.json
      relaybox bench produce --messages 8000 --rounds 1
    """
    from relaybox.local.bench.produce import run_bench_produce

    run_bench_produce(messages=messages, rounds=rounds, json_path=json_path)


@commands.command("adopt")
def bench_adopt(
    messages: Annotated[
        int, typer.Option("--messages", min=800, help="Number of messages that each contestant sends in each round.")
    ] = 80_000,
    rounds: Rounds = 3,
    json_path: JsonPath = None,
) -> None:
    """Compare an insert into an adopted table with one into an equal table, and with the outbox itself.

    Also beside a logical replication slot that is read meanwhile. At last a table with as many rows is adopted with its backlog.

    \b
    Examples:
      relaybox bench adopt --json adopt.json
      relaybox bench adopt --messages 8000 --rounds 1
    """
    from relaybox.local.bench.adopt import run_bench_adopt

    run_bench_adopt(messages=messages, rounds=rounds, json_path=json_path)


@commands.command("retention")
def bench_retention(
    messages: Annotated[int, typer.Option("--messages", min=1, help="Number of messages.")] = 20_000_000,
    turns: Annotated[int, typer.Option("--turns", min=20, help="Number of turns; each fills a segment.")] = 100,
    json_path: JsonPath = None,
) -> None:
    """Send, move, read and drop in turns: disk use and the time of a fetch must stay flat.

    A snapshot stays open during a third of the turns.

    \b
    Examples:
      relaybox bench retention --json retention.json
      relaybox bench retention --messages 1000000
    """
    from relaybox.local.bench.retention import run_bench_retention

    run_bench_retention(messages=messages, turns=turns, json_path=json_path)


@commands.command("steady")
def bench_steady(
    rate: Annotated[int, typer.Option("--rate", min=25, help="Messages per second.")] = 5000,
    hours: Annotated[float, typer.Option("--hours", help="How long messages are sent.")] = 6.0,
    window_seconds: Annotated[
        float, typer.Option("--window-seconds", min=1, help="Length of a window; the last windows are compared with the first.")
    ] = 600.0,
    json_path: JsonPath = None,
) -> None:
    """Send, move, read and drop at a fixed rate for hours: disk, memory, latency and autovacuum must stay flat.

    The JSON file is written anew after each window.

    \b
    Examples:
      relaybox bench steady --json steady.json
      relaybox bench steady --rate 1000 --hours 0.5 --window-seconds 60
    """
    from relaybox.local.bench.steady import run_bench_steady

    run_bench_steady(rate=rate, hours=hours, window_seconds=window_seconds, json_path=json_path)


@commands.command("latency")
def bench_latency(
    *,
    hops: Annotated[
        list[int] | None,
        typer.Option(
            "--hops", min=1, help="Number of hops to measure with; may be repeated. Default: 1, 10 and 100.", show_default=False
        ),
    ] = None,
    samples: Annotated[int, typer.Option("--samples", min=1, help="First messages of idle hops, for each number of hops.")] = 20,
    lingering_samples: Annotated[int, typer.Option("--lingering-samples", min=1, help="Messages to a busy hop.")] = 300,
    idle_seconds: Annotated[
        float, typer.Option("--idle-seconds", min=1, help="Measure the CPU of idle hops for this long.")
    ] = 60.0,
    runner: Annotated[Runner, typer.Option("--runner", help="Runner of the routes.")] = Runner.AUTO,
    json_path: JsonPath = None,
) -> None:
    """Measure the time from commit to arrival with Airflow, for idle and lingering hops; and the CPU of idle hops.

    Starts its own clusters and its own Airflow. Takes about 15 minutes.

    \b
    Examples:
      relaybox bench latency --json latency.json
      relaybox bench latency --hops 1 --hops 10 --samples 5 --lingering-samples 50 --runner spark
    """
    from relaybox.local.bench.latency import run_bench_latency

    run_bench_latency(
        hop_counts=hops or [1, 10, 100],
        samples=samples,
        lingering_samples=lingering_samples,
        idle_seconds=idle_seconds,
        runner=runner.value,
        json_path=json_path,
    )


@commands.command("waiting")
def bench_waiting(
    *,
    samples: Annotated[int, typer.Option("--samples", min=1, help="Messages to each consumer.")] = 100,
    idle_seconds: Annotated[
        float, typer.Option("--idle-seconds", min=1, help="Measure the CPU while nothing comes for this long.")
    ] = 20.0,
    delay_seconds: Annotated[
        float | None,
        typer.Option("--delay-seconds", min=0.1, help="Delay each message, and measure from when it is due.", show_default=False),
    ] = None,
    libraries: Annotated[
        list[str] | None,
        typer.Option(
            "--library", help="A library of Postgres; may be repeated. Default: all that are installed.", show_default=False
        ),
    ] = None,
    json_path: JsonPath = None,
) -> None:
    """Measure the time from publication to the handler of a consumer that waits, with each library of Postgres, beside one that polls.

    \b
    Examples:
      relaybox bench waiting --json waiting.json
      relaybox bench waiting --samples 20 --idle-seconds 5 --library psycopg --library asyncpg
      relaybox bench waiting --samples 50 --delay-seconds 0.5
    """
    from relaybox.local.bench.waiting import run_bench_waiting

    run_bench_waiting(
        samples=samples, idle_seconds=idle_seconds, delay_seconds=delay_seconds, libraries=libraries, json_path=json_path
    )


@commands.command("sinks")
def bench_sinks(
    *,
    messages: Annotated[
        int, typer.Option("--messages", min=1, help="Messages that wait when a webhook begins; ten times as many for Kafka.")
    ] = 1_000,
    samples: Annotated[int, typer.Option("--samples", min=1, help="Single messages to a sink that waits.")] = 50,
    lanes: Annotated[
        list[int] | None,
        typer.Option("--lanes", min=1, max=64, help="Lanes of the sinks; may be repeated. Default: 1 and 4.", show_default=False),
    ] = None,
    json_path: JsonPath = None,
) -> None:
    """Measure how many messages a webhook and a sink of Kafka deliver in a second, and how soon they deliver one.

    \b
    Examples:
      relaybox bench sinks --json sinks.json
      relaybox bench sinks --messages 200 --samples 10 --lanes 8
    """
    from relaybox.local.bench.sinks import run_bench_sinks

    run_bench_sinks(messages=messages, samples=samples, lanes=lanes, json_path=json_path)


@commands.command("page")
def bench_page(
    *,
    looks: Annotated[
        list[int] | None,
        typer.Option(
            "--looks",
            min=1,
            help="Number of simultaneous requests to the page; may be repeated. Default: 50 and 500.",
            show_default=False,
        ),
    ] = None,
    samples: Annotated[int, typer.Option("--samples", min=1, help="Requests to each endpoint, in each measurement.")] = 40,
    json_path: JsonPath = None,
) -> None:
    """Measure Airflow's own endpoints while many browsers load the page, with a healthy, silent, slow, frozen and dead store.

    Starts its own clusters and its own API server. Takes a few minutes.

    \b
    Examples:
      relaybox bench page --json page.json
      relaybox bench page --looks 50 --samples 10
    """
    from relaybox.local.bench.page import run_bench_page

    run_bench_page(looks=looks or [50, 500], samples=samples, json_path=json_path)


@commands.command("growth")
def bench_growth(
    *,
    messages: Annotated[
        int, typer.Option("--messages", min=1_000_000, help="Kept messages when the last operations are measured.")
    ] = 100_000_000,
    segments: Annotated[int, typer.Option("--segments", min=1, help="Segments of the outbox and of the log.")] = 1_000,
    batches: Annotated[int, typer.Option("--batches", min=1, help="Batches of the large hop.")] = 10_000,
    hops: Annotated[int, typer.Option("--hops", min=1, help="Hops between the two stores.")] = 300,
    lanes: Annotated[int, typer.Option("--lanes", min=1, help="Lanes of all subscriptions.")] = 20_000,
    big_messages: Annotated[int, typer.Option("--big-messages", min=0, help="Messages of 16 MiB in each backlog.")] = 24,
    with_spark: Annotated[bool, typer.Option("--spark/--no-spark", help="Move a tenth of the messages with Spark.")] = True,
    json_path: JsonPath = None,
) -> None:
    """Measure operations with few messages (50,000 or more) and one hop, fill the stores by real hops, and measure again.

    Prints time, CPU, pages and ratios of each operation, and the peak memory of the drivers. 100,000,000 messages take an
    hour and 35 GB of disk.

    \b
    Examples:
      relaybox bench growth --json growth.json
      relaybox bench growth --messages 2000000 --segments 200 --batches 500 --hops 20 --lanes 1000 --no-spark
    """
    from relaybox.local.bench.growth import run_bench_growth

    run_bench_growth(
        messages=messages,
        segments=segments,
        batches=batches,
        hops=hops,
        lanes=lanes,
        big_messages=big_messages,
        with_spark=with_spark,
        json_path=json_path,
    )
