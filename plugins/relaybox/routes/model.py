"""Stores, routes and hops as relaybox.yaml describes them: values, and what follows from them. No I/O."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from relaybox.errors import ConfigurationError
from relaybox.routes.problems import show, suggest
from relaybox.routes.retention_rules import DETACH_AFTER_SECONDS
from relaybox.routes.spark_rules import SPARK_CONN_ID


@dataclass(frozen=True)
class Retention:
    """How long messages are kept after no reader needs them, None: forever.

    `stopped_consumer` says what a stopped consumer or hop means: keep, alarm or detach.
    Of a log: what only subscriptions need that stood still for `detach_after_seconds` is detached to the directory `detach_to`.
    """

    replay_window_seconds: int | None = None
    stopped_consumer: str = "alarm"
    detach_after_seconds: int = DETACH_AFTER_SECONDS
    detach_to: str | None = None


@dataclass(frozen=True)
class Watch:
    """How often the triggerer looks at a store.

    Attributes:
        interval_seconds: the time between two looks while there is work.
        max_interval_seconds: the longest time between two looks while there is none; equal to interval_seconds: always the same.
        backoff: the factor from one such time to the next.
        listen: the session stays open, and a NOTIFY ends the wait. False: it is closed before a long wait: the store may sleep.
    """

    interval_seconds: float = 1
    max_interval_seconds: float = 1
    backoff: float = 2.0
    listen: bool = True


@dataclass(frozen=True)
class AdoptedTable:
    """A table of an application whose rows are sent as messages.

    Attributes:
        schema: of the table, as the catalog has it.
        table: its name, as the catalog has it.
        mapped: what relaybox.yaml says of each part of a message, parsed (routes.adopt_rules); what it does not name has its default.
        on_unmapped: fail, or set_aside: what becomes of a row that can't be a message.
    """

    schema: str
    table: str
    mapped: Mapping[str, Any] = field(default_factory=dict, hash=False)
    on_unmapped: str = "fail"

    @property
    def name(self) -> str:
        """As a command takes it."""
        return f"{self.schema}.{self.table}"


@dataclass(frozen=True)
class Store:
    """One Postgres database: `service` for libpq, `connection` and `pool` for Airflow; `bind_senders`: each sender has its roles.

    `durability`: server, or provider with its `durability_reason`: commits are durable without fsync.
    `bind_subscriptions`: each subscription has its roles. `bind_topics`: each topic has its readers.
    `require_approval`: messages are given again only after an approval. None of these four: the file does not say, and the store
    stays as it is. `adopt`: tables of applications whose rows are sent.
    """

    name: str
    service: str
    connection: str
    bind_senders: bool | None = None
    pool: str = "default_pool"
    retention: Retention = Retention()
    watch: Watch = Watch()
    durability: str = "server"
    durability_reason: str | None = None
    bind_subscriptions: bool | None = None
    bind_topics: bool | None = None
    require_approval: bool | None = None
    adopt: tuple[AdoptedTable, ...] = ()


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
class Spark:
    """Where and how Spark works for a route.

    Attributes:
        conn_id: the Airflow connection, of type spark or spark_connect.
        conf: settings of Spark by name; no secret.
        deploy_mode: client, or cluster; for spark-submit.
        queue: of YARN, for spark-submit; None: that of the connection.
    """

    conn_id: str = SPARK_CONN_ID
    conf: Mapping[str, str] = field(default_factory=dict, hash=False)
    deploy_mode: str = "client"
    queue: str | None = None


@dataclass(frozen=True)
class Derivation:
    """How the messages of a route are made from those of a stream, at the first store of its path.

    Attributes:
        stream: whose messages it gets.
        function: package.module:function, which takes and returns a DataFrame; None: `sql` does it.
        sql: a query of Spark SQL over a table with the name of the stream; None: `function` does it.
        version: of what is derived. A higher one begins anew.
        start: where this version begins: earliest, latest, a stream position or a time; None: after what the one before has done.
        sender: of the messages that it makes.
        batch_rows: messages that the function gets at once, at most.
        row_errors: stop, or dead_letter: a message for which the function fails alone is set aside.
        dead_letter_limit: dead letters one after the other that end a run.
        changed_source: refuse, or warn, when the text of the source differs under the same version.
        next: a candidate for the next version, which `relaybox trials` tries; it runs once the store has promoted it. None: there is none.
        key: where relaybox.yaml has it: derive, or derive.next.
    """

    stream: str
    function: str | None
    sql: str | None
    version: int
    start: str | None
    sender: str
    batch_rows: int
    row_errors: str
    dead_letter_limit: int
    changed_source: str
    next: "Derivation | None" = None
    key: str = "derive"


@dataclass(frozen=True)
class Export:
    """A stream of a store that is written into a table of a lake.

    Attributes:
        name: of the export; it names its subscription, its DAG and its transactions in the table.
        stream: whose messages are written.
        store: that delivers them.
        format: of the table: delta, iceberg or parquet.
        table: what the catalog of Iceberg knows it as, namespace.name; None for other formats.
        path: of the table, without a slash at its end: a directory or a URI that the driver and each executor of Spark read and write.
        partition_by: none, day (of sent_at, in UTC), or key.
        start: where a new export begins: earliest, latest, a stream position or a time.
        batch_messages: messages of one commit, at most.
        file_messages: messages that one Spark task writes, at most: into one file, or one for each value that partitions.
        owner: of the DAG.
        retries: of the task.
        spark: where Spark works for it.
    """

    name: str
    stream: str
    store: Store
    format: str
    table: str | None
    path: str
    partition_by: str
    start: str
    batch_messages: int
    file_messages: int
    owner: str
    retries: Retries
    spark: Spark

    @property
    def subscription(self) -> str:
        """What the store knows the export as: retention keeps what it has not acknowledged."""
        return f"export.{self.name}"


@dataclass(frozen=True)
class PayloadPlace:
    """A place of large payloads, which `relaybox payloads` collects.

    Attributes:
        name: of the place.
        location: an absolute directory, or s3://bucket/prefix; without a slash at its end.
        grace_seconds: a transaction begins at most this long after it has written a file to which its message refers.
        keep_seconds: a file is kept at least this long after its write, whoever refers to it.
        trash_seconds: what a collection removes can be brought back for this long.
    """

    name: str
    location: str
    grace_seconds: int
    keep_seconds: int
    trash_seconds: int


@dataclass(frozen=True)
class Sink:
    """A stream of a store whose messages are delivered to an endpoint outside of the stores, at least once.

    Attributes:
        name: of the sink; it names its subscription and its DAG.
        store: that delivers the stream.
        stream: whose messages are delivered.
        topic: only messages of this topic; None: all of the stream.
        start: where a new subscription begins: earliest, latest, a stream position or a time.
        lanes: this many messages at once, at most.
        lane_by: sender or key: what keeps its order.
        hold_sender: later messages of a sender wait behind its dead letter.
        delayed: hold, pass or ignore: what becomes of the messages behind one that is not due.
        nack_limit: refusals of a message after which it is a dead letter.
        retry_seconds: between two attempts at a message that the endpoint refused.
        messages_per_second: at most, of all lanes of a process; None: no limit.
        open_after_failures: failures of the endpoint, one after the other, that open its circuit breaker.
        max_pause_seconds: the longest pause between two attempts at an endpoint that fails, unless it asks for more.
        owner: of the DAG.
        retries: of its task.
    """

    name: str
    store: Store
    stream: str
    topic: str | None
    start: str
    lanes: int
    lane_by: str
    hold_sender: bool
    delayed: str
    nack_limit: int
    retry_seconds: int
    messages_per_second: float | None
    open_after_failures: int
    max_pause_seconds: int
    owner: str
    retries: Retries

    @property
    def kind(self) -> str:
        """webhook or kafka: the command that runs it, and how its subscription and DAG begin."""
        raise NotImplementedError

    @property
    def endpoint(self) -> str:
        """What is shown of where the messages go."""
        raise NotImplementedError

    @property
    def attempt_seconds(self) -> int:
        """How long an attempt takes at most."""
        raise NotImplementedError

    @property
    def subscription(self) -> str:
        """What the store knows the sink as: retention keeps what it has not acknowledged."""
        return f"{self.kind}.{self.name}"

    @property
    def lease_seconds(self) -> int:
        """Of a new subscription: no other worker gets a message during an attempt and the wait for its rate."""
        rate_seconds = 0.0 if self.messages_per_second is None else self.lanes / self.messages_per_second
        return max(60, int(2 * self.attempt_seconds + 2 * rate_seconds) + 1)


@dataclass(frozen=True)
class Webhook(Sink):
    """Messages are sent to a URL, as the Standard Webhooks specification says.

    Attributes:
        url: without a login. Redirects are not followed.
        secrets: where the secrets are that sign: env:NAME or connection:ID. Each signs each message.
        connect_seconds, read_seconds, total_seconds: limits of an attempt: to connect, between two bytes, and of the whole.
        answer_bytes: of an answer, read at most.
        cloudevents: none; binary or structured: the mode of CloudEvents in which messages are sent.
    """

    url: str
    secrets: tuple[str, ...]
    connect_seconds: int
    read_seconds: int
    total_seconds: int
    answer_bytes: int
    cloudevents: str

    @property
    def kind(self) -> str:
        return "webhook"

    @property
    def endpoint(self) -> str:
        """The URL without its query, which may have a token."""
        return self.url.partition("?")[0]

    @property
    def attempt_seconds(self) -> int:
        return self.total_seconds


@dataclass(frozen=True)
class KafkaSink(Sink):
    """Messages are sent to topics of Kafka, by an idempotent producer.

    Attributes:
        bootstrap_servers: host:port, with commas in between.
        to_topic: in which `{topic}` stands for the topic of the message.
        key_by: sender or key: the key of the record, and so its partition.
        cloudevents: the headers of CloudEvents are sent too.
        properties: of librdkafka, by name; no secret.
        secrets: properties whose value is elsewhere: env:NAME or connection:ID.
        delivery_seconds: until the brokers have confirmed a message.
        batch_messages: sent and acknowledged together, at most.
    """

    bootstrap_servers: str
    to_topic: str
    key_by: str
    cloudevents: bool
    properties: Mapping[str, str] = field(hash=False)
    secrets: Mapping[str, str] = field(hash=False)
    delivery_seconds: int
    batch_messages: int

    @property
    def kind(self) -> str:
        return "kafka"

    @property
    def endpoint(self) -> str:
        """The brokers and the topic; `*` stands for the topic of the message."""
        if self.to_topic == "{topic}":
            return self.bootstrap_servers
        kind = "topics" if "{topic}" in self.to_topic else "topic"
        return f"{self.bootstrap_servers} ({kind} {self.to_topic.replace('{topic}', '*')})"

    @property
    def attempt_seconds(self) -> int:
        return self.delivery_seconds


@dataclass(frozen=True)
class RouteSettings:
    """What a route says about moving its messages. Each of its hops has the same settings.

    Attributes:
        stream: what consumers read the log of each hop as, at its destination, in this order.
        topics_by_subscription: topics that consumers subscribed to are carried beside `topics`.
    """

    topics: tuple[str, ...]
    policy: str
    topics_by_subscription: bool
    integrity: str
    runner: str
    owner: str
    order: str
    stream: str
    message_id_window: int
    limits: Limits
    retries: Retries
    spark: Spark


@dataclass(frozen=True)
class Hop(RouteSettings):
    """One edge of a route, with the route's settings.

    Attributes:
        name: the route's name and the hop's number: `flights/1`. Always matches `[a-z0-9_-]+/[0-9]+`.
        upstream: the hop whose log this one reads; None: it reads the outbox of `source`.
        downstream: the hop that reads this one's log; None: it is the route's last.
        origin: the first store of the route, where its messages are sent.
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
    upstream: str | None
    downstream: str | None
    processed_by: tuple[str, ...]
    log_retention: Retention
    outbox_retention: Retention


