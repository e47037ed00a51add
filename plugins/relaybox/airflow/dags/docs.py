"""The documentation of the DAGs in Airflow: the route, the tasks, and what to do after a failure."""

from __future__ import annotations

from collections.abc import Sequence

from relaybox.airflow.dags.factory import LOOK_CRON
from relaybox.airflow.forms import asks_for_approval
from relaybox.airflow.links import hop_page, runbook_page
from relaybox.airflow.naming import WATCH_DAG_ID
from relaybox.airflow.slot_use import idle_seconds
from relaybox.amounts import amount
from relaybox.routes import Export, Hop, Retries, Route, Routes, Sink, Store, Watch

_BUTTONS = """\
### Which buttons are safe

All, at any time: trigger, clear, mark failed, mark success, delete the run, two runs at once. The
stores record what was moved, and no button changes that. To try again use **Clear**. *Mark success*
moves nothing.
"""


def _up_to(retries: Retries) -> str:
    return f"up to {amount(retries.attempts, 'attempt')}"


def transfer_doc(route: Route, hop: Hop) -> str:
    source, destination = hop.source.name, hop.destination.name
    retries = hop.retries
    delays = f"{retries.delay_seconds} to {retries.max_delay_seconds} s"
    tries = amount(retries.attempts, "attempt with", "attempts with") + f" delays of {delays}"
    reads = (
        f"the outbox of **{source}** (topics {', '.join(hop.topics)})"
        if hop.upstream is None
        else f"the log of hop {hop.upstream} in **{source}**"
    )
    return f"""\
{route_drawing(route, hop, backwards=False)}

Moves the messages of hop **{hop.name}** from {reads} to its log in **{destination}**: each exactly
once, in order. For lag, rate and problems see [the page of the hop]({hop_page(hop)}).

### What it does

1. Checks for messages. Without messages the task is *skipped*: the normal end of a run without
   work.
2. {_mover(hop)} The driver plans a batch at {source}, copies its slices, publishes it at
   {destination} and confirms it at
   {source}. It repeats this until no message is left{_lingering(hop)}. The log has a line per batch: number,
   log positions, rows, rows per second.
3. Success emits an asset event that triggers the DAGs that read the log.

New messages start this DAG: a trigger polls {source} {_polled(hop.source.watch)}. If that fails, the
DAG `{WATCH_DAG_ID}` starts it.

### When it fails

The last lines of the log say what is wrong, where, and what to do.

| exit code of the driver | meaning | what follows |
|---|---|---|
| 75, or killed | a retry may help: a store is down or busy | {tries}; the next one resumes the same batch |
| 65 | a retry gives the same error | the task fails at once: follow the message |
| 78 | `relaybox.yaml`, a connection or an argument is wrong | the task fails at once: correct it, then clear the task |

In a terminal: `relaybox status` shows the lag of the hop, `relaybox verify {hop.route}` verifies
its messages.

{_BUTTONS}"""


def derive_doc(route: Route) -> str:
    derivation, store = route.require_derivation(), route.path[0].name
    source = derivation.function or "the SQL of relaybox.yaml"
    retries = route.retries
    return f"""\
Derives the messages of route **{route.name}** from those of stream **{derivation.stream}** in store **{store}**, with Spark:
{source}, version {derivation.version}. The hops of the route then move them as any message.

### What it does

1. Checks for messages. Without messages the task is *skipped*: the normal end of a run without work.
2. Puts an attempt on record, calls the function with at most {derivation.batch_rows:,} messages, and sends what it returns. Sending
   and acknowledging are one transaction. It repeats this until no message is left.

New messages of the stream start this DAG. {_checked(route.path[0])}

### When it fails

Nothing of the attempt is sent. The last lines of the log say what is wrong, where, and what to do.

| exit code of the driver | meaning | what follows |
|---|---|---|
| 75, or killed | a retry may help: the store or Spark failed, or a later run took over | {_up_to(retries)} |
| 65 | the function failed, or another version or source is in the store | the task fails at once: follow the message, then clear the task |
| 78 | `relaybox.yaml`, a connection or the module is wrong | the task fails at once: correct it, then clear the task |

In a terminal: `relaybox derive {route.name} --dry-run` shows what the function makes of the next messages.
[The runbook]({runbook_page("stopped-derivation")}) says how to let it go on.

{_BUTTONS}"""


