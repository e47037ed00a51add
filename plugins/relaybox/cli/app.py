"""The commands, their arguments and their help; what they do is in the modules that each imports when it is called."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated
from uuid import UUID

import typer

from relaybox.cli import consumers
from relaybox.cli.benches import bench
from relaybox.cli.exits import CommandGroup, Settings
from relaybox.cli.options import AsJson
from relaybox.cli.senders import senders

app = typer.Typer(
    name="relaybox",
    cls=CommandGroup,
    help="Moves messages from Postgres to Postgres, hop by hop, and proves that none was lost, doubled or reordered.",
    epilog=(
        "Exit codes: 0 fine; 1 verify found a defect, or reanchor or rebuild something to do; 2 usage or configuration, or "
        "status a topic without a hop; 3 verify found messages in flight and "
        "nothing wrong; 4 a failure that a retry may mend; 5 one that no retry mends; 130 Ctrl-C."
    ),
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(bench, name="bench")
app.add_typer(senders, name="senders")
app.command()(consumers.subscriptions)
app.command()(consumers.consume)
app.command()(consumers.replay)
app.add_typer(consumers.dead_letters, name="dead-letters")


class Runner(StrEnum):
    """Who does the work of a route, in the words of relaybox.yaml."""

    AUTO = "auto"
    SPARK = "spark"
    THREADS = "threads"


@app.callback()
def relaybox(
    context: typer.Context,
    config: Annotated[
        Path | None,
        typer.Option("--config", envvar="RELAYBOX_CONFIG", help="The routes. Default: ./relaybox.yaml", show_default=False),
    ] = None,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    """Stores the options in front of the command."""
    context.obj = Settings(config, debug)


@app.command()
def init(
    context: typer.Context,
    stores: Annotated[
        list[str] | None, typer.Argument(metavar="[STORE]...", help="Only these stores.", show_default=False)
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Make or upgrade the schema of every store, and register its hops. All stores are checked before one is changed.

    Can be run at any time, again and again; an init that was interrupted is finished by the next one.

    \b
    Examples:
      relaybox init
      relaybox init hub analytics
    """
    from relaybox.cli.moving import run_init

    run_init(context.obj, stores or [], as_json=as_json)


@app.command()
def status(context: typer.Context, as_json: AsJson = False) -> None:
    """Show every hop: sent, received, lag, last batch, settled, R, UR and delivery mode; per route the product.

    A store that does not answer hides no other hop; the exit code tells.

    \b
    Examples:
      relaybox status
      relaybox --config /etc/relaybox.yaml status --json
    """
    from relaybox.cli.reports import run_status

    run_status(context.obj, as_json=as_json)


@app.command()
def metrics(context: typer.Context, as_json: AsJson = False) -> None:
    """Write how all hops and stores are, for a monitoring system: OpenMetrics text.

    docs/alerts.yml has the alarms, docs/grafana-dashboard.json the pictures. A store that does not answer is a metric too.

    \b
    Examples:
      relaybox metrics
      relaybox metrics | grep relaybox_hop_lag
    """
    from relaybox.cli.metrics import run_metrics

    run_metrics(context.obj, as_json=as_json)


@app.command()
def where(
    context: typer.Context,
    message_id: Annotated[UUID, typer.Argument(metavar="MESSAGE_ID", help="The message's id, a uuid.")],
    route: Annotated[str | None, typer.Option("--route", help="Only along this route.", show_default=False)] = None,
    as_json: AsJson = False,
) -> None:
    """Show the whole way of one message: outbox, and at each hop batch, slice, position, arrival and confirmations.

    \b
    Examples:
      relaybox where 01a1fc57-61bd-7659-92d2-53639fb0a769
      relaybox where 01a1fc57-61bd-7659-92d2-53639fb0a769 --route flights --json
    """
    from relaybox.cli.reports import run_where

    run_where(context.obj, message_id, route, as_json=as_json)