@dataclass(frozen=True)
class Route(RouteSettings):
    """A named path of stores for some topics, with its settings and its hops in order. `derivation`: what sends its messages."""

    name: str
    path: tuple[Store, ...]
    processed_by: tuple[str, ...]
    hops: tuple[Hop, ...]
    derivation: Derivation | None = None

    def derive_subscription_of(self, derivation: Derivation) -> str:
        """What a version of the derivation reads its stream as; the store's function begin_derivation() names it so."""
        return f"derive.{self.name}.v{derivation.version}"

    def require_derivation(self) -> Derivation:
        """What sends the messages of the route; a ConfigurationError if applications send them."""
        if self.derivation is None:
            raise ConfigurationError(
                f"relaybox.yaml: route {self.name} has no section derive: applications send its messages.",
                next_step="Name a route with derive, or write the section: see docs/deriving.md",
            )
        return self.derivation

    def require_next(self) -> Derivation:
        """The candidate for the next version; a ConfigurationError if relaybox.yaml has none."""
        candidate = self.require_derivation().next
        if candidate is None:
            raise ConfigurationError(
                f"relaybox.yaml: route {self.name} has no key derive.next: there is no version to try.",
                next_step="Write derive.next with version and one of with and sql: see docs/deriving.md",
            )
        return candidate


