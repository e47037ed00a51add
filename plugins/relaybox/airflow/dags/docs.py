"""The page behind a DAG's book icon: where the hop is in its route, what the task does, what to do when it fails."""

from __future__ import annotations

from collections.abc import Sequence

from relaybox.airflow.dags.factory import LOOK_CRON
from relaybox.airflow.links import hop_page
from relaybox.airflow.naming import WATCH_DAG_ID
from relaybox.routes import Hop, Route, Routes, Store

_BUTTONS = """\
### Which buttons are safe

All of them, at any time: trigger, clear, mark failed, mark success, delete the run, two runs at once. What was moved is
recorded in the stores, and no button changes that. **Clear** is the way to try again. *Mark success* moves nothing.
"""


def transfer_doc(route: Route, hop: Hop) -> str:
    source, destination = hop.source.name, hop.destination.name
    retries = hop.retries
    tries = f"Airflow tries {retries.attempts} times, waiting {retries.delay_seconds} to {retries.max_delay_seconds} s"
    reads = (
        f"the outbox of **{source}** (topics {', '.join(hop.topics)})"
        if hop.upstream is None
        else f"the log of hop {hop.upstream} in **{source}**"
    )
    return f"""\
{route_drawing(route, hop, backwards=False)}

Moves the messages of hop **{hop.name}** from {reads} to its log in **{destination}**: each exactly once, in order.
How far it is, how fast, and what holds it up: [the page of the hop]({hop_page(hop)}).

### What it does

1. Looks whether anything waits. If not, the task is *skipped*; that is the normal end of a quiet run.
2. {_mover(hop)}
   It plans a batch at {source}, copies its slices, publishes it at {destination}, confirms it at {source}, and goes on until
   nothing is left{_lingering(hop)}. The log has a line for each: batch, log_positions, rows, rows per second.
3. Its success says that the log grew, and triggers what reads it.

It is started by new messages (a look at {source} every second); the DAG `{WATCH_DAG_ID}` starts it if that failed.

### When it fails

The last lines of the log say what is wrong, where, and what to do next.

| the driver's exit code | means | then |
|---|---|---|
| 75, or killed | a retry may help: a store is down or busy | {tries}; the next attempt finishes the same batch |
| 65 | a retry gives the same error | failed at once: follow the message |
| 78 | `relaybox.yaml`, a connection or an argument is wrong | failed at once: correct it, then clear the task |

In a terminal: `relaybox status` shows the lag of the hop, `relaybox verify {hop.route}` proves what arrived.

{_BUTTONS}"""


def _mover(hop: Hop) -> str:
    if hop.runner == "auto":
        return f"Moves fewer than {hop.limits.spark_from_rows:,} waiting messages by itself, and starts Spark for more."
    return "Moves them by itself." if hop.runner == "threads" else "Starts Spark."


def _lingering(hop: Hop) -> str:
    seconds = hop.limits.linger_seconds
    return f" and nothing came for {seconds} s" if seconds else ""


def confirm_doc(route: Route, hop: Hop) -> str:
    source, destination = hop.source.name, hop.destination.name
    return f"""\
{route_drawing(route, hop, backwards=True)}

Confirms hop **{hop.name}** back to **{source}**: asks {destination} how far messages are received and settled there, and records it.
The cascade of each batch: [the page of the hop]({hop_page(hop)}).

### What it does

One short transaction per store. It only ever moves confirmations forward, and never ahead of what is true at {destination}.
Policy of the route: `{hop.policy}`. {_policy(hop)}

It is started by {_started_by(hop)}.

### When it fails

Nothing is lost: a missing confirmation only delays cleaning up, and the next run makes up for it. An error that a retry
cannot mend fails at once; its message says what to do.

{_BUTTONS}"""


def watch_doc(routes: Routes) -> str:
    stores = ", ".join(dict.fromkeys(hop.source.name for hop in routes.hops))
    return f"""\
Looks after all {len(routes.hops)} hops by the clock (`{LOOK_CRON}`), one task per store: {stores}.

### What it does

1. Asks the store about every hop that leaves it, in one query.
2. Triggers the transfer of a hop that has work and no running transfer, and the confirmation of a hop with messages that are not settled.

Usually it triggers nothing: the triggerer looks every second, and each DAG triggers the next. It is there for a dead triggerer
and for events that Airflow dropped. Hops without work start nothing at all.

### When it fails

A store is down, or its connection is wrong: the message says which. The hops of the other stores are looked after all the same.

{_BUTTONS}"""


def verify_doc(routes: Routes) -> str:
    return f"""\
Proves delivery of {len(routes.routes)} routes, once a day: {", ".join(routes.routes)}.

### What it does

1. A task per route compares its stores message by message, by count and by content. Messages on their way are no defect.
   Little it compares by itself; for much it starts Spark, as the route's transfers do.
2. The report has a row per route: sent, received, in flight, R, UR, defects. It is in the log of its task and in XCom.

Each verification is an event of the asset `relaybox/<route>/verification`. Trigger it by hand to prove one route now.

### When it fails

The report fails when a route has a defect: a message is missing, doubled, changed or misplaced. `relaybox verify <route>` names each;
[the runbook](docs/runbooks/loss-or-duplicates.md) says what to do. A proof that fails itself could not reach a
store, or took longer than `limits.run_timeout_seconds` of its route: its log says which.

{_BUTTONS}"""