def promote_doc(route: Route) -> str:
    derivation, candidate = route.require_derivation(), route.require_next()
    source = candidate.function or "the SQL of relaybox.yaml"
    return f"""\
Tries version {candidate.version} of what route **{route.name}** derives from stream **{derivation.stream}** ({source}), and
promotes it after a person approved it.

### What it does

1. `try` derives from messages of the past with the new version, and sends nothing. The present version goes on.
2. `show` compares the result with what the present version has sent for these messages, and counts what differs by topic.
   `relaybox trials compare {route.name}` shows samples too: payloads are not in Airflow.
3. `approve` waits for a person, for a day. It takes no slot.
4. Approved: `promote` ends the present version and begins the new one. Rejected: `drop_rejected` drops the trial, and its messages
   are deleted.

If nobody answers, `drop_rejected` fails and the trial stays open. A new run of this DAG goes on with it, and asks again;
`relaybox trials drop {route.name} --reason WHY` drops it. A run begins one trial: `try` that is cleared after its trial was dropped
fails. Trigger a new run. See [the runbook]({runbook_page("open-trial")}).

### When it fails

Nothing was sent, and the present version goes on; the trial is open. The last lines of the log say what is wrong, where, and what to do.

{_BUTTONS}"""


def _checked(store: Store) -> str:
    if store.watch.listen:
        return "Every ten minutes it checks without them, and so begins what is new in relaybox.yaml."
    return f"Store {store.name} may sleep, so nothing else does: trigger the DAG to begin what is new in relaybox.yaml."


def export_doc(export: Export) -> str:
    retries = export.retries
    return f"""\
Writes stream **{export.stream}** of store **{export.store.name}** into the {export.format} table **{export.path}**, with Spark.

### What it does

1. Checks for messages that are not in the table. Without messages the task is *skipped*: the normal end of a run without work.
2. Writes files with at most {export.batch_messages:,} messages, adds them to the table in one commit that moves its position, and
   acknowledges them in the store. It repeats this through the newest message.

New messages of the stream start this DAG. {_checked(export.store)}

### When it fails

The table has whole batches only, and each message once. The last lines of the log say what is wrong, where, and what to do.

| exit code of the driver | meaning | what follows |
|---|---|---|
| 75, or killed | a retry may help: the lake, the store or Spark failed, or another run is under way | {_up_to(retries)} |
| 65 | others changed the table, or the store lacks what comes next | the task fails at once: follow the message, then clear it |
| 78 | `relaybox.yaml` or a connection is wrong | the task fails at once: correct it, then clear the task |

In a terminal: `relaybox export {export.name} --dry-run` shows what waits; `relaybox verify-lake {export.name}` compares table and stream.
[The runbook]({runbook_page("damaged-lake-table")}) says what to do with a damaged table.

{_BUTTONS}"""


def sink_doc(sink: Sink) -> str:
    retries = sink.retries
    return f"""\
Delivers stream **{sink.stream}** of store **{sink.store.name}** to **{sink.endpoint}**, at least once.

### What it does

1. The first run subscribes to the stream as `{sink.subscription}`, from {sink.start} on.
2. Sends each message, and acknowledges it in the store when the endpoint has confirmed it. A message that arrives twice has the same id.
3. Ends when nothing waits. The pauses between a few failed attempts are waited for; when the endpoint has failed
   {sink.open_after_failures} times, the task fails.

New messages of the stream start this DAG, and messages that wait start it again each minute. {_checked(sink.store)}

### When it fails

Nothing is lost. The last lines of the log say what is wrong, where, and what to do.

| error | meaning | what follows |
|---|---|---|
| `EndpointUnavailable` | the endpoint takes no message; none is refused, all wait | {_up_to(retries)}, then the next run |
| dead letters | the endpoint refuses single messages, {sink.nack_limit} times each | correct it, then redrive them |
| `NotSubscribed`, `ConfigurationError` | the subscription was ended, or differs from the file; or a secret is missing | it fails at once |

In a terminal: `relaybox {sink.kind} list` shows what waits and since when the endpoint fails; `relaybox {sink.kind} retry {sink.name}`
ends a pause. See [the runbook]({runbook_page("failing-endpoint")}).

{_BUTTONS}"""


def _mover(hop: Hop) -> str:
    if hop.runner == "auto":
        rows = hop.limits.spark_from_rows
        return f"The task moves fewer than {rows:,} waiting messages itself, and starts Spark for more."
    return "The task moves the messages itself." if hop.runner == "threads" else "Starts Spark."


def _lingering(hop: Hop) -> str:
    seconds = idle_seconds(hop)
    return f" and none arrived for {seconds:g} s, or another hop needs the slot" if seconds else ""