@app.command()
def verify(
    context: typer.Context,
    route: Annotated[str, typer.Argument(metavar="ROUTE", help="The route, as in relaybox.yaml.")],
    runner: Annotated[
        Runner,
        typer.Option("--runner", help="Who compares: threads of this process, Spark, or as limits.spark_from_rows says (auto)."),
    ] = Runner.THREADS,
    as_json: AsJson = False,
) -> None:
    """Prove delivery: compare the stores of a route message by message, by count and by content.

    Names every message that is missing, changed, misplaced, doubled, unexpected, or in no batch; proves the order of every store's
    stream. Reads only.
    Spark runs on this machine, or where its configuration (SPARK_CONF_DIR) says; the proof is the same.

    \b
    Examples:
      relaybox verify flights
      relaybox verify flights --json > proof.json
      relaybox verify flights --runner spark
    """
    from relaybox.cli.reports import run_verify

    run_verify(context.obj, route, runner=runner, as_json=as_json)


@app.command()
def holdback(
    context: typer.Context,
    route: Annotated[str | None, typer.Argument(metavar="[ROUTE]", help="Only this route.", show_default=False)] = None,
    as_json: AsJson = False,
) -> None:
    """Show, store by store, who waits for what and since when; and the command that gives up what never comes.

    A message is held while one that goes before it is missing: an earlier one of its sender (fifo, causal), or one that its
    clock names (causal). A stalled sender holds more than its limit: what it sends next waits in the log.

    \b
    Examples:
      relaybox holdback
      relaybox holdback flights --json
    """
    from relaybox.cli.holding import run_holdback

    run_holdback(context.obj, route, as_json=as_json)


@app.command()
def skip(
    context: typer.Context,
    route: Annotated[str, typer.Argument(metavar="ROUTE", help="The route that brings the sender's messages.")],
    sender: Annotated[str, typer.Argument(metavar="SENDER", help="The sender with the gap.")],
    *,
    reason: Annotated[str, typer.Option("--reason", help="Why; it is recorded.", show_default=False)],
    through: Annotated[
        int | None,
        typer.Option(
            "--through", min=1, help="Up to this index. Default: all before the first that is held.", show_default=False
        ),
    ] = None,
    held: Annotated[
        bool, typer.Option("--held", help="Set aside the sender's next message, --through, which waits for what its clock names.")
    ] = False,
    store: Annotated[str | None, typer.Option("--store", help="Only at this store.", show_default=False)] = None,
    as_json: AsJson = False,
) -> None:
    """Give up the first gap of a sender: its messages will never come. What waited for them is delivered.

    At every store of the route that has the gap. Messages on their way to a store are no gap there, and can't be skipped; what
    comes after all is set aside with reason index_skipped. Can be repeated.

    \b
    Examples:
      relaybox skip flights pump-7 --reason "lost by hand, ticket 4711"
      relaybox skip flights pump-7 --through 120 --store hub --reason "ticket 4711"
      relaybox skip flights pump-7 --through 121 --held --reason "its clock names a sender that does not exist"
    """
    from relaybox.cli.holding import run_skip

    run_skip(context.obj, route, sender, reason=reason, through=through, held=held, store=store, as_json=as_json)


