"""relaybox.yaml: the stores, and the routes with their topics and paths.

This is the smallest file. Everything else has a default:

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

**`stores.<store>`**: one Postgres database. The file has no secrets.

| key | default | rule |
|---|---|---|
| `service` | the store's name | the libpq service that code connects with; one per store |
| `connection` | `relaybox_<store>` | the Airflow connection that the service file is written from; one per store |
| `pool` | `default_pool` | the Airflow pool of tasks on this store; it must exist, or they wait forever |
| `bind_senders` | as the store is | true or false: a database role sends only as senders that it is bound to |
| `bind_subscriptions` | as the store is | true or false: a database role uses only subscriptions that it is bound to |
| `bind_topics` | as the store is | true or false: a database role reads only messages of topics that it was granted |
| `require_approval` | as the store is | true or false: consumers get messages again only after an approval in Airflow |
| `durability` | `server` | `server`: `fsync` and `full_page_writes` must be on; `provider`: commits are durable by other means |
| `durability_reason` | | with `durability: provider`: how; 3 to 200 characters, shown by `relaybox status` |
| `retention` | | as for routes: for all that this store keeps, unless a route says otherwise |
| `watch` | | how often the triggerer looks at the store |
| `adopt` | | outbox tables of applications whose rows are sent, by `SCHEMA.TABLE`: see docs/adopt.md |

**`stores.<store>.watch`**

| key | default | rule |
|---|---|---|
| `interval_seconds` | 1 | 1 to 86400: the time between two looks while a hop that leaves the store has work |
| `max_interval_seconds` | `interval_seconds` | `interval_seconds` to 86400: the longest time between two looks while none has work |
| `backoff` | 2.0 | 1 to 10: the factor from one such time to the next |
| `listen` | true | true: the session stays open, and `NOTIFY relaybox_work` ends the wait; false: the store may sleep |

**`stores.<store>.adopt.<table>`**, for a table that `relaybox adopt` makes an outbox: see docs/adopt.md. Each of the first six keys is a
column, a text in quotes such as `"'orders'"`, or a pattern such as `"outbox.{aggregatetype:lower}"`.

| key | default | rule |
|---|---|---|
| `message_id` | `id` if there is one | a column of uuid, or a pattern, whose hash is the id; `none`: the store makes one |
| `topic` | `{aggregatetype:lower}` | becomes 1 to 48 of `a-z 0-9 _ . -` |
| `sender` | the store's name | becomes 1 to 48 of `A-Z a-z 0-9 _ . : -` |
| `key` | `aggregateid` if there is one | at most 200 characters, or null; `none`: no message has a key |
| `payload` | `payload` | a column of json, jsonb, text or bytea, which stays bytes; `*`: the whole row as JSON |
| `headers` | `type`, `tracingspancontext`, `timestamp` | a section with a column for each header, a column of JSON objects, or `none` |
| `on_unmapped` | `fail` | a row that can't be a message: its insert fails (`fail`), or it is kept apart (`set_aside`) |

**`routes.<route>`**: two stores make one hop, three make two. Hops are numbered from 1: `flights/1`
reads the outbox of `airline`, `flights/2` reads the log that `flights/1` filled in `hub`.

| key | default | rule |
|---|---|---|
| `topics` | | one or more, each once |
| `path` | | two or more stores of this file, each once, so no message moves in a loop; see local hops |
| `topics_by_subscription` | false | true or false: subscribing to an unknown topic adds it to this route |
| `policy` | `cascade` | settled when the next store has it (`received`), the next hop settled it (`cascade`), or `processed` |
| `processed_by` | | for `policy: processed`: subscriptions of the last store; a batch settles when all have acknowledged it |
| `integrity` | `count` | compares an arrived slice by its number of rows (`count`), or by content too (`checksum`) |
| `runner` | `auto` | moves and verifies in the Airflow task (`threads`), in Spark (`spark`), or by `limits.spark_from_rows` (`auto`) |
| `owner` | `relaybox` | the owner of the route's DAGs |
| `order` | `none` | `none`, `fifo`, `causal` or `total`; see streams |
| `stream` | the route's name | consumers read by this name; only causal routes may share one |
| `message_id_window` | 0 | 0 to 1000000: a `message_id` that its sender repeats within this many log positions is a duplicate; 0: never |

**`routes.<route>.limits`**

| key | default | rule |
|---|---|---|
| `batch_rows` | 2000000 | 1 to 10000000: messages of one batch, at most; in a `causal` route the default is 200000 |
| `slice_rows` | 100000 | 1 to `batch_rows` (also by default): messages that one task copies; a batch has at most 10000 slices |
| `slice_timeout_seconds` | 900 | 1 to 86400: the time limit of one attempt at a slice |
| `linger_seconds` | 0 | 0 to 3600: how long an empty hop waits for more before the transfer ends; in Airflow at most 3 s, Spark 5 s |
| `spark_from_rows` | 50000 | 1 to 1000000000: with `runner: auto`, from this many messages on Spark moves or compares them |
| `run_timeout_seconds` | 21600 | 60 to 604800: Airflow ends an attempt of a transfer, a verification or a detach after this time |
| `target_lag_seconds` | 600 | 1 to 604800: an alert fires when a message of the hop waits longer |
| `holdback_rows` | 10000 | 1 to 1000000: held messages of one sender, at most; beyond it the sender stalls |
| `fragments` | 1000000 | 100 to 100000000: pieces of the set of one sender's indexes, at most; beyond it the sender stalls |

**`routes.<route>.retries`**, for the tasks of its hops

| key | default | rule |
|---|---|---|
| `attempts` | 5 | 1 to 100: attempts of a task, with the first one |
| `delay_seconds` | 10 | 0 to 86400: before the second attempt |
| `backoff` | 2.0 | 1 to 10: factor from one delay to the next |
| `max_delay_seconds` | 300 | `delay_seconds` to 86400: no delay is longer; at least `delay_seconds` by default |

**`routes.<route>.retention`**, for the outbox and the logs that the route fills

| key | default | rule |
|---|---|---|
| `replay_window_seconds` | that of the store, else all is kept | 0 to 315360000: a message stays for this time after its delivery |
| `stopped_consumer` | that of the store, else `alarm` | a stopped subscription: `alarm`, `keep` (no alert), or `detach` (files) |
| `detach_after_seconds` | that of the store, else 86400 | a subscription that stands still for longer is detached |
| `detach_to` | that of the store | for `stopped_consumer: detach`: a directory or a URI that every Spark executor reads and writes |

`stopped_consumer: detach` needs a replay window too. Spark moves the oldest segments of a log, if
only stopped subscriptions need them, into Parquet files. `relaybox attach` brings them back. An
outbox is never detached: a hop that stops has an alert.

**`routes.<route>.spark`**, for the tasks of the route that use Spark

| key | default | rule |
|---|---|---|
| `conn_id` | `spark_default` | the Airflow connection, of type Spark or Spark Connect |
| `conf` | | settings of Spark: `spark.executor.memory: "2g"`; values are texts; secrets are refused |
| `deploy_mode` | `client` | `client`, or `cluster` on YARN or Kubernetes; for connections of type Spark |
| `queue` | that of the connection | the queue of YARN; for connections of type Spark |

**`routes.<route>.derive`**, for a route whose messages are derived from those of a stream: see docs/deriving.md

| key | default | rule |
|---|---|---|
| `from` | | a stream that the first store of the path delivers |
| `with` | | `package.module:function`: takes and returns a DataFrame; this or `sql` |
| `sql` | | a query of Spark SQL over a table with the name of the stream; this or `with` |
| `version` | | 1 to 1000000: of what is derived; a higher one begins anew, a lower one is refused |
| `start` | after the version before, else `"earliest"` | `"earliest"`, `"latest"`, a stream position or a time such as `"2026-07-01"` |
| `sender` | the route's name | the sender of the derived messages |
| `batch_rows` | 100000 | 1 to 10000000: messages that the function gets at once, at most |
| `dead_letter_limit` | 100 | from 1: this many dead letters one after the other end a run: the function is wrong, not the messages |
| `row_errors` | `stop` | `stop`, or `dead_letter`: a message for which the function fails alone is set aside |
| `changed_source` | `refuse` | `refuse` or `warn`: the module or the SQL is another one, and the version is the same |
| `next` | none | a candidate for the next version: a higher `version`, and one of `with` and `sql`. `relaybox trials` tries it |

**`exports.<export>`**, for a stream that is written into a table of a lake: see docs/lake.md

| key | default | rule |
|---|---|---|
| `stream` | | a stream that the store delivers |
| `store` | | the store where it is read |
| `to` | | the format of the table: `delta`, `iceberg` or `parquet` |
| `table` | null | what the catalog of Iceberg knows the table as: `namespace.name`; with `to: iceberg` alone, which needs it |
| `path` | | the directory or URI of the table; it belongs to this export alone; no login, `%`, `?` or backslash |
| `partition_by` | `none` | `none`; `day`: of `sent_at`, in UTC; `key`: a batch has at most 1000 keys per file range |
| `start` | `earliest` | where a new export begins: `"earliest"`, `"latest"`, a stream position or a time |
| `batch_messages` | 1000000 | 1 to 100000000: messages of one commit, at most |
| `file_messages` | 250000 | 1 to 10000000: messages that one Spark task writes, at most |
| `owner` | `relaybox` | the owner of the DAG |

`retries` and `spark` of an export are as those of a route.

**`schemas.<topic>`**: the JSON Schemas of a topic: a list of files, version 1 first. A version is only
added, at the end. Paths begin at the folder of this file. See docs/contracts.md.

**`schema_checks.<topic>`**, for a topic of `schemas`: who checks its messages beside the producers, see docs/contracts.md

| key | default | rule |
|---|---|---|
| `outbox` | `none` | `none`, or `refuse`: the outbox refuses a message that does not conform to its schema |
| `first_hop` | `none` | `none`; `warn`: what does not conform when it arrives is noted; `set_aside`: no store delivers it |

**`webhooks.<webhook>`**, for a stream whose messages are sent to a URL: see docs/outward.md

| key | default | rule |
|---|---|---|
| `url` | | `https://` and a host; no login, no fragment; redirects are not followed |
| `secrets` | | one to four secrets that sign, each as `env:NAME` or `connection:ID`; never the secret itself |
| `plain_http` | false | true: an `http://` URL is allowed |
| `connect_seconds` | 5 | 1 to 60: to connect |
| `read_seconds` | 15 | 1 to 120: between two bytes of the answer |
| `total_seconds` | 30 | `connect_seconds` to 120: of one attempt |
| `answer_bytes` | 65536 | 0 to 16777216: of an answer, read at most |
| `cloudevents` | `none` | `binary` or `structured`: messages are sent as CloudEvents, in this mode of their binding for HTTP |
| `store` | | the store where the stream is read |
| `stream` | | a stream that the store delivers |
| `topic` | null | only messages of this topic; null: all of the stream |
| `start` | `earliest` | where a new subscription begins: `"earliest"`, `"latest"`, a stream position or a time |
| `lanes` | 1 | 1 to 64: messages that are under way at once |
| `lane_by` | `sender` | `sender` or `key`: whose order is kept |
| `hold_sender` | false | true: later messages of a sender wait behind its dead letter |
| `delayed` | `hold` | `hold`, `pass` or `ignore`: what becomes of the messages behind one that is not due |
| `nack_limit` | 5 | 1 to 1000: this many refusals make a message a dead letter |
| `retry_seconds` | 30 | 0 to 86400: between two attempts at a message that the endpoint refused |
| `messages_per_second` | null | 0.1 to 100000: of one process, at most; null: no limit |
| `open_after_failures` | 5 | 1 to 1000: this many failures of the endpoint, one after the other, open the circuit breaker |
| `max_pause_seconds` | 300 | 1 to 86400: the longest pause after a failure of the endpoint, unless it asks for more |
| `owner` | `relaybox` | the owner of the DAG |

**`kafka.<sink>`**, for a stream whose messages are sent to Kafka. The keys from `store` on are as those of a webhook.

| key | default | rule |
|---|---|---|
| `bootstrap_servers` | | `host:port`, several with commas in between |
| `to_topic` | `{topic}` | the topic of Kafka; `{topic}` stands for the topic of the message |
| `key_by` | `sender` | `sender` or `key`: the key of each record, which chooses its partition |
| `cloudevents` | false | true: the headers of CloudEvents are sent too |
| `properties` | | properties of librdkafka: `compression.type: "lz4"`; values are texts; secrets are refused |
| `secrets` | | properties that are secret: `sasl.password: "env:KAFKA_PASSWORD"`, or `connection:ID` |
| `delivery_seconds` | 30 | 1 to 120: until the brokers have confirmed a message |
| `batch_messages` | 500 | 1 to 10000: sent and acknowledged together, at most |

`retries` of a webhook or a sink of Kafka are as those of a route.

**`payloads.<place>`**, for a directory or bucket of large payloads, which `relaybox payloads` collects: see docs/large-messages.md

| key | default | rule |
|---|---|---|
| `location` | | an absolute path or `s3://bucket/prefix`, as programs of these stores give it to `PayloadStore`; no login |
| `grace_seconds` | 86400 | 3600 to 31536000: a transaction that refers to a file begins at most this long after its write |
| `keep_seconds` | 0 | 0 to 315360000: a file stays at least this long after its write, also if no message refers to it |
| `trash_seconds` | 604800 | 0 to 31536000: what a collection removes can be brought back for this long |

One task detaches the logs of a store. So the routes that let it detach there have the same `spark`.

**Local hops.** Only the first store of a path may be in it twice: `[hub, hub]`,
`[hub, hub, analytics]`. The first hop then moves messages from the outbox of `hub` into a log of
`hub`, for consumers beside the producers.

**Streams.** Consumers of a store read a stream: the messages of the route's log without duplicates.
With `fifo` each sender's messages are in order. With `causal` no message comes before one that its
sender had received. With `total` all stores have one sequence. Causal order needs every message of
a group in each store where one of them is read. So causal routes from several stores share a
stream, with its topics, window and limits. Each origin must reach each store of the stream exactly
once:

```yaml
routes:
  chat-a: {topics: [chat], path: [a, a], order: causal, stream: chat}
  chat-a-b: {topics: [chat], path: [a, b], order: causal, stream: chat}
  chat-b: {topics: [chat], path: [b, b], order: causal, stream: chat}
  chat-b-a: {topics: [chat], path: [b, a], order: causal, stream: chat}
```

A `total` route has one sequencer, its first log. So no other route may have one of its topics.

Names of stores, routes and streams are a small letter and up to 29 more of `a-z 0-9 _ -`. Topics
are 1 to 48 of `a-z 0-9 _ . -`. Services and connections are 1 to 63 of `A-Z a-z 0-9 _ . -`, the
first a letter or a digit. Durations are whole seconds. An empty store, `limits`, `retries`,
`retention`, `spark` or `watch` has all its defaults.

The file is YAML in UTF-8: at most 1 MiB, 16 levels, and 50,000 keys and values, where each alias
counts as a copy. Unknown keys, repeated keys and tags are refused; `<<` is a key like any other.
Two routes may share stores, hops and topics, because each hop has its own log. Streams limit this.
"""

from relaybox.routes.loading import load_routes, parse_routes
from relaybox.routes.model import (
    AdoptedTable,
    Derivation,
    Export,
    Hop,
    KafkaSink,
    Limits,
    PayloadPlace,
    Retention,
    Retries,
    Route,
    Routes,
    SchemaCheck,
    Sink,
    Spark,
    Store,
    Watch,
    Webhook,
)

__all__ = [
    "AdoptedTable",
    "Derivation",
    "Export",
    "Hop",
    "KafkaSink",
    "Limits",
    "PayloadPlace",
    "Retention",
    "Retries",
    "Route",
    "Routes",
    "SchemaCheck",
    "Sink",
    "Spark",
    "Store",
    "Watch",
    "Webhook",
    "load_routes",
    "parse_routes",
]
