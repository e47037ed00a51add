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
| `pool` | `default_pool` | the Airflow pool whose slots tasks on this store take; it must exist, or they wait for ever |
| `bind_senders` | false | true or false: whether a database role may insert only messages of senders that it is bound to |
| `retention` | | as of routes: for all that is kept in this store, unless a route says otherwise |

**`routes.<route>`**: two stores make one hop, three make two. Hops are numbered from 1: `flights/1` reads the outbox of
`airline`, `flights/2` reads the log that `flights/1` filled in `hub`.

| key | default | rule |
|---|---|---|
| `topics` | | one or more, each once |
| `path` | | two or more stores of this file, each once: a loop would carry a message round for ever; see local hops |
| `topics_by_subscription` | false | true or false: whether subscribing to a topic that no stream of a store carries adds it to this route |
| `policy` | `cascade` | settled when the next store has it (`received`), the next hop settled it (`cascade`), or see `processed_by` |
| `processed_by` | | for `policy: processed`: subscriptions of the last store; it settles what all have acknowledged, and cascades |
| `integrity` | `count` | what a slice is checked by when it arrives: its number of rows (`count`), or their content too (`checksum`) |
| `runner` | `auto` | who moves and proves in Airflow: the task (`threads`), Spark (`spark`), or as `limits.spark_from_rows` says (`auto`) |
| `owner` | `relaybox` | who looks after the route: the owner of its DAGs |
| `order` | `none` | what consumers can rely on: `none`, `fifo`, `causal` or `total`; see streams |
| `stream` | the route's name | the name that consumers read by, a name like a route's; only causal routes may share one |
| `message_id_window` | 0 | 0 to 1000000: a message whose `message_id` stood within so many positions before it is a duplicate; 0: none is |

**`routes.<route>.limits`**

| key | default | rule |
|---|---|---|
| `batch_rows` | 1000000 | 1 to 10000000: how many messages one batch has at most |
| `slice_rows` | 100000 | 1 to `batch_rows` (also by default): how many one task copies; a batch has at most 10000 slices |
| `slice_timeout_seconds` | 900 | 1 to 86400: how long one try at a slice may take |
| `linger_seconds` | 0 | 0 to 3600: how long an empty hop waits for more messages before the transfer ends |
| `spark_from_rows` | 50000 | 1 to 1000000000: with `runner: auto`, so many messages to move or compare are worth a Spark application |
| `run_timeout_seconds` | 21600 | 60 to 604800: how long one try of a transfer, or of a proof, may take under Airflow before it is ended |
| `target_lag_seconds` | 600 | 1 to 604800: how long a message may wait at most; a hop that is later is alarmed |
| `holdback_rows` | 10000 | 1 to 1000000: how many messages of one sender a store holds back until a gap fills; then that sender waits |
| `fragments` | 1000000 | 100 to 100000000: how many pieces the set of one sender's indexes may fall into; then that sender waits |

**`routes.<route>.retries`**, of the tasks of its hops

| key | default | rule |
|---|---|---|
| `attempts` | 5 | 1 to 100: how often a task is tried, the first time included |
| `delay_seconds` | 10 | 0 to 86400: before the second try |
| `backoff` | 2.0 | 1 to 10: each delay is so many times the one before |
| `max_delay_seconds` | 300 | `delay_seconds` to 86400: no delay is longer; at least `delay_seconds` by default |

**`routes.<route>.retention`**, of the outbox and the logs that the route fills

| key | default | rule |
|---|---|---|
| `replay_window_seconds` | that of the store, else all is kept | 0 to 315360000: how long a message stays after it was delivered |
| `stopped_consumer` | that of the store, else `alarm` | who keeps old segments: `alarm`, `keep` in silence, or `detach` from the log |
| `detach_after_seconds` | that of the store, else 86400 | how long a subscription stands still before what only it needs is detached |
| `detach_to` | that of the store | for `stopped_consumer: detach`: a directory or a URI that every Spark executor reads and writes |

With `stopped_consumer: detach`, which wants a replay window too, the oldest segments of a log that nobody but stopped subscriptions
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

import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

from relaybox.errors import ConfigurationError
from relaybox.route_file import read_route_file
from relaybox.route_problems import show, suggest
from relaybox.route_rules import DETACH_AFTER_SECONDS, FileRules, RetentionRules, RouteRules, StoreRules, check_rules