@dataclass(frozen=True)
class SchemaCheck:
    """Who checks the messages of a topic against its schemas, beside the producers.

    Attributes:
        outbox: refuse: the outbox of each store that the topic is sent from refuses a message that does not conform.
        first_hop: warn: the first store that such a message arrives in notes it, and delivers it. set_aside: no store delivers it.
    """

    outbox: str = "none"
    first_hop: str = "none"


@dataclass(frozen=True)
class Routes:
    """What a relaybox.yaml says; `path` is the file's absolute path, and `text` what was read there."""

    stores: Mapping[str, Store]
    routes: Mapping[str, Route]
    path: Path
    text: str = field(repr=False, compare=False)
    exports: Mapping[str, Export] = field(default_factory=dict)
    schemas: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Of each topic, the files with its JSON Schemas: version 1 first; relative to the folder of `path`."""
    schema_checks: Mapping[str, SchemaCheck] = field(default_factory=dict)
    """By topic."""
    webhooks: Mapping[str, Webhook] = field(default_factory=dict)
    kafka: Mapping[str, KafkaSink] = field(default_factory=dict)
    payloads: Mapping[str, PayloadPlace] = field(default_factory=dict)

    @property
    def hops(self) -> tuple[Hop, ...]:
        """Every hop, in the order of the file and along each path."""
        return tuple(hop for route in self.routes.values() for hop in route.hops)

    def first_hops(self, topic: str) -> tuple[Hop, ...]:
        """The hops that bring messages of a topic, or may bring them, from the outbox that they are sent in."""
        return tuple(hop for hop in self.hops if hop.upstream is None and (topic in hop.topics or hop.topics_by_subscription))

    def detaching_spark(self, store: Store) -> Spark:
        """Where Spark detaches logs of a store: as for the routes that let it; the rules of the file make them agree."""
        detached = (hop for hop in self.hops if hop.destination == store and hop.log_retention.stopped_consumer == "detach")
        return next((hop.spark for hop in detached), Spark())

    @property
    def used_stores(self) -> tuple[Store, ...]:
        """The stores that a route passes through. Another one may be prepared before its first route, or keep what a route left there."""
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

    def hops_of(self, name: str) -> tuple[Hop, ...]:
        """The hops of a route, along its path, or the one hop of that name; a ConfigurationError as of route() and hop()."""
        return (self.hop(name),) if "/" in name else self.route(name).hops

    def export(self, name: str) -> Export:
        """The export of that name; a ConfigurationError that names the nearest one if there is none."""
        return self.exports[self._known("export", name, self.exports)]

    @property
    def sinks(self) -> tuple[Sink, ...]:
        """Every webhook and every sink of Kafka, in the order of the file."""
        return (*self.webhooks.values(), *self.kafka.values())

    def webhook(self, name: str) -> Webhook:
        """The webhook of that name; a ConfigurationError that names the nearest one if there is none."""
        return self.webhooks[self._known("webhook", name, self.webhooks)]

    def kafka_sink(self, name: str) -> KafkaSink:
        """The sink of Kafka of that name; a ConfigurationError that names the nearest one if there is none."""
        return self.kafka[self._known("sink of Kafka", name, self.kafka)]

    def payload_place(self, name: str) -> PayloadPlace:
        """The place of large payloads of that name; a ConfigurationError that names the nearest one if there is none."""
        return self.payloads[self._known("place of payloads", name, self.payloads)]

    def _known(self, kind: str, name: str, known: Collection[str]) -> str:
        if name not in known:
            raise ConfigurationError(f"{self.path}: there is no {kind} {show(name)}.", next_step=suggest(name, known))
        return name