@app.command()
def transfer(
    context: typer.Context,
    hop: Annotated[str, typer.Argument(metavar="HOP", help="The hop, as in flights/1.")],
    threads: Annotated[int, typer.Option("--threads", min=1, max=64, help="Slices copied side by side.")] = 2,
    linger_seconds: Annotated[
        float | None,
        typer.Option(
            "--linger-seconds", min=0, help="Wait so long for more. Default: limits.linger_seconds.", show_default=False
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Run one hop until nothing is left to move, here, without Airflow and without Spark.

    Can be interrupted and repeated: a batch that was begun is resumed.

    \b
    Examples:
      relaybox transfer flights/1
      relaybox transfer flights/1 --threads 4 --linger-seconds 60
    """
    from relaybox.cli.moving import run_transfer

    run_transfer(context.obj, hop, threads=threads, linger_seconds=linger_seconds, as_json=as_json)


@app.command()
def confirm(
    context: typer.Context,
    route: Annotated[str, typer.Argument(metavar="ROUTE|HOP", help="A route, its last hop first; or one hop.")],
    as_json: AsJson = False,
) -> None:
    """Bring confirmations back: received, processed and settled, store by store, without Airflow.

    \b
    Examples:
      relaybox confirm flights
      relaybox confirm flights/2
    """
    from relaybox.cli.moving import run_confirm

    run_confirm(context.obj, route, as_json=as_json)


@app.command()
def retention(
    context: typer.Context,
    stores: Annotated[
        list[str] | None, typer.Argument(metavar="[STORE]...", help="Only these stores.", show_default=False)
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only tell what is kept, for whom, and what would go.")] = False,
    as_json: AsJson = False,
) -> None:
    """Drop what nobody needs any more: whole segments of outboxes and logs, never rows.

    A segment goes when every hop has settled it, every subscription acknowledged it, nothing in it is held or an open dead
    letter, and it is older than the replay window of relaybox.yaml; without a window everything is kept. The newest one stays.
    Of a route with stopped_consumer: detach, what only stopped subscriptions need is then put into files by Spark.
    Can be interrupted, repeated, and run twice at once; what sessions hold is left for the next run.

    \b
    Examples:
      relaybox retention --dry-run
      relaybox retention hub analytics
      relaybox retention --json
    """
    from relaybox.cli.keeping import run_retention

    run_retention(context.obj, stores or [], dry_run=dry_run, as_json=as_json)


@app.command()
def retire(
    context: typer.Context,
    name: Annotated[
        str | None, typer.Argument(metavar="[HOP|ROUTE]", help="What was taken out of relaybox.yaml.", show_default=False)
    ] = None,
    topic: Annotated[
        str | None,
        typer.Option(
            "--topic", help="Only this topic: one that was taken out of a route, or that no route has had.", show_default=False
        ),
    ] = None,
    reason: Annotated[
        str | None, typer.Option("--reason", help="Do it, and record why. Without it: only tell.", show_default=False)
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Discard the undelivered backlog of removed routes and topics, so that it is not kept for ever.

    A route that is removed from the file stops, and its messages are kept. A topic that is removed from a route stays in the
    outbox, as far as it was not planned. With --reason this command gives them up and records why. What arrived at a destination
    is not touched. Without a name: every hop that a store knows and the file has not. A retired hop never comes back; a new route
    needs a new name. A topic may come back: it goes on with what commits after it was retired.

    \b
    Examples:
      relaybox retire
      relaybox retire bookings
      relaybox retire bookings --reason "replaced by reservations, ticket 4711"
      relaybox retire flights --topic cargo
      relaybox retire flights --topic cargo --reason "cargo is sent by its own system now"
    """
    from relaybox.cli.keeping import run_retire

    run_retire(context.obj, name, topic=topic, reason=reason, as_json=as_json)


@app.command()
def attach(
    context: typer.Context,
    store: Annotated[str, typer.Argument(metavar="STORE", help="The store of the log.")],
    hop: Annotated[str, typer.Argument(metavar="HOP", help="The hop that filled the log, as in flights/1.")],
    segments: Annotated[
        int | None, typer.Option("--segments", min=1, help="Only so many, the newest first. Default: all.", show_default=False)
    ] = None,
    remove: Annotated[bool, typer.Option("--remove", help="Remove the files of what is back.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only tell what would come back.")] = False,
    as_json: AsJson = False,
) -> None:
    """Bring detached messages back into a log, with Spark: position by position the same, then their consumers read on.

    Detached is what only stopped subscriptions need (stopped_consumer: detach). Count and content are checked before anybody can
    read it. It stays for detach_after_seconds at least. The files stay until the segment goes again, unless --remove is given.
    Can be interrupted, repeated, and run twice at once.

    \b
    Examples:
      relaybox attach hub flights/1 --dry-run
      relaybox attach hub flights/1
      relaybox attach hub flights/1 --segments 2 --remove --json
    """
    from relaybox.cli.keeping import run_attach

    run_attach(context.obj, store, hop, segments=segments, remove=remove, dry_run=dry_run, as_json=as_json)


@app.command()
def reanchor(
    context: typer.Context,
    hop: Annotated[str, typer.Argument(metavar="HOP", help="The hop that stopped, as in flights/1.")],
    reason: Annotated[
        str | None, typer.Option("--reason", help="Do it, and record why. Without it: only tell.", show_default=False)
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Let a hop go on after one of its stores lost history: a restore, a failover with a lost tail, a dump and reload.

    Compares both stores. What the destination lost is sent again, to the same positions. What the source lost stays where it
    is and is listed (ghosts); what was not delivered comes first. Without --reason nothing is changed, and the exit code is 1 if
    something is to be done.

    \b
    Examples:
      relaybox reanchor flights/1
      relaybox reanchor flights/1 --reason "airline restored to 03:10, ticket 4711"
    """
    from relaybox.cli.repairing import run_reanchor

    run_reanchor(context.obj, hop, reason=reason, as_json=as_json)


@app.command()
def attest(
    context: typer.Context,
    store: Annotated[str, typer.Argument(metavar="STORE", help="The store whose cluster was promoted or upgraded.")],
    reason: Annotated[str, typer.Option("--reason", help="Why; it is recorded.", show_default=False)],
    as_json: AsJson = False,
) -> None:
    """Say that a store lost nothing although its cluster is another one now: a promotion without loss, pg_upgrade.

    The word is checked: transaction numbers and both stores' ledgers must go on where they were.

    \b
    Examples:
      relaybox attest hub --reason "promoted, the old primary had no unsent WAL"
    """
    from relaybox.cli.repairing import run_attest

    run_attest(context.obj, store, reason=reason, as_json=as_json)


@app.command()
def rebuild(
    context: typer.Context,
    store: Annotated[str, typer.Argument(metavar="STORE", help="The store that was lost; its service leads to a new database.")],
    *,
    reason: Annotated[
        str | None, typer.Option("--reason", help="Do it, and record why. Without it: only tell.", show_default=False)
    ] = None,
    subscriptions: Annotated[
        Path | None,
        typer.Option(
            "--subscriptions", help="Make these anew: what `relaybox subscriptions --json` had saved.", show_default=False
        ),
    ] = None,
    accept_losses: Annotated[bool, typer.Option("--accept-losses", help="Go on although no other store has its outbox.")] = False,
    threads: Annotated[int, typer.Option("--threads", min=1, max=64, help="Slices at a time.")] = 2,
    as_json: AsJson = False,
) -> None:
    """Bring a lost store back from its neighbours: every log the same, position by position, and so every stream.

    Upstream stores send their batches again; stores further down get nothing twice. Ends with a proof of every route of the
    store. Run it again if it was interrupted. Cursors of consumers were in the store: save them with `relaybox subscriptions`.
    Without --reason nothing is changed, and the exit code is 1 if something is to be brought back.

    \b
    Examples:
      relaybox rebuild analytics
      relaybox rebuild analytics --reason "disk died, ticket 4711" --subscriptions subscriptions.json
    """
    from relaybox.cli.repairing import run_rebuild

    run_rebuild(
        context.obj,
        store,
        reason=reason,
        subscriptions=subscriptions,
        accept_losses=accept_losses,
        threads=threads,
        as_json=as_json,
    )


@app.command("plan-retries")
def plan_retries(
    context: typer.Context,
    route: Annotated[
        str | None, typer.Argument(metavar="[ROUTE]", help="Take its delays, and its measured failure rate.", show_default=False)
    ] = None,
    *,
    target: Annotated[str, typer.Option("--target", help="How reliable the whole is to be: 0.99999.", show_default=False)],
    failure_rate: Annotated[
        str | None,
        typer.Option("--failure-rate", help="How often one try fails: 0.1. Default: measured on ROUTE.", show_default=False),
    ] = None,
    outage_seconds: Annotated[float, typer.Option("--outage-seconds", min=0, help="The longest outage to outlast.")] = 0.0,
    as_json: AsJson = False,
) -> None:
    """Work out attempts and delays for a target reliability: R_n = 1 - (1 - R)^(n + 1) for n retries.

    Only transient errors are retried, so only they count. In an outage tries fail together: --outage-seconds says how long
    the delays must last.

    \b
    Examples:
      relaybox plan-retries --failure-rate 0.1 --target 0.99999
      relaybox plan-retries flights --target 0.999999 --outage-seconds 600
    """
    from relaybox.cli.planning import run_plan_retries

    run_plan_retries(context.obj, route, failure_rate=failure_rate, target=target, outage_seconds=outage_seconds, as_json=as_json)


@app.command()
def demo(context: typer.Context) -> None:
    """Move 336,776 real messages over two hops with Airflow and Spark, on clusters made for it.

    Stays up until Ctrl-C; DEMO_EXIT=1 ends it after verify.

    \b
    Examples:
      relaybox demo
      DEMO_EXIT=1 relaybox demo
    """
    from relaybox.local.demo.run import run_demo

    raise typer.Exit(run_demo())


@app.command()
def version(as_json: AsJson = False) -> None:
    """Show the version, and the schema version that stores must have.

    \b
    Examples:
      relaybox version
    """
    from relaybox.cli.moving import run_version

    run_version(as_json=as_json)