def retention_doc(stores: Sequence[Store]) -> str:
    return f"""\
Drops the segments that no hop and no subscription needs, once a day, in {len(stores)} stores: {", ".join(store.name for store in stores)}.

### What it does

A task per store drops whole segments of its outbox and logs, oldest first: settled by every hop, acknowledged by every subscription, no
open dead letter, older than `retention.replay_window_seconds` of relaybox.yaml. Without a window everything is kept.

Of a route with `stopped_consumer: detach` a second task puts what only stopped subscriptions need into files, with Spark; when there is
nothing of that kind it is skipped and starts no JVM. `relaybox attach` brings it back.

The task's log says per table what was dropped and who needs the next segment. A table that sessions hold is left for the next run.
Trigger it with *Dry run* to be told only; in a terminal: `relaybox retention --dry-run`.

### When it fails

It could not reach its store. A hop or subscription that keeps old segments is no failure, but
[an alarm](docs/runbooks/growing-store.md).

{_BUTTONS}"""


def replay_doc(route: Route) -> str:
    return f"""\
Has messages of route **{route.name}** read again, by a second cursor of a subscription. The live cursor stays where it is.
`{route.path[0].name}` and the logs are only read: a replay changes no message, no log_position and no order.

### What it does

1. `count` tells stream_positions, messages, bytes and time, and changes nothing.
2. `replay` opens the second cursor for the range (`<subscription>.replay`), and succeeds when it has been read.
   A consumer must read it: `relaybox consume <subscription>.replay --follow`, or a program of yours.
   Every message comes with `replayed` true, no faster than the rate.

**Backfill = replay.** A backfill replays a day per run, from midnight to midnight UTC, by the time at which the store delivered the
messages: days that touch share no message and miss none. Ranges of one cursor are read one after the other, never mixed.
A day that is asked for again while it is being read is read once; a cleared run has its day read again.

```
airflow backfill create --dag-id relaybox_replay__{route.name} --from-date 2026-07-01 --to-date 2026-07-03 \\
  --dag-run-conf '{{"subscription": "billing", "reason": "invoices were wrong"}}'
```

### When it fails

The message says which field is wrong, or that the replay was cancelled. While no consumer reads the second cursor the task waits, a day at
most. To cancel: `relaybox replay <subscription>.replay --cancel --reason ...`; cancelling a backfill ends what has not begun.

{_BUTTONS}"""


def redrive_doc(route: Route) -> str:
    return f"""\
Redrives dead letters of route **{route.name}**: the consumers that refused them get them again, after a person approved it.

### What it does

1. `show` lists the open letters: number, message, sender, reason. Payloads are on the Relaybox page, for those who may see them.
2. `approve` waits for a person (Airflow: *Required Actions*), a day at most; no answer is a no.
3. `redrive` gives exactly the approved letters back, in the order of their stream positions, before what is new.

Who asked, who approved and why is in `relaybox.consumer_action` of the store.

### When it fails

The message says what is wrong. A letter that waits behind an open one of its sender comes after that one.
[The runbook](docs/runbooks/dead-letters.md) says how to find out why a message was refused.

{_BUTTONS}"""


def skip_doc(route: Route) -> str:
    return f"""\
Gives up messages of route **{route.name}** that never came, so that what waits behind them is delivered. It can't be taken back.

### What it does

1. `show` tells what is missing of the sender at each store, and how much waits behind it.
2. `approve` waits for a person (Airflow: *Required Actions*), a day at most; no answer is a no.
3. `skip` gives up the approved gap at every store that has it. What came meanwhile is delivered, not given up.

Who asked, who approved and why is in `relaybox_internal.skip` of each store. A skipped message that comes after all is set aside.

### When it fails

The message says why it is no gap: it is on its way, or it was skipped already. [The runbook](docs/runbooks/sender-gap.md).

{_BUTTONS}"""


def _policy(hop: Hop) -> str:
    if hop.processed_by:
        return f"A message is settled when {', '.join(hop.processed_by)} have acknowledged it at {hop.destination.name}."
    if hop.policy == "received" or hop.downstream is None:
        return f"A message is settled when {hop.destination.name} has it."
    return f"A message is settled when hop {hop.downstream} has settled it."


def _started_by(hop: Hop) -> str:
    if hop.downstream is None:
        return f"each growth of its log; the DAG `{WATCH_DAG_ID}` starts it if that failed"
    by_log = ", and by each growth of its own log" if hop.policy == "received" else ""
    return f"the confirmations of hop {hop.downstream}{by_log}"


def route_drawing(route: Route, hop: Hop, *, backwards: bool) -> str:
    """The route on one line, and this hop marked below it.

    ```
    airline ──1──▶ hub ──2──▶ analytics
                   └─── flights/2 ────┘
    ```
    """
    line, starts, ends = route.path[0].name, [0], [len(route.path[0].name)]
    for each in route.hops:
        line += f" ◀──{each.number}── " if backwards else f" ──{each.number}──▶ "
        starts.append(len(line))
        line += each.destination.name
        ends.append(len(line))
    start, end = starts[hop.number - 1], ends[hop.number]
    marked = f" {hop.name} ".center(end - start - 2, "─")
    return f"```\n{line}\n{' ' * start}└{marked}┘\n```"