def confirm_doc(route: Route, hop: Hop) -> str:
    source, destination = hop.source.name, hop.destination.name
    return f"""\
{route_drawing(route, hop, backwards=True)}

Carries the confirmations of hop **{hop.name}** back to **{source}**: reads at {destination} how far
messages are received and settled, and records it. For each batch see [the page of the
hop]({hop_page(hop)}).

### What it does

One short transaction per store. Confirmations only move forward, and never ahead of {destination}.
Policy of the route: `{hop.policy}`. {_policy(hop)}

It is started by {_started_by(hop)}.

### When it fails

No message is lost: a missing confirmation only delays retention, and the next run records it. If a
retry cannot help, the task fails at once; the message says what to do.

{_BUTTONS}"""


def _polled(watch: Watch) -> str:
    if watch.max_interval_seconds == watch.interval_seconds:
        return f"every {watch.interval_seconds:g} s"
    return (
        f"every {watch.interval_seconds:g} s, and less often while it has no work: up to every {watch.max_interval_seconds:g} s"
    )


def watch_doc(routes: Routes) -> str:
    stores = ", ".join(dict.fromkeys(hop.source.name for hop in routes.hops))
    return f"""\
Checks {amount(len(routes.hops), "hop")} on a schedule (`{LOOK_CRON}`), with one task per store: {stores}.

### What it does

1. Task `keep_routes` keeps the text of `relaybox.yaml`, if it changed and is good. While the file is wrong
   or not there, Airflow builds the DAGs from the text that was kept.
2. Reads the state of all hops that leave the store, in one query.
3. Triggers the transfer of each hop that has work and no driver, and the confirmation of each hop
   that has unsettled messages.
4. Reports each hop whose oldest message waits longer than `limits.target_lag_seconds`: by the asset
   `relaybox/<hop>/late`, and by `on_late_callback` of `build_dags`. Again each hour while it is late.

Usually it triggers nothing, because the triggerer polls each store and each DAG triggers the next
one. It helps when the triggerer is dead or Airflow dropped an event. A hop without work is not
triggered.

### When it fails

- `keep_routes`: `relaybox.yaml` is wrong or not there, where this task ran. The message names each problem.
  Messages still move, by the last good file. Correct the file.
- Another task: a store is down, or its connection is wrong. The message names the store. The hops of
  other stores are still checked.

{_BUTTONS}"""


def verify_doc(routes: Routes) -> str:
    return f"""\
Verifies delivery of {amount(len(routes.routes), "route")}, once a day: {", ".join(routes.routes)}.

### What it does

1. One task per route compares the stores message by message, by count and by content. Messages in
   flight are no defect. The task compares few messages itself and starts Spark for more, as the
   route's transfers do.
2. The report has a row per route: sent, received, in flight, set aside, R, UR, defects. It is in
   the log of its task and in XCom.

Each verification is an event of the asset `relaybox/<route>/verification`. Trigger the DAG to
verify one route now.

### When it fails

The report fails when a route has a defect: a message is missing, doubled, changed or misplaced.
`relaybox verify <route>` names each; [the runbook]({runbook_page("loss-or-duplicates")}) says what
to do. The task of a route fails if it could not reach a store, or took longer than
`limits.run_timeout_seconds` of its route: its log says which.

{_BUTTONS}"""


def retention_doc(stores: Sequence[Store]) -> str:
    return f"""\
Drops segments that no reader needs, once a day, in {amount(len(stores), "store")}:
{", ".join(store.name for store in stores)}.

### What it does

One task per store drops whole segments of the outbox and logs, oldest first. A segment is dropped
when every hop has settled it, every subscription has acknowledged it, no dead letter in it waits for a
person or a consumer, and it is older than `retention.replay_window_seconds` of relaybox.yaml. Without a window all
segments are kept.

For routes with `stopped_consumer: detach` a second task uses Spark to move segments that only
stopped subscriptions need into files. Without such segments it is skipped and starts no JVM.
`relaybox attach` moves the segments back.

For each place in the section `payloads` a last task collects the files of large payloads to which no
message of any store refers. It asks all stores, so it is skipped when one store is chosen.

The log of the task says for each table what was dropped and which reader needs the next segment. A
table that sessions hold is left to the next run. Trigger the DAG with *Dry run* to list only; in a
terminal run `relaybox retention --dry-run`.

### When it fails

A task could not reach its store, Spark could not write files, or it is not certain which large
payloads messages need. Nothing that a reader needs is gone. The last lines of the log say what to do.

A hop or subscription that keeps old segments is no failure. It raises [an
alert]({runbook_page("growing-store")}).

{_BUTTONS}"""


