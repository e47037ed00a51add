"""relaybox.yaml: which stores there are, and which routes carry which topics through them.

The smallest file names stores and routes; everything else has a default:

```yaml
stores:
  airline: {}
  hub: {}
  analytics: {}
routes:
  flights:
    topics: [flights]
    path: [airline, hub, analytics]
```

**`stores.<store>`**: one Postgres database. A secret never stands here.

| key | default | rule |
|---|---|---|
| `service` | the store's name | the libpq service that code connects with; one per store |
| `connection` | `relaybox_<store>` | the Airflow connection that the service file is written from; one per store |
| `pool` | `default_pool` | the Airflow pool whose slots tasks on this store take; it must exist, or they wait without end |
| `bind_senders` | false | true or false: whether a database role may insert only messages of senders that it is bound to |
| `retention` | | as of routes: for all that is kept in this store, unless a route says otherwise |

**`routes.<route>`**: two stores make one hop, three make two. Hops are numbered from 1: `flights/1` reads the outbox of
`airline`, `flights/2` reads the log that `flights/1` filled in `hub`.

| key | default | rule |
|---|---|---|
| `topics` | | one or more, each once |
| `path` | | two or more stores of this file, each once: a loop would move a message without end; see local hops |
| `topics_by_subscription` | false | true or false: whether subscribing to a topic that no stream of a store carries adds it to this route |
| `policy` | `cascade` | settled when the next store has it (`received`), the next hop settled it (`cascade`), or see `processed_by` |
| `processed_by` | | for `policy: processed`: subscriptions of the last store; it settles what all have acknowledged, and cascades |
| `integrity` | `count` | what a slice is checked by when it arrives: its number of rows (`count`), or their content too (`checksum`) |
| `runner` | `auto` | who moves and proves in Airflow: the task (`threads`), Spark (`spark`), or as `limits.spark_from_rows` says (`auto`) |
| `owner` | `relaybox` | who looks after the route: the owner of its DAGs |
| `order` | `none` | what consumers can rely on: `none`, `fifo`, `causal` or `total`; see streams |
| `stream` | the route's name | the name that consumers read by, a name like a route's; only causal routes may share one |
| `message_id_window` | 0 | 0 to 1000000: a message whose `message_id` stood in this many log positions before it is a duplicate; 0: off |

**`routes.<route>.limits`**

| key | default | rule |
|---|---|---|
| `batch_rows` | 1000000 | 1 to 10000000: how many messages one batch has at most |
| `slice_rows` | 100000 | 1 to `batch_rows` (also by default): how many one task copies; a batch has at most 10000 slices |
| `slice_timeout_seconds` | 900 | 1 to 86400: how long one attempt at a slice may take |
| `linger_seconds` | 0 | 0 to 3600: how long an empty hop waits for more messages before the transfer ends |
| `spark_from_rows` | 50000 | 1 to 1000000000: with `runner: auto`, this many messages to move or compare are worth a Spark application |
| `run_timeout_seconds` | 21600 | 60 to 604800: after how long Airflow ends an attempt of a transfer, a verification or a detaching task |
| `target_lag_seconds` | 600 | 1 to 604800: how long a message may wait at most; a hop that is later is alarmed |
| `holdback_rows` | 10000 | 1 to 1000000: how many messages of one sender a store holds back until a gap fills; then that sender waits |
| `fragments` | 1000000 | 100 to 100000000: how many pieces the set of one sender's indexes may fall into; then that sender waits |

**`routes.<route>.retries`**, of the tasks of its hops

| key | default | rule |
|---|---|---|
| `attempts` | 5 | 1 to 100: how often a task is tried, the first time included |
| `delay_seconds` | 10 | 0 to 86400: before the second attempt |
| `backoff` | 2.0 | 1 to 10: factor from one delay to the next |
| `max_delay_seconds` | 300 | `delay_seconds` to 86400: no delay is longer; at least `delay_seconds` by default |

**`routes.<route>.retention`**, of the outbox and the logs that the route fills

| key | default | rule |
|---|---|---|
| `replay_window_seconds` | that of the store, else all is kept | 0 to 315360000: how long a message stays after it was delivered |
| `stopped_consumer` | that of the store, else `alarm` | who keeps old segments: `alarm`, `keep` in silence, or `detach` from the log |
| `detach_after_seconds` | that of the store, else 86400 | how long a subscription stands still before what only it needs is detached |
| `detach_to` | that of the store | for `stopped_consumer: detach`: a directory or a URI that every Spark executor reads and writes |

With `stopped_consumer: detach`, which wants a replay window too, the oldest segments of a log that only stopped subscriptions
needs are read into Parquet files by Spark; `relaybox attach` brings them back. An outbox is never detached: a hop that stops is alarmed.

**Local hops.** Only the first store of a path may stand twice in it: `[hub, hub]`, `[hub, hub, analytics]`. The first hop then
leads from the outbox of `hub` into a log of `hub`, for consumers beside the producers.

**Streams.** A stream is what consumers read in each store that a route arrives in: the messages of its log without duplicates,
each sender's in its order (`fifo`), none before one that its sender had seen (`causal`), or in one sequence for all stores
(`total`). Causal order needs every message of a group wherever one of them is read. So causal routes from several stores share
a stream, its topics, window and limits, and each origin must reach each store that one of them arrives in, exactly once:

```yaml
routes:
  chat-a: {topics: [chat], path: [a, a], order: causal, stream: chat}
  chat-a-b: {topics: [chat], path: [a, b], order: causal, stream: chat}
  chat-b: {topics: [chat], path: [b, b], order: causal, stream: chat}
  chat-b-a: {topics: [chat], path: [b, a], order: causal, stream: chat}
```

A `total` route has one sequencer, its first log, so no other route may carry one of its topics.

Store, route and stream names are a small letter and up to 29 more of `a-z 0-9 _ -`; topics are 1 to 48 of `a-z 0-9 _ . -`; services
and connections are 1 to 63 of `A-Z a-z 0-9 _ . -`, the first a letter or a digit. Durations are whole seconds. A store,
`limits`, `retries` or `retention` with nothing behind it has all its defaults.

The file is YAML in UTF-8, at most 1 MiB, 16 levels and 50,000 keys and values, each alias counted as a copy. Unknown keys, keys
written twice and tags are refused; `<<` is a key like any other. Two routes may share stores, hops and topics: each hop has
a log of its own. Streams set the bounds to that.
"""

from relaybox.routes.loading import load_routes
from relaybox.routes.model import Hop, Limits, Retention, Retries, Route, Routes, Store

__all__ = ["Hop", "Limits", "Retention", "Retries", "Route", "Routes", "Store", "load_routes"]