@dataclass(frozen=True)
class Retention:
    """How long messages that nobody needs stay, None: for ever; and what a consumer or hop that stopped means: keep | alarm | detach.

    Of a log: what only subscriptions need that stood still for `detach_after_seconds` is detached to the directory `detach_to`.
    """

    replay_window_seconds: int | None = None
    stopped_consumer: str = "alarm"
    detach_after_seconds: int = DETACH_AFTER_SECONDS
    detach_to: str | None = None


@dataclass(frozen=True)
class Store:
    """One Postgres database: `service` for libpq, `connection` and `pool` for Airflow; `bind_senders`: each sender has its roles."""

    name: str
    service: str
    connection: str
    bind_senders: bool = False
    pool: str = "default_pool"
    retention: Retention = Retention()


@dataclass(frozen=True)
class Limits:
    """How much a hop moves at once; `slice_rows` is never above `batch_rows`."""

    batch_rows: int
    slice_rows: int
    slice_timeout_seconds: int
    linger_seconds: int
    spark_from_rows: int
    run_timeout_seconds: int
    target_lag_seconds: int
    holdback_rows: int
    fragments: int


@dataclass(frozen=True)
class Retries:
    """How often a task of a hop is tried, the first time included, and how long it waits in between."""

    attempts: int
    delay_seconds: int
    backoff: float
    max_delay_seconds: int


@dataclass(frozen=True)
class Hop:
    """One edge of a route.

    Attributes:
        name: the route's name and the hop's number: `flights/1`. Always matches `[a-z0-9_-]+/[0-9]+`.
        upstream: the hop whose log this one reads; None: it reads the outbox of `source`.
        downstream: the hop that reads this one's log; None: it is the route's last.
        origin: the first store of the route, where its messages are sent.
        stream: what consumers read the hop's log as, at its destination, in this order.
        topics_by_subscription: topics that consumers subscribed to are carried beside `topics`.
        processed_by: subscriptions at the destination whose acknowledgement settles the hop; of a route's last hop, or none.
        log_retention: of the hop's log, at its destination.
        outbox_retention: of the messages that a first hop reads, at its source.
    """

    name: str
    route: str
    number: int
    source: Store
    destination: Store
    origin: Store
    topics: tuple[str, ...]
    upstream: str | None
    downstream: str | None
    policy: str
    topics_by_subscription: bool
    processed_by: tuple[str, ...]
    integrity: str
    runner: str
    owner: str
    order: str
    stream: str
    message_id_window: int
    limits: Limits
    retries: Retries
    log_retention: Retention
    outbox_retention: Retention


@dataclass(frozen=True)
class Route:
    """A named path of stores for some topics, with its hops in order."""

    name: str
    topics: tuple[str, ...]
    path: tuple[Store, ...]
    policy: str
    topics_by_subscription: bool
    processed_by: tuple[str, ...]
    integrity: str
    runner: str
    owner: str
    order: str
    stream: str
    message_id_window: int
    limits: Limits
    retries: Retries
    hops: tuple[Hop, ...]


@dataclass(frozen=True)
class Routes:
    """What a relaybox.yaml says; `path` is the file's absolute path."""

    stores: Mapping[str, Store]
    routes: Mapping[str, Route]
    path: Path

    @property
    def hops(self) -> tuple[Hop, ...]:
        """Every hop, in the order of the file and along each path."""
        return tuple(hop for route in self.routes.values() for hop in route.hops)

    @property
    def used_stores(self) -> tuple[Store, ...]:
        """The stores that a route passes through. Another one is no error: it may be prepared before its first route."""
        used = {store for route in self.routes.values() for store in route.path}
        return tuple(store for store in self.stores.values() if store in used)

    def store(self, name: str) -> Store:
        """The store of that name; a ConfigurationError that names the nearest one if there is none."""
        return self.stores[self._known("store", name, self.stores)]

    def route(self, name: str) -> Route:
        """The route of that name; a ConfigurationError that names the nearest one if there is none."""
        return self.routes[self._known("route", name, self.routes)]

    def hop(self, name: str) -> Hop:
        """The hop of that name, as in `flights/1`; a ConfigurationError that names the nearest one if there is none."""
        hops = {hop.name: hop for hop in self.hops}
        return hops[self._known("hop", name, hops)]

    def _known(self, kind: str, name: str, known: Collection[str]) -> str:
        if name not in known:
            raise ConfigurationError(f"{self.path}: there is no {kind} {show(name)}.", next_step=suggest(name, known))
        return name