def init_doc(stores: Sequence[Store]) -> str:
    return f"""\
Runs `relaybox init` with the logins of the owners: {", ".join(store.name for store in stores)}.

### What it does

1. `show` does what an init would do, and rolls it back. The table is in its log, in XCom and in the
   question. If the stores are up to date, it is *skipped*, and the rest too.
2. `approve` waits a day for a person, under Required Actions.
3. `init` plans the stores again while no other init can run, and does what was approved. If a store,
   `relaybox.yaml` or the installed Relaybox is another one by then, it changes nothing and fails: trigger
   a new run.

Each store needs an Airflow connection of its owner: the id of the store's connection with the suffix
`_owner`, for example `{stores[0].connection}_owner`. Without these connections the DAG can do nothing.

### When it fails

The message names the store and what to do.

### Which buttons are safe

All, at any time. A killed or cleared `init` does what is left of the approved plan. Marking `approve` as a
success approves nothing. If a cleared `show` finds another plan, nothing is done: trigger a new run.
"""


def replay_doc(route: Route) -> str:
    return f"""\
Reads messages of route **{route.name}** again, by a second cursor of a subscription. The live
cursor does not move. A replay only reads `{route.path[0].name}` and the logs: it changes no
message, no log position and no order.

### What it does

1. `count` counts stream positions, messages and bytes, estimates the time, and changes nothing.
{_replay_approval(route)}`replay` opens the second cursor for the range (`<subscription>.replay`), and succeeds when
   consumers have read it. Start a consumer: `relaybox consume <subscription>.replay --follow`, or
   your own program. Each message has `replayed` true. The rate is limited.

**Backfill = replay.** A backfill replays one day per run, from midnight to midnight UTC, by the
time at which the store delivered the messages. Adjacent days share no message and miss none. Ranges
of one cursor are read one after the other. A day that is requested twice while it is being read is
read once. A cleared run reads its day again.

```
airflow backfill create --dag-id relaybox_replay__{route.name} --from-date 2026-07-01 --to-date 2026-07-03 \\
  --dag-run-conf '{{"subscription": "billing", "reason": "invoices were wrong"}}'
```

### When it fails

The message says which field is wrong, or that the replay was cancelled. Without a consumer of the
second cursor the task is *deferred*, for one day at most, and holds no slot. To cancel:
`relaybox replay <subscription>.replay --cancel --reason ...`. Cancelling a backfill cancels the
days that have not begun.

{_BUTTONS}"""


def _replay_approval(route: Route) -> str:
    if not asks_for_approval(route):
        return "2. "
    return """\
2. `approve` waits for a person (Airflow: *Required Actions*), for one day at most; no answer
   rejects. It shows what was counted, and no more than that is replayed. A run that only counts,
   or that found no message, does not ask.
3. """


def redrive_doc(route: Route) -> str:
    return f"""\
Redrives dead letters of route **{route.name}** after an approval: consumers get the refused
messages again.

### What it does

1. `show` lists the open dead letters: number, message, sender, reason. The Relaybox page shows
   payloads to users with permission.
2. `approve` waits for a person (Airflow: *Required Actions*), for one day at most; no answer
   rejects.
3. `redrive` gives exactly the approved dead letters back, in the order of their stream positions,
   before newer messages.

The table `relaybox.consumer_action` of the store records who requested, who approved, and why.

### When it fails

The message says what is wrong. A dead letter that waits behind an open one of the same sender is
redriven after that one. [The runbook]({runbook_page("dead-letters")}) says how to find out why a
message was refused.

{_BUTTONS}"""


def skip_doc(route: Route) -> str:
    return f"""\
Skips missing messages of route **{route.name}**, so that the messages that wait for them are
delivered. A skip can't be undone.

### What it does

1. `show` lists the missing messages of the sender at each store, and counts the messages that wait
   for them.
2. `approve` waits for a person (Airflow: *Required Actions*), for one day at most; no answer
   rejects.
3. `skip` skips the approved gap at every store that has it. Messages that arrived meanwhile are
   delivered.

The table `relaybox_internal.skip` of each store records who requested, who approved, and why. A
skipped message that arrives later is set aside.

### When it fails

The message says why there is no gap: the messages are on their way, or were skipped already. See
[the runbook]({runbook_page("sender-gap")}).

{_BUTTONS}"""


def _policy(hop: Hop) -> str:
    if hop.processed_by:
        return f"A message is settled when {', '.join(hop.processed_by)} have acknowledged it at {hop.destination.name}."
    if hop.policy == "received" or hop.downstream is None:
        return f"A message is settled when {hop.destination.name} has it."
    return f"A message is settled when hop {hop.downstream} has settled it."


def _started_by(hop: Hop) -> str:
    if hop.downstream is None:
        return f"each growth of its log. If that fails, the DAG `{WATCH_DAG_ID}` starts it"
    by_log = ", and by each growth of its own log" if hop.policy == "received" else ""
    return f"the confirmations of hop {hop.downstream}{by_log}"


def route_drawing(route: Route, hop: Hop, *, backwards: bool) -> str:
    """Draws the route on one line, with this hop marked below it.

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