def load_routes(path: str | Path | None = None) -> Routes:
    """Reads and checks a relaybox.yaml. Connects to nothing.

    Args:
        path: the file; by default $RELAYBOX_CONFIG, or relaybox.yaml in the working directory if that is unset or empty.

    Raises:
        ConfigurationError: everything that is wrong in the file, one line per problem; a retry does not help.
    """
    file = Path(path or os.environ.get("RELAYBOX_CONFIG") or "relaybox.yaml").absolute()
    return _routes(check_rules(read_route_file(file)), file)


def _routes(rules: FileRules, path: Path) -> Routes:
    stores = {name: _store(name, store) for name, store in rules.stores.items()}
    routes = {name: _route(name, route, stores) for name, route in rules.routes.items()}
    return Routes(stores, routes, path)


def _store(name: str, rules: StoreRules) -> Store:
    connection = rules.connection or f"relaybox_{name}"
    return Store(
        name,
        service=rules.service or name,
        connection=connection,
        bind_senders=rules.bind_senders,
        pool=rules.pool,
        retention=_retention(rules.retention, Retention()),
    )


def _retention(rules: RetentionRules, otherwise: Retention) -> Retention:
    return Retention(
        otherwise.replay_window_seconds if rules.replay_window_seconds is None else rules.replay_window_seconds,
        rules.stopped_consumer or otherwise.stopped_consumer,
        otherwise.detach_after_seconds if rules.detach_after_seconds is None else rules.detach_after_seconds,
        rules.detach_to or otherwise.detach_to,
    )


def _route(name: str, rules: RouteRules, stores: Mapping[str, Store]) -> Route:
    route = Route(
        name=name,
        topics=tuple(rules.topics),
        path=tuple(stores[store] for store in rules.path),
        policy=rules.policy,
        topics_by_subscription=rules.topics_by_subscription,
        processed_by=tuple(rules.processed_by),
        integrity=rules.integrity,
        runner=rules.runner,
        owner=rules.owner,
        order=rules.order,
        stream=rules.stream or name,
        message_id_window=rules.message_id_window,
        limits=_limits(rules),
        retries=_retries(rules),
        hops=(),
    )
    return replace(route, hops=_hops(route, rules.retention))


def _limits(rules: RouteRules) -> Limits:
    limits = rules.limits
    return Limits(
        batch_rows=limits.batch_rows,
        slice_rows=min(limits.slice_rows, limits.batch_rows),  # only the default can be above: the rules refuse another
        slice_timeout_seconds=limits.slice_timeout_seconds,
        linger_seconds=limits.linger_seconds,
        spark_from_rows=limits.spark_from_rows,
        run_timeout_seconds=limits.run_timeout_seconds,
        target_lag_seconds=limits.target_lag_seconds,
        holdback_rows=limits.holdback_rows,
        fragments=limits.fragments,
    )


def _retries(rules: RouteRules) -> Retries:
    retries = rules.retries
    return Retries(
        attempts=retries.attempts,
        delay_seconds=retries.delay_seconds,
        backoff=retries.backoff,
        max_delay_seconds=max(retries.max_delay_seconds, retries.delay_seconds),  # as above, for the default alone
    )


def _hops(route: Route, retention: RetentionRules) -> tuple[Hop, ...]:
    return tuple(
        _hop(route, number, source, destination, retention)
        for number, (source, destination) in enumerate(pairwise(route.path), start=1)
    )


def _hop(route: Route, number: int, source: Store, destination: Store, retention: RetentionRules) -> Hop:
    return Hop(
        name=f"{route.name}/{number}",
        route=route.name,
        number=number,
        source=source,
        destination=destination,
        origin=route.path[0],
        topics=route.topics,
        upstream=f"{route.name}/{number - 1}" if number > 1 else None,
        downstream=f"{route.name}/{number + 1}" if number + 1 < len(route.path) else None,
        policy=route.policy,
        topics_by_subscription=route.topics_by_subscription,
        processed_by=route.processed_by if number + 1 == len(route.path) else (),
        integrity=route.integrity,
        runner=route.runner,
        owner=route.owner,
        order=route.order,
        stream=route.stream,
        message_id_window=route.message_id_window,
        limits=route.limits,
        retries=route.retries,
        log_retention=_retention(retention, destination.retention),
        outbox_retention=_of_an_outbox(_retention(retention, source.retention)),
    )


def _of_an_outbox(retention: Retention) -> Retention:
    """Nothing is detached from it: who reads it is a hop, and a hop that stopped is alarmed."""
    stopped_consumer = "alarm" if retention.stopped_consumer == "detach" else retention.stopped_consumer
    return Retention(retention.replay_window_seconds, stopped_consumer)
