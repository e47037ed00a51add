"""relaybox.yaml: what a good file means, and that a bad one is answered with everything that is wrong in it."""

import pickle
import re
from pathlib import Path

import pytest
import yaml

from relaybox.adoption.mapping import complete_map, write_map
from relaybox.errors import ConfigurationError
from relaybox.routes import Limits, Retention, Retries, Routes, Spark, Store, Watch, load_routes
from relaybox.routes.adopt_rules import BrokenMap, parse_map_options
from relaybox.routes.rules import AdoptRules, DeriveRules, ExportRules, KafkaRules, WebhookRules, fields_of

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "relaybox.yaml"
KNOWN = "Known: derive, integrity, limits, message_id_window, order, owner, path, policy, processed_by, retention, retries, runner, and 4 more"
SECRETS_BELONG = "no secret in this file: set it in spark-defaults.conf where Spark starts, or on the Spark Connect server"
SMALLEST = """\
stores:
  airline: {}
  hub: {}
  analytics: {}
routes:
  flights:
    topics: [flights]
    path: [airline, hub, analytics]
"""


def load(tmp_path: Path, content: str | bytes) -> Routes:
    path = tmp_path / "relaybox.yaml"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return load_routes(path)


def problems(tmp_path: Path, content: str | bytes) -> list[str]:
    """The message's lines after the first, without the file name: `line: key: text`."""
    with pytest.raises(ConfigurationError) as caught:
        load(tmp_path, content)
    heading, *lines = str(caught.value).split("\n")
    assert re.fullmatch(r"(1 problem|\d+ problems) in .*/relaybox\.yaml", heading)
    return [line.removeprefix("relaybox.yaml:") for line in lines]


def section(text: str) -> str:
    """The smallest file with one more line in its route, which is line 9."""
    return f"{SMALLEST}    {text}\n"


def test_smallest_file_gets_every_default(tmp_path: Path) -> None:
    """Stores, topics and a path are enough."""
    routes = load(tmp_path, SMALLEST)
    route = routes.route("flights")
    assert routes.store("hub") == Store("hub", service="hub", connection="relaybox_hub")
    assert route.topics == ("flights",)
    assert [store.name for store in route.path] == ["airline", "hub", "analytics"]
    assert (route.policy, route.runner, route.owner) == ("cascade", "auto", "relaybox")
    assert (route.order, route.stream, route.message_id_window) == ("none", "flights", 0)
    assert route.limits == Limits(
        batch_rows=2_000_000,
        slice_rows=100_000,
        slice_timeout_seconds=900,
        linger_seconds=0,
        spark_from_rows=50_000,
        run_timeout_seconds=21_600,
        target_lag_seconds=600,
        holdback_rows=10_000,
        fragments=1_000_000,
    )
    assert route.retries == Retries(attempts=5, delay_seconds=10, backoff=2.0, max_delay_seconds=300)
    assert route.spark == Spark(conn_id="spark_default", conf={}, deploy_mode="client", queue=None)
    assert routes.path == tmp_path / "relaybox.yaml"


def test_path_becomes_a_chain_of_hops(tmp_path: Path) -> None:
    """The first hop reads the outbox; each other reads the log of the one before; all share the route's settings."""
    routes = load(tmp_path, SMALLEST)
    first, second = routes.hops
    assert (first.name, first.number, first.source.name, first.destination.name) == ("flights/1", 1, "airline", "hub")
    assert (first.upstream, first.downstream) == (None, "flights/2")
    assert (second.name, second.number, second.source.name, second.destination.name) == ("flights/2", 2, "hub", "analytics")
    assert (second.upstream, second.downstream) == ("flights/1", None)
    route = routes.route("flights")
    assert route.hops == (first, second)
    for hop in route.hops:
        assert (hop.route, hop.topics, hop.policy) == (route.name, route.topics, route.policy)
        assert (hop.limits, hop.retries) == (route.limits, route.retries)
        assert (hop.order, hop.stream, hop.message_id_window) == (route.order, route.stream, route.message_id_window)
        assert hop.origin == routes.store("airline")


def test_written_values_replace_defaults(tmp_path: Path) -> None:
    """Each value of the file arrives where it belongs."""
    routes = load(
        tmp_path,
        """\
        stores: {a: {service: db-a, connection: Conn.A, bind_senders: true, pool: heavy}, b: }
        routes:
          r:
            topics: [x, y.z, 2026-11-21]
            path: [a, b]
            policy: received
            runner: threads
            owner: Data team
            order: fifo
            stream: all-of-r
            message_id_window: 1000000
            limits:
              {batch_rows: 500, slice_rows: 50, slice_timeout_seconds: 7, linger_seconds: 3, spark_from_rows: 9,
               run_timeout_seconds: 60, target_lag_seconds: 2,
               holdback_rows: 1, fragments: 100}
            retries: {attempts: 2, delay_seconds: 4, backoff: 3, max_delay_seconds: 8}
            spark:
              {conn_id: big, conf: {spark.executor.memory: 2g, spark.hadoop.fs.a/b: ""}, deploy_mode: cluster, queue: root.etl}
        """,
    )
    hop = routes.hop("r/1")
    assert hop.source == Store("a", service="db-a", connection="Conn.A", bind_senders=True, pool="heavy")
    assert hop.destination == Store("b", service="b", connection="relaybox_b")
    assert (hop.topics, hop.policy, hop.runner, hop.owner) == (("x", "y.z", "2026-11-21"), "received", "threads", "Data team")
    assert (hop.order, hop.stream, hop.message_id_window) == ("fifo", "all-of-r", 1_000_000)
    assert hop.limits == Limits(
        batch_rows=500,
        slice_rows=50,
        slice_timeout_seconds=7,
        linger_seconds=3,
        spark_from_rows=9,
        run_timeout_seconds=60,
        target_lag_seconds=2,
        holdback_rows=1,
        fragments=100,
    )
    assert hop.retries == Retries(attempts=2, delay_seconds=4, backoff=3.0, max_delay_seconds=8)
    assert hop.spark == Spark("big", {"spark.executor.memory": "2g", "spark.hadoop.fs.a/b": ""}, "cluster", "root.etl")


def test_a_causal_route_has_smaller_batches_unless_it_says_otherwise(tmp_path: Path) -> None:
    """A decision on two million clocks would not end within the limit of a statement, and a batch is never cut again."""
    causal = load(tmp_path, section("order: causal")).hop("flights/1").limits
    assert (causal.batch_rows, causal.slice_rows) == (200_000, 100_000)
    assert (
        load(tmp_path, section("order: causal\n    limits: {batch_rows: 2000000}")).hop("flights/1").limits.batch_rows
        == 2_000_000
    )
    assert load(tmp_path, section("order: fifo")).hop("flights/1").limits.batch_rows == 2_000_000


def test_defaults_follow_the_value_they_are_bound_to(tmp_path: Path) -> None:
    """A small batch_rows or a long delay_seconds alone contradicts nothing."""
    hop = load(tmp_path, section("limits: {batch_rows: 10}\n    retries: {delay_seconds: 600}")).hop("flights/1")
    assert hop.limits.slice_rows == 10
    assert hop.retries.max_delay_seconds == 600


def test_empty_sections_have_their_defaults(tmp_path: Path) -> None:
    """`limits:` and `retries:` with everything commented out are no error."""
    assert load(tmp_path, section("limits:\n    retries:")) == load(tmp_path, SMALLEST)


def test_empty_route_is_told_what_it_needs(tmp_path: Path) -> None:
    """A route has no default for where it leads."""
    assert problems(tmp_path, f"{SMALLEST}  next:\n  last: 5\n") == [
        "9: routes.next.path: missing; expected a list of two or more stores",
        "9: routes.next.topics: missing; expected a list of one or more topics",
        (
            "10: routes.last: got 5; expected a section with the keys topics, path, topics_by_subscription, policy, processed_by, integrity, runner, owner, order, "
            "stream, message_id_window, limits, retries, retention, spark, derive"
        ),
    ]


def test_alias_stands_for_a_copy(tmp_path: Path) -> None:
    """Two routes may share a section by an anchor."""
    routes = load(
        tmp_path,
        """\
        stores: {a: {}, b: {}}
        routes:
          r: {topics: [x], path: [a, b], limits: &small {batch_rows: 10}}
          s: {topics: [y], path: [b, a], limits: *small}
        """,
    )
    assert routes.hop("s/1").limits == routes.hop("r/1").limits


def test_routes_may_share_topics_and_stores(tmp_path: Path) -> None:
    """Each hop has a log of its own: one topic may take two ways from one outbox, even to the same store."""
    routes = load(tmp_path, f"{SMALLEST}  again: {{topics: [flights], path: [airline, hub]}}\n")
    assert [hop.name for hop in routes.hops] == ["flights/1", "flights/2", "again/1"]


def test_a_subscription_settles_routes_of_one_stream(tmp_path: Path) -> None:
    """Its name is open in one stream of a store. At another store it may be named again."""
    processed = "policy: processed, processed_by: [billing]"
    first = f"  first: {{topics: [a], path: [airline, hub], {processed}}}\n"
    load(tmp_path, f"{SMALLEST}{first}  other: {{topics: [b], path: [hub, airline], {processed}}}\n")
    with pytest.raises(
        ConfigurationError, match=r'routes.other.processed_by\[0\]: got "billing", which route first names at store hub'
    ):
        load(tmp_path, f"{SMALLEST}{first}  other: {{topics: [b], path: [airline, hub], {processed}}}\n")


def test_unused_store_is_named_but_no_error(tmp_path: Path) -> None:
    """A store may be prepared before its first route."""
    routes = load(tmp_path, SMALLEST.replace("routes:", "  spare: {}\nroutes:"))
    assert "spare" in routes.stores
    assert "spare" not in [store.name for store in routes.used_stores]


def test_unknown_names_are_answered_with_the_nearest(tmp_path: Path) -> None:
    """A mistyped hop, route or store of a command gets an error that helps."""
    routes = load(tmp_path, SMALLEST)
    with pytest.raises(ConfigurationError, match=r'no hop "flihgts/1"\. Did you mean flights/1\? Known: flights/1, flights/2'):
        routes.hop("flihgts/1")
    with pytest.raises(ConfigurationError, match=r'no route "fligths"\. Did you mean flights\?'):
        routes.route("fligths")
    with pytest.raises(ConfigurationError, match=r'no store "x\\ny"\. Known: airline, analytics, hub'):
        routes.store("x\ny")


def test_hops_can_be_sent_to_executors(tmp_path: Path) -> None:
    """Routes survive pickling."""
    routes = load(tmp_path, SMALLEST)
    assert pickle.loads(pickle.dumps(routes)) == routes


def test_file_is_found_by_environment_then_by_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """$RELAYBOX_CONFIG wins over ./relaybox.yaml; set to nothing it counts as unset."""
    expected = load(tmp_path, SMALLEST)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RELAYBOX_CONFIG", raising=False)
    assert load_routes() == expected
    monkeypatch.setenv("RELAYBOX_CONFIG", "")
    assert load_routes() == expected
    monkeypatch.setenv("RELAYBOX_CONFIG", str(EXAMPLE))
    assert load_routes().path == EXAMPLE


def test_a_route_keeps_as_its_stores_do_unless_it_says_otherwise(tmp_path: Path) -> None:
    """The outbox by its own store, each log by the store where it is; key by key."""
    routes = load(
        tmp_path,
        """\
        stores: {a: {}, b: {retention: {replay_window_seconds: 60, stopped_consumer: keep}}}
        routes:
          r: {topics: [x], path: [a, b]}
          s: {topics: [y], path: [a, b], retention: {replay_window_seconds: 0}}
        """,
    )
    first, second = routes.hop("r/1"), routes.hop("s/1")
    assert (first.outbox_retention, first.log_retention) == (Retention(None, "alarm"), Retention(60, "keep"))
    assert (second.outbox_retention, second.log_retention) == (Retention(0, "alarm"), Retention(0, "keep"))


def test_a_log_is_detached_where_its_route_or_store_says_so_and_an_outbox_never(tmp_path: Path) -> None:
    """Key by key, too; a hop that reads an outbox and stops is alarmed."""
    routes = load(
        tmp_path,
        """\
        stores:
          a: {retention: {stopped_consumer: detach, detach_to: /srv/a, replay_window_seconds: 0}}
          b: {retention: {detach_to: "s3a://bucket/b"}}
          c: {}
        routes:
          r: {topics: [x], path: [a, b, c]}
          s: {topics: [y], path: [a, b], retention: {stopped_consumer: detach, replay_window_seconds: 5}}
          t: {topics: [z], path: [a, a], retention: {detach_after_seconds: 60}}
        """,
    )
    assert routes.hop("r/1").outbox_retention == Retention(0, "alarm")
    assert routes.hop("r/1").log_retention == Retention(None, "alarm", detach_to="s3a://bucket/b")
    assert routes.hop("s/1").log_retention == Retention(5, "detach", 86_400, "s3a://bucket/b")
    assert routes.hop("t/1").log_retention == Retention(0, "detach", 60, "/srv/a")


def test_example_shows_every_key_and_every_default(tmp_path: Path) -> None:
    """docs/examples/relaybox.yaml is complete, and what it calls a default is one."""
    document = yaml.safe_load(EXAMPLE.read_text())
    example, smallest = load_routes(EXAMPLE), load(tmp_path, SMALLEST)
    (adopted,) = example.stores["airline"].adopt
    columns = ("id", "aggregatetype", "aggregateid", "type", "payload")
    assert complete_map(adopted.mapped, columns, "airline") == complete_map({}, columns, "airline")
    assert document["stores"]["airline"]["adopt"]["public.outboxevent"].keys() == fields_of(AdoptRules).keys()
    without = {**document, "stores": {**document["stores"], "airline": {**document["stores"]["airline"], "adopt": None}}}
    assert load(tmp_path, yaml.safe_dump(without)).route("flights") == smallest.route("flights")
    assert document["stores"]["airline"].keys() == {
        "service",
        "connection",
        "pool",
        "bind_senders",
        "bind_subscriptions",
        "bind_topics",
        "require_approval",
        "durability",
        "durability_reason",
        "retention",
        "watch",
        "adopt",
    }
    assert document["routes"]["flights"].keys() == {
        "topics", "path", "topics_by_subscription", "policy", "processed_by", "integrity", "runner", "owner", "order", "stream", "message_id_window", "limits", "retries",
        "retention", "spark",
    }  # fmt: skip
    assert document["stores"]["airline"]["watch"].keys() == Watch.__dataclass_fields__.keys()
    assert document["stores"]["airline"]["retention"].keys() == Retention.__dataclass_fields__.keys()
    assert document["routes"]["flights"]["retention"].keys() == Retention.__dataclass_fields__.keys()
    assert document["routes"]["flights"]["limits"].keys() == Limits.__dataclass_fields__.keys()
    assert document["routes"]["flights"]["retries"].keys() == Retries.__dataclass_fields__.keys()
    assert document["routes"]["flights"]["spark"].keys() == Spark.__dataclass_fields__.keys()
    derive, said = document["routes"]["delays"]["derive"], {"from": "flights", "with": "delays:late", "version": 1}
    assert derive.keys() == fields_of(DeriveRules).keys()
    document["routes"]["delays"]["derive"] = said
    (tmp_path / "relaybox.yaml").write_text(yaml.safe_dump(document))
    assert example.route("delays") == load_routes(tmp_path / "relaybox.yaml").route("delays")
    assert document["exports"]["flights_lake"].keys() == fields_of(ExportRules).keys()
    document["exports"]["flights_lake"] = {"stream": "flights", "store": "hub", "to": "delta", "path": "/srv/lake/flights"}
    (tmp_path / "relaybox.yaml").write_text(yaml.safe_dump(document))
    assert example.export("flights_lake") == load_routes(tmp_path / "relaybox.yaml").export("flights_lake")
    assert document["webhooks"]["billing"].keys() == fields_of(WebhookRules).keys()
    assert document["kafka"]["warehouse"].keys() == fields_of(KafkaRules).keys()
    read = {"store": "analytics", "stream": "flights"}
    document["webhooks"]["billing"] = {key: document["webhooks"]["billing"][key] for key in ("url", "secrets")} | read
    document["kafka"]["warehouse"] = {"bootstrap_servers": "kafka-1:9092,kafka-2:9092"} | read
    (tmp_path / "relaybox.yaml").write_text(yaml.safe_dump(document))
    assert example.webhook("billing") == load_routes(tmp_path / "relaybox.yaml").webhook("billing")
    assert example.kafka_sink("warehouse") == load_routes(tmp_path / "relaybox.yaml").kafka_sink("warehouse")


@pytest.mark.parametrize(
    ("routes", "looping"),
    [
        ("flights: {topics: [flights], path: [a, b]}, d: {topics: [d], path: [b, c], derive: flights}", []),
        (
            "f: {topics: [f], path: [a, b]}, d: {topics: [d], path: [b, a], derive: f}, e: {topics: [f], path: [a, c], derive: d}",
            ["d", "e"],
        ),
        ("flights: {topics: [flights], path: [b, b]}, d: {topics: [flights], path: [b, c], derive: flights}", ["d"]),
        (
            "x: {topics: [x], path: [a, b]}, one: {topics: [t], path: [b, a], derive: x}, two: {topics: [x], path: [a, c], derive: one}",
            ["one", "two"],
        ),
        (
            "x: {topics: [x], path: [a, b]}, one: {topics: [t], path: [b, a], derive: x}, two: {topics: [u], path: [a, c], derive: one}",
            [],
        ),
        ("s: {topics: [d], path: [a, b]}, d: {topics: [d], path: [b, a], derive: s}", []),
    ],
    ids=["chain", "circle", "own topic", "topic of another", "another topic", "same topic, another store"],
)
def test_derived_messages_that_come_back_to_their_stream_are_refused(tmp_path: Path, routes: str, looping: list[str]) -> None:
    """By any way of routes and derivations: each message would make more for ever."""
    derive = re.sub(r"derive: (\w+)", r"derive: {from: \1, with: 'm:f', version: 1}", routes)
    text = f"stores: {{a: {{}}, b: {{}}, c: {{}}}}\nroutes: {{{derive}}}\n"
    if not looping:
        load(tmp_path, text)
        return
    told = problems(tmp_path, text)
    assert [re.search(r"routes\.(\w+)\.derive\.from: .* expected no loop", one)[1] for one in told] == looping  # type: ignore[index]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("stream: flights, topic: flights", "expected no key topic: the stream has no other one"),
        ("stream: both, topic: both", "expected no key topic, for all topics of the stream, or another name for stream both"),
        ("stream: both, topic: flights", "expected another name for stream flights (key stream of its routes)"),
    ],
    ids=["only topic", "own stream", "another stream"],
)
@pytest.mark.parametrize(
    ("section", "endpoint"),
    [("webhooks", "url: 'https://b.example.com', secrets: ['env:A']"), ("kafka", "bootstrap_servers: 'kafka:9092'")],
)
def test_a_topic_of_a_sink_that_has_the_name_of_a_stream_is_refused(
    tmp_path: Path, section: str, endpoint: str, source: str, expected: str
) -> None:
    """A subscription to that name is one to the stream: the sink would get other messages, and its later runs would be refused."""
    routes = SMALLEST + "  both: {topics: [both, flights, bags], path: [analytics, hub]}\n"
    (told,) = problems(tmp_path, f"{routes}{section}:\n  one: {{store: hub, {source}, {endpoint}}}\n")
    assert f"{section}.one.topic: got " in told
    assert "is the name of a stream of store hub too: the sink would read that stream; " in told
    assert expected in told
    accepted = load(tmp_path, f"{routes}{section}:\n  one: {{store: hub, stream: both, topic: bags, {endpoint}}}\n")
    assert [sink.topic for sink in accepted.sinks] == ["bags"]


def test_a_sink_that_is_wrong_is_told_with_its_place(tmp_path: Path) -> None:
    """Each problem in one report; a secret that someone wrote into the file is not shown."""
    text = (
        SMALLEST
        + """\
webhooks:
  one: {store: hub, stream: flights, url: "http://billing.example.com/", secrets: ["env:S"]}
  two: {store: airline, stream: flights, url: "https://user:topsecret@billing.example.com/", secrets: [whsec_topsecret]}
  three: {store: hub, stream: bookings, url: "https://billing.example.com/#top", secrets: []}
  four: {store: hab, stream: flights, url: "https://", secrets: ["env:A", "env:B", "env:C", "env:D", "env:E"], lane_by: day}
  five: {store: hub, stream: flights, topic: flight, url: "https://b.example.com", secrets: ["connection:a"], total_seconds: 3, connect_seconds: 9}
  six: {store: hub, stream: flights, url: "https://b.example.com:port/", secrets: ["env:A"], messages_per_second: 0, timeout: 3}
kafka:
  seven: {store: hub, stream: flights, bootstrap_servers: kafka, to_topic: "a b", properties: {acks: "0", sasl.password: "topsecret"}}
  eight: {store: hub, stream: flights, bootstrap_servers: "kafka:9092", secrets: {sasl.password: topsecret}, properties: {linger.ms: 5}}
"""
    )
    with pytest.raises(ConfigurationError) as refused:
        load(tmp_path, text)
    told = str(refused.value)
    assert "topsecret" not in told
    for expected in (
        "webhooks.one.url: a URL without TLS: others on the way can read and change what is sent; expected https://, or plain_http",
        'webhooks.two.stream: got "flights", which store airline does not deliver',
        "webhooks.two.url: got a text like a connection string (not shown); expected a URL such as https://example.com",
        "webhooks.two.secrets[0]: got a text (not shown); expected where the secret is: env:NAME",
        "webhooks.three.url: got a text like a connection string (not shown); expected a URL",
        'webhooks.three.stream: got "bookings", which store hub does not deliver',
        "webhooks.three.secrets: got a list of 0; expected a list of one to four secrets, by their names",
        'webhooks.four.store: got "hab"; expected a store of this file. Did you mean hub?',
        "webhooks.four.url: got a text like a connection string (not shown); expected a URL",
        "webhooks.four.secrets: got a list of 5; expected a list of one to four secrets",
        'webhooks.four.lane_by: got "day"; expected sender or key',
        'webhooks.five.topic: got "flight", which stream flights does not have; expected a topic of it',
        "webhooks.five.total_seconds: got 3; expected at least connect_seconds, which is 9",
        "webhooks.six.url: got a text like a connection string (not shown); expected a URL",
        "webhooks.six.messages_per_second: got 0; expected a number from 0.1 to 100000",
        "webhooks.six.timeout: unknown key.",
        'kafka.seven.bootstrap_servers: got "kafka"; expected one or more host:port',
        'kafka.seven.to_topic: got "a b"; expected a topic of Kafka',
        'kafka.seven.properties.acks: got "acks"; expected no such property: the producer waits for all replicas in sync',
        "expected no secret in this file: name it in the section secrets",
        "got a text (not shown); expected where the secret is",
        'kafka.eight.properties."linger.ms": got 5; expected a text',
    ):
        assert expected in told, told


def test_an_export_that_is_wrong_is_told_with_its_place(tmp_path: Path) -> None:
    """Each problem in one report: an unknown key, another format, a store that does not deliver the stream, a shared path."""
    text = (
        SMALLEST
        + """\
exports:
  one: {stream: flights, store: hub, to: hudi, path: /srv/lake/flights, partition: day}
  seven: {stream: flights, store: hub, to: delta, path: /srv/lake/a%20b}
  two: {stream: flights, store: airline, to: delta, path: /srv/lake/flights/two/, partition_by: week}
  three: {stream: flights, store: hub, to: iceberg, path: /srv/lake/three}
  four: {stream: flights, store: hub, to: iceberg, table: flights, path: /srv/lake/four}
  five: {stream: flights, store: hub, to: delta, table: lake.five, path: /srv/lake/five}
  six: {stream: flights, store: hub, to: iceberg, table: lake.five, path: /srv/lake/six}
  eight: {stream: flights, store: hub, to: parquet, path: "s3://key:secret@lake/eight"}
  nine: {stream: flights, store: hub, to: parquet, path: "s3://lake/nine?secret_key=secret"}
"""
    )
    with pytest.raises(ConfigurationError) as refused:
        load(tmp_path, text)
    told = str(refused.value)
    for expected in (
        'exports.one.to: got "hudi"; expected the format of the table, delta, iceberg or parquet.',
        "exports.one.partition: unknown key. Did you mean partition_by?",
        'exports.seven.path: got "/srv/lake/a%20b"; expected a path without %',
        'exports.two.stream: got "flights", which store airline does not deliver; expected a stream that arrives there',
        'exports.two.partition_by: got "week"; expected none, day or key',
        "which is, or lies in or around, the path of export one; expected a directory of its own for each table",
        "exports.three.table: missing; expected what the catalog knows the table as: namespace.name",
        'exports.four.table: got "flights"; expected a table of the catalog as namespace.name, of A-Z a-z 0-9 _',
        'exports.five.table: got "lake.five"; expected no such key: only an Iceberg table is in a catalog',
        'exports.six.table: got "lake.five", the table of export five; expected a table of its own for each export',
        "exports.eight.path: a URI with a login or options (it has @ or ?); expected one without",
        "exports.nine.path: a URI with a login or options (it has @ or ?); expected one without",
    ):
        assert expected in told
    assert "secret" not in told


def test_routes_that_detach_in_one_store_use_one_spark(tmp_path: Path) -> None:
    """One task detaches the logs of both. A route that detaches elsewhere, or nothing, has its own."""
    detach = "retention: {stopped_consumer: detach, replay_window_seconds: 0, detach_to: /files}"
    text = """\
        stores: {a: , b: , c: }
        routes:
          one: {topics: [x], path: [a, b], spark: {conn_id: big}, DETACH}
          two: {topics: [x], path: [a, b], spark: {conn_id: SECOND}, DETACH}
          three: {topics: [x], path: [a, b], spark: {conn_id: third}}
          four: {topics: [x], path: [a, c], spark: {conn_id: fourth}, DETACH}
        """.replace("DETACH", detach)
    routes = load(tmp_path, text.replace("SECOND", "big"))
    assert [routes.detaching_spark(routes.store(store)).conn_id for store in "abc"] == ["spark_default", "big", "fourth"]
    assert problems(tmp_path, text.replace("SECOND", "other")) == [
        "4: routes.two.spark: differs from that of route one; expected the same: one task detaches the logs of both in store b"
    ]


def test_a_reference_to_a_secret_is_no_secret(tmp_path: Path) -> None:
    """Kubernetes and Spark take the name of a file or of a secret."""
    conf = {
        "spark.kubernetes.driver.secretKeyRef.PGPASSWORD": "relaybox:password",
        "spark.kubernetes.driver.secrets.relaybox": "/etc/relaybox",
        "spark.authenticate.secret.file": "/etc/spark/secret",
        "spark.hadoop.fs.s3a.aws.credentials.provider": "software.amazon.awssdk.auth.credentials.ProfileCredentialsProvider",
    }
    assert load(tmp_path, section(f"spark: {{conf: {conf}}}")).route("flights").spark.conf == conf


def test_a_pause_is_as_the_file_says(tmp_path: Path) -> None:
    """The longest pause is the shortest one by default; an empty section has all defaults."""
    routes = load(
        tmp_path,
        """
        stores:
          a: {watch: {interval_seconds: 5}}
          b: {watch: {max_interval_seconds: 300, backoff: 3, listen: false}}
          c: {watch: }
        routes: {r: {topics: [x], path: [a, b, c]}}
        """,
    )
    assert [routes.store(name).watch for name in "abc"] == [Watch(5, 5, 2.0, True), Watch(1, 300, 3.0, False), Watch()]


def test_a_pause_that_an_alert_does_not_outlast_is_refused(tmp_path: Path) -> None:
    """Nor one that is shorter than the shortest. The last store of a path has no hop that is looked for."""
    assert problems(
        tmp_path,
        """\
stores:
  a: {watch: {max_interval_seconds: 900}}
  b: {watch: {interval_seconds: 61}}
  c: {watch: {interval_seconds: 90, max_interval_seconds: 60}}
  d: {watch: {interval_seconds: 0, listen: maybe}}
routes:
  r: {topics: [x], path: [a, b, c]}
  s: {topics: [y], path: [b, d], limits: {target_lag_seconds: 60}}
""",
    ) == [
        "2: stores.a.watch.max_interval_seconds: got 900; expected at most limits.target_lag_seconds of route r, which is 600",
        "3: stores.b.watch.interval_seconds: got 61; expected at most limits.target_lag_seconds of route s, which is 60",
        "4: stores.c.watch.max_interval_seconds: got 60; expected at least interval_seconds, which is 90",
        "5: stores.d.watch.interval_seconds: got 0; expected a whole number from 1 to 86400",
        '5: stores.d.watch.listen: got "maybe"; expected true or false',
    ]


def test_a_providers_durability_has_its_reason_and_the_servers_none(tmp_path: Path) -> None:
    assert problems(
        tmp_path,
        """\
stores:
  a: {durability: provider}
  b: {durability_reason: three safekeepers}
  c: {durability: provder, durability_reason: x}
  d: {durability: provider, durability_reason: three safekeepers}
routes:
  r: {topics: [x], path: [a, b, c, d]}
""",
    ) == [
        '2: stores.a.durability: got "provider"; expected durability_reason beside it: how the provider keeps commits after a crash',
        '3: stores.b.durability_reason: got "three safekeepers"; expected durability: provider beside it, or nothing',
        '4: stores.c.durability: got "provder"; expected server or provider. Did you mean provider? Known: provider, server',
        '4: stores.c.durability_reason: got "x"; expected a text of 3 to 200 characters in one line, without control characters',
    ]


def test_everything_wrong_is_reported_at_once(tmp_path: Path) -> None:
    """One reading names every problem, in the order of the file, each with line, stream position, value and rule."""
    assert problems(
        tmp_path,
        """\
stores:
  airline: {}
  Hub: {}
  mirror: {service: airline, pasword: x}
route: {}
routes:
  flights:
    topics: [flights, flights]
    path: [airlnie, mirror, mirror]
    policy: recieved
    limits: {batch_rows: 0, slice_timeout: 5, linger_seconds: 3601}
    retries: {delay_seconds: 20, max_delay_seconds: 19}
  second:
    topics: []
""",
    ) == [
        '3: stores.Hub: got "Hub"; expected a name of 1 to 30 of a-z 0-9 _ -, the first a letter',
        "4: stores.mirror.pasword: unknown key. Known: adopt, bind_senders, bind_subscriptions, bind_topics, connection, durability, durability_reason, pool, require_approval, retention, service, watch",
        '4: stores.mirror.service: got "airline", the service of store airline too; expected one service per database',
        "5: route: unknown key. Did you mean routes? Known: exports, kafka, payloads, routes, schema_checks, schemas, stores, webhooks",
        '8: routes.flights.topics[1]: got "flights", which is at [0] too; expected each topic once',
        (
            '9: routes.flights.path[0]: got "airlnie"; expected a store of this file. '
            "Did you mean airline? Known: Hub, airline, mirror"
        ),
        '9: routes.flights.path[2]: got "mirror", which is at [1] too; expected a path without a loop',
        '10: routes.flights.policy: got "recieved"; expected a policy. Did you mean received? Known: cascade, processed, received',
        "11: routes.flights.limits.batch_rows: got 0; expected a whole number from 1 to 10000000",
        "11: routes.flights.limits.linger_seconds: got 3601; expected a whole number from 0 to 3600",
        (
            "11: routes.flights.limits.slice_timeout: unknown key. Did you mean slice_timeout_seconds? "
            "Known: batch_rows, fragments, holdback_rows, linger_seconds, run_timeout_seconds, slice_rows, slice_timeout_seconds, "
            "spark_from_rows, target_lag_seconds"
        ),
        "12: routes.flights.retries.max_delay_seconds: got 19; expected at least delay_seconds, which is 20",
        "13: routes.second.path: missing; expected a list of two or more stores",
        "14: routes.second.topics: got a list of 0; expected a list of one or more topics",
    ]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("limits: {batch_rows: 10000001}", "limits.batch_rows: got 10000001; expected a whole number from 1 to 10000000"),
        ("limits: {batch_rows: true}", "limits.batch_rows: got true; expected a whole number from 1 to 10000000"),
        ("limits: {batch_rows: 1.0}", "limits.batch_rows: got 1.0; expected a whole number from 1 to 10000000"),
        ("limits: {batch_rows: many}", 'limits.batch_rows: got "many"; expected a whole number from 1 to 10000000'),
        ("limits: {batch_rows: }", "limits.batch_rows: got nothing; expected a whole number from 1 to 10000000"),
        ("limits: {slice_rows: -1}", "limits.slice_rows: got -1; expected a whole number from 1 to 10000000"),
        ("limits: {slice_rows: 2000001}", "limits.slice_rows: got 2000001; expected at most batch_rows, which is 2000000"),
        (
            "limits: {slice_rows: 199}",
            "limits.slice_rows: got 199; expected large enough that 2000000 batch_rows make at most 10000 slices",
        ),
        ("limits: {slice_timeout_seconds: 0}", "limits.slice_timeout_seconds: got 0; expected a whole number from 1 to 86400"),
        ("limits: {linger_seconds: -1}", "limits.linger_seconds: got -1; expected a whole number from 0 to 3600"),
        (
            "retries: [1]",
            "retries: got a list of 1; expected a section with the keys attempts, delay_seconds, backoff, max_delay_seconds",
        ),
        ("retries: {attempts: 0}", "retries.attempts: got 0; expected a whole number from 1 to 100"),
        ("retries: {delay_seconds: 86401}", "retries.delay_seconds: got 86401; expected a whole number from 0 to 86400"),
        ("retries: {backoff: 0.9}", "retries.backoff: got 0.9; expected a number from 1 to 10"),
        ("retries: {backoff: .inf}", "retries.backoff: got Infinity; expected a number from 1 to 10"),
        ("retries: {backoff: .nan}", "retries.backoff: got NaN; expected a number from 1 to 10"),
        ("retries: {max_delay_seconds: 9}", "retries.max_delay_seconds: got 9; expected at least delay_seconds, which is 10"),
        (
            "integrity: checksums",
            'integrity: got "checksums"; expected count or checksum. Did you mean checksum? Known: checksum, count',
        ),
        ("topics_by_subscription: 1", "topics_by_subscription: got 1; expected true or false"),
        (
            "topics_by_subscription: true\n    order: total",
            "topics_by_subscription: got true with order total; expected the topics of such a route in the file: others depend on them",
        ),
        (
            "policy: processed",
            'policy: got "processed"; expected processed_by beside it: a list of one or more subscriptions at the last store',
        ),
        ("processed_by: [billing]", "processed_by: got a list of 1; expected policy: processed beside it, or nothing"),
        (
            "processed_by: [billing, audit, billing]\n    policy: processed",
            'processed_by[2]: got "billing", which is at [0] too; expected each subscription once',
        ),
        (
            "processed_by: [Billing]\n    policy: processed",
            'processed_by[0]: got "Billing"; expected a subscription of 1 to 60 of a-z 0-9 _ . -',
        ),
        ("policy: [received]", "policy: got a list of 1; expected a text, the name of a policy"),
        (
            "runner: sparks",
            'runner: got "sparks"; expected auto, spark or threads. Did you mean spark? Known: auto, spark, threads',
        ),
        ("runner: 2", "runner: got 2; expected a text, auto, spark or threads"),
        ("limits: {spark_from_rows: 0}", "limits.spark_from_rows: got 0; expected a whole number from 1 to 1000000000"),
        ("order: totl", 'order: got "totl"; expected an order. Did you mean total? Known: causal, fifo, none, total'),
        ("order: [fifo]", "order: got a list of 1; expected a text, the name of an order"),
        ("order:", "order: got nothing; expected a text, the name of an order"),
        ("stream: Flights", 'stream: got "Flights"; expected a name of 1 to 30 of a-z 0-9 _ -, the first a letter'),
        ("message_id_window: -1", "message_id_window: got -1; expected a whole number from 0 to 1000000"),
        ("message_id_window: 1000001", "message_id_window: got 1000001; expected a whole number from 0 to 1000000"),
        ("limits: {holdback_rows: 0}", "limits.holdback_rows: got 0; expected a whole number from 1 to 1000000"),
        ("limits: {holdback_rows: 1000001}", "limits.holdback_rows: got 1000001; expected a whole number from 1 to 1000000"),
        ("limits: {fragments: 99}", "limits.fragments: got 99; expected a whole number from 100 to 100000000"),
        ("limits: {fragments: 100000001}", "limits.fragments: got 100000001; expected a whole number from 100 to 100000000"),
        (
            "retention: 7d",
            'retention: got "7d"; expected a section with the keys replay_window_seconds, stopped_consumer, detach_after_seconds, detach_to',
        ),
        (
            "retention: {replay_window_seconds: -1}",
            "retention.replay_window_seconds: got -1; expected a whole number from 0 to 315360000",
        ),
        (
            "retention: {stopped_consumer: detach, replay_window_seconds: 0}",
            "retention.detach_to: the log in store hub, analytics is to be detached; expected detach_to, of the route or the store",
        ),
        (
            "retention: {stopped_consumer: detach, detach_to: /srv/detached}",
            "retention.replay_window_seconds: the log in store hub, analytics is to be detached; expected replay_window_seconds, of the route or the store: without it everything is kept there, and nothing is detached",
        ),
        (
            "retention: {detach_to: /srv/detached}",
            'retention.detach_to: got "/srv/detached"; expected stopped_consumer: detach beside it, or nothing',
        ),
        (
            "retention: {stopped_consumer: detach, replay_window_seconds: 0, detach_to: here}",
            'retention.detach_to: got "here"; expected an absolute path, or a URI such as s3a://bucket/path; no blanks, no control characters, no user',
        ),
        (
            "retention: {stopped_consumer: detach, replay_window_seconds: 0, detach_to: /x, detach_after_seconds: -1}",
            "retention.detach_after_seconds: got -1; expected a whole number from 0 to 315360000",
        ),
        (
            "retention: {stopped_consumer: alrm}",
            'retention.stopped_consumer: got "alrm"; expected keep, alarm or detach. Did you mean alarm? Known: alarm, detach, keep',
        ),
        ("spark: 1", "spark: got 1; expected a section with the keys conn_id, conf, deploy_mode, queue"),
        (
            "spark: {conn_id: a b}",
            'spark.conn_id: got "a b"; expected an Airflow connection id of 1 to 63 of A-Z a-z 0-9 _ . -, the first a letter or a digit',
        ),
        (
            "spark: {deploy_mode: custer}",
            'spark.deploy_mode: got "custer"; expected client or cluster. Did you mean cluster? Known: client, cluster',
        ),
        ("spark: {queue: a b}", 'spark.queue: got "a b"; expected a queue of YARN, 1 to 200 of A-Z a-z 0-9 _ . -'),
        ("spark: {master: x}", "spark.master: unknown key. Known: conf, conn_id, deploy_mode, queue"),
        (
            "spark: {conf: [a]}",
            'spark.conf: got a list of 1; expected a section of Spark settings, such as spark.executor.memory: "2g"',
        ),
        (
            "spark: {conf: {spark.cores.max: 4}}",
            'spark.conf."spark.cores.max": got 4; expected a text of at most 4000 characters in one line, in quotes, such as "4" or "true"',
        ),
        (
            "spark: {conf: {executor.memory: 2g}}",
            'spark.conf."executor.memory": got "executor.memory"; expected the name of a Spark setting, such as spark.executor.memory',
        ),
        (
            "spark: {conf: {spark.master: local}}",
            'spark.conf."spark.master": got "spark.master"; expected the key conn_id: the connection leads to the master',
        ),
        (
            "spark: {conf: {spark.authenticate.secret: s3cret}}",
            f'spark.conf."spark.authenticate.secret": got "spark.authenticate.secret"; expected {SECRETS_BELONG}',
        ),
        (
            "spark: {conf: {spark.hadoop.fs.s3a.access.key: AKIA}}",
            f'spark.conf."spark.hadoop.fs.s3a.access.key": got "spark.hadoop.fs.s3a.access.key"; expected {SECRETS_BELONG}',
        ),
        (
            'spark: {conf: {spark.url: "jdbc://me:s3cret@hub"}}',
            f'spark.conf."spark.url": got a text like a connection string (not shown); expected {SECRETS_BELONG}',
        ),
        ("lane: x", f"lane: unknown key. {KNOWN}"),
        ("<<: {}", f'"<<": unknown key. {KNOWN}'),
    ],
)
def test_value_against_its_rule(tmp_path: Path, line: str, problem: str) -> None:
    """Each key of a route names the value that it got and what it takes."""
    assert problems(tmp_path, section(line)) == [f"9: routes.flights.{problem}"]


def test_key_written_twice_is_refused(tmp_path: Path) -> None:
    """YAML would keep the last in silence; both lines are named."""
    assert problems(tmp_path, section("topics: [again]")) == [
        "7: routes.flights.topics: written twice, at line 7 and at line 9; keep one"
    ]


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("[]", "path: got a list of 0; expected two or more stores, the first with the outbox"),
        ("[hub]", "path: got a list of 1; expected two or more stores, the first with the outbox"),
        ("hub", 'path: got "hub"; expected a list of two or more stores'),
        ("[hub, 5]", "path[1]: got 5; expected the name of a store"),
        ("[hub, {}]", "path[1]: got a section; expected the name of a store"),
        ("[hub, airline, hub]", 'path[2]: got "hub", which is at [0] too; expected a path without a loop'),
        ("[hub, airline, airline]", 'path[2]: got "airline", which is at [1] too; expected a path without a loop'),
        ("[hub, hub, hub]", 'path[2]: got "hub", which is at [0] too; expected a path without a loop'),
        ("[hub, hub, airline, hub]", 'path[3]: got "hub", which is at [0] too; expected a path without a loop'),
    ],
)
def test_path_leads_from_store_to_store(tmp_path: Path, path: str, problem: str) -> None:
    """A path has two or more stores and no loop."""
    content = SMALLEST.replace("[airline, hub, analytics]", path)
    assert problems(tmp_path, content) == [f"8: routes.flights.{problem}"]


@pytest.mark.parametrize("further", [[], ["analytics"]])
def test_first_hop_may_be_local(tmp_path: Path, further: list[str]) -> None:
    """From a store's outbox into a log of the same store, and from there on like any other log."""
    route = load(tmp_path, SMALLEST.replace("[airline, hub, analytics]", str(["hub", "hub", *further]))).route("flights")
    first, *others = route.hops
    assert (first.name, first.source.name, first.destination.name, first.upstream) == ("flights/1", "hub", "hub", None)
    assert first.downstream == ("flights/2" if further else None)
    assert [(hop.source.name, hop.destination.name, hop.upstream, hop.downstream) for hop in others] == [
        ("hub", store, "flights/1", None) for store in further
    ]
    assert {hop.origin.name for hop in route.hops} == {"hub"}


HOSTILE_NAMES = [
    "",
    " flights",
    "Flights",
    "fl\u0456ghts",
    "\uff46lights",
    "flights\n",
    "flights\r\nset-cookie",
    "fl'ights",
    'fl"ights',
    "flights; drop table x",
    "{{ var.value }}",
    "../flights",
    "fl/ights",
    "fl%sights",
    "$(id)",
    "f" * 64,
    "fl\x7fights",
    "fl\u202eights",
]


@pytest.mark.parametrize("name", HOSTILE_NAMES)
def test_hostile_names_are_refused_everywhere(tmp_path: Path, name: str) -> None:
    """What could leave a message, an SQL text, a template or a path never becomes the name of anything."""
    spec = {"topics": [name], "path": ["airline", "hub"]}
    store = {"service": f"{name}/", "connection": f"{name}/"}
    content = yaml.safe_dump({"stores": {"airline": store, "hub": {}, name: {}}, "routes": {name: spec}})
    found = problems(tmp_path, content)
    assert len(found) == 5
    assert all(line.isascii() and line.isprintable() for line in found)


@pytest.mark.parametrize(("kind", "longest"), [("store", 30), ("route", 30), ("topic", 48), ("service", 63)])
def test_longest_names_pass(tmp_path: Path, kind: str, longest: int) -> None:
    """A name of the greatest length is taken, one character more is not."""

    def content(length: int) -> str:
        name = {key: "x" * (length if key == kind else 3) for key in ("store", "route", "topic", "service")}
        stores = {name["store"]: {"service": name["service"]}, "other": {}}
        routes = {name["route"]: {"topics": [name["topic"]], "path": [name["store"], "other"]}}
        return yaml.safe_dump({"stores": stores, "routes": routes})

    load(tmp_path, content(longest))
    assert len(problems(tmp_path, content(longest + 1))) == 1


@pytest.mark.parametrize(
    ("stores", "problem"),
    [
        ("{a: {}, b: {service: a}}", 'service: got "a", the service of store a too; expected one service per database'),
        (
            "{a: {}, b: {connection: relaybox_a}}",
            'connection: got "relaybox_a", the connection of store a too; expected one connection per database',
        ),
    ],
)
def test_one_database_has_one_name(tmp_path: Path, stores: str, problem: str) -> None:
    """Two stores with one service or one connection would be one database under two names."""
    content = f"stores: {stores}\nroutes: {{r: {{topics: [x], path: [a, b]}}}}"
    assert problems(tmp_path, content) == [f"1: stores.b.{problem}"]


def test_secret_in_the_wrong_place_is_not_repeated(tmp_path: Path) -> None:
    """A connection string or a password in the file reaches no message, and so no log."""
    content = SMALLEST.replace(
        "airline: {}",
        """airline:
    service: host=db password=hunter2
    connection: postgresql://relay:hunter2@db/airline
    password: hunter2
    "postgresql://relay:hunter2@db": 1""",
    )
    found = problems(tmp_path, content)
    assert len(found) == 4
    assert "hunter2" not in "".join(found)


@pytest.mark.parametrize("content", ["", "\n", "# nothing yet\n", "---\n", "null\n"])
def test_empty_file(tmp_path: Path, content: str) -> None:
    """An empty file is answered with the smallest good one, and that is one."""
    (problem,) = problems(tmp_path, content)
    assert "the file: empty; expected the sections stores and routes. The smallest file: {stores" in problem
    assert load(tmp_path, smallest_shown(problem)).hop("flights/1")


def smallest_shown(message: str) -> str:
    return message.partition("The smallest file: ")[2]


@pytest.mark.parametrize(
    ("content", "found"),
    [("[stores, routes]", "a list of 2"), ("routes", '"routes"'), ("5", "5")],
)
def test_file_that_is_no_section(tmp_path: Path, content: str, found: str) -> None:
    """A list or a bare value is told what was expected."""
    (problem,) = problems(tmp_path, content)
    assert problem.startswith(f"1: the file: got {found}; expected the sections stores and routes.")


def test_empty_sections_of_the_file(tmp_path: Path) -> None:
    """A file without any store or route does nothing, and says so."""
    assert problems(tmp_path, "stores: {}\nroutes:\n") == [
        "1: stores: got a section; expected a section with one entry per store",
        "2: routes: got nothing; expected a section with one entry per route",
    ]


def test_missing_file_says_what_to_do(tmp_path: Path) -> None:
    """The error names the absolute path, the variable and the smallest file."""
    with pytest.raises(ConfigurationError) as caught:
        load_routes(tmp_path / "nowhere.yaml")
    message = str(caught.value)
    assert message.startswith(f"{tmp_path}/nowhere.yaml: no such file. Write it, or set RELAYBOX_CONFIG to where it is.")
    assert load(tmp_path, smallest_shown(message)).hop("flights/1")


def test_directory_in_place_of_the_file(tmp_path: Path) -> None:
    """What cannot be read is named with the system's reason."""
    with pytest.raises(ConfigurationError, match="cannot be read \\(Is a directory\\)"):
        load_routes(tmp_path)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("stores: [", "1: the file: not YAML: while parsing a flow node, expected the node content, but found '<stream end>'"),
        ("stores: *x", "1: the file: not YAML: found undefined alias 'x'"),
        (
            "stores: {}\n---\nroutes: {}",
            "2: the file: not YAML: expected a single document in the stream, but found another document",
        ),
        (
            "stores:\n\t- x",
            "2: the file: not YAML: while scanning for the next token, found character '\\t' that cannot start any token",
        ),
        ('"\\U00110000"', "1: the file: not YAML: an escape or a directive holds an impossible number"),
        ("stores: 1\nx: \x00", "2: the file: the character U+0000 is not allowed in YAML"),
        (b"stores:\n  caf\xe9: {}", "2: the file: byte 13 is not UTF-8; save the file as UTF-8"),
        ("[" * 100_000, "1: the file: nested more than 16 deep, each alias counted as a copy"),
        ("- " * 100_000, "1: the file: nested more than 16 deep, each alias counted as a copy"),
        ("a: &a [*a]", "1: the file: nested more than 16 deep, each alias counted as a copy"),
        ("- 1\n" * 50_001, "50001: the file: more than 50,000 keys and values, each alias counted as a copy"),
    ],
)
def test_text_that_cannot_be_read_on(tmp_path: Path, content: str | bytes, problem: str) -> None:
    """Broken YAML, other encodings and what only wears down the reader are refused with the line."""
    assert problems(tmp_path, content) == [problem]


@pytest.mark.parametrize(
    ("escape", "shown"),
    [("\\0", "\\u0000"), ("\\e", "\\u001b"), ("\\n", "\\n"), ("\\x85", "\\u0085"), ("\\u2028", "\\u2028")],
)
def test_control_characters_are_named_with_key_and_line(tmp_path: Path, escape: str, shown: str) -> None:
    """Postgres refuses the first one in the middle of an init, and a terminal obeys the second one."""
    text = f'stores:\n  a: {{}}\n  b:\n    durability: provider\n    durability_reason: "disk{escape}s copied"\n'
    (problem,) = problems(tmp_path, text + "routes: {r: {topics: [t], path: [a, b]}}\n")
    said = "expected a text of 3 to 200 characters in one line, without control characters"
    assert problem == f'5: stores.b.durability_reason: got "disk{shown}s copied"; {said}'


def test_billion_laughs_is_refused(tmp_path: Path) -> None:
    """Aliases count as the copies that they stand for, so ten lines cannot become a billion values."""
    lines = ["a0: &a0 [ha, ha, ha, ha, ha, ha, ha, ha, ha]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 10)]
    (problem,) = problems(tmp_path, "\n".join(lines))
    assert problem.endswith("the file: more than 50,000 keys and values, each alias counted as a copy")


def test_huge_file_is_refused_before_it_is_parsed(tmp_path: Path) -> None:
    """One byte over 1 MiB is enough."""
    padding = "#" * (1024 * 1024 - len(SMALLEST))
    load(tmp_path, SMALLEST + padding)
    with pytest.raises(ConfigurationError, match=r"larger than 1,048,576 bytes"):
        load(tmp_path, SMALLEST + padding + "#")


def test_tags_build_nothing(tmp_path: Path) -> None:
    """A tag neither makes an object nor changes a type; the file's other problems are still found."""
    content = SMALLEST.replace("[flights]", "!!python/object/apply:os.system [x]").replace("hub: {}", "hub: !!set {}")
    refused = 'the tag "tag:yaml.org,2002:{}" is refused; write the value without it'
    assert problems(tmp_path, f"{content}    order: !!bool maybe\n") == [
        "3: stores.hub: " + refused.format("set"),
        "7: routes.flights.topics: " + refused.format("python/object/apply:os.system"),
        "9: routes.flights.order: " + refused.format("bool"),
        '9: routes.flights.order: got "maybe"; expected an order. Known: causal, fifo, none, total',
    ]


def test_values_that_yaml_misreads(tmp_path: Path) -> None:
    """YAML takes `no` for false and 5 for a number: the message shows what was read. Keys must be text."""
    content = SMALLEST.replace("[flights]", "[no, 5, 0b_]").replace("hub: {}", "no: {}\n  hub: {}\n  [x]: {}")
    topic = "expected a topic of 1 to 48 of a-z 0-9 _ . -"
    assert problems(tmp_path, content) == [
        "1: stores: the key at line 3 is no text; write it in quotes",
        "1: stores: the key at line 5 is no text; write it in quotes",
        f"9: routes.flights.topics[0]: got false; {topic}",
        f"9: routes.flights.topics[1]: got 5; {topic}",
        '9: routes.flights.topics[2]: "0b_" cannot be read as a number; write text in quotes',
    ]


def test_long_values_are_cut_in_messages(tmp_path: Path) -> None:
    """A value that cannot be meant does not flood the log."""
    found = problems(tmp_path, section(f"policy: {'x' * 100_000}"))
    assert found[0] == "9: routes.flights.policy: a text of 100,000 characters; at most 200 are read"
    assert all(len(line) < 250 for line in found)


def test_a_query_of_a_derivation_is_longer_than_other_values(tmp_path: Path) -> None:
    """Up to 20,000 characters."""
    derived = "\n  d: {topics: [d], path: [hub, analytics], derive: {from: flights, version: 1, sql: '%s'}}\n"
    assert load(tmp_path, SMALLEST + derived % ("x" * 20_000)).route("d").require_derivation().sql == "x" * 20_000
    found = problems(tmp_path, SMALLEST + derived % ("x" * 20_001))
    assert any("routes.d.derive.sql: a text of 20,001 characters; at most 20,000 are read" in line for line in found)
    tried = derived.replace("sql: '%s'", "with: 'm:f', next: {version: 2, sql: '%s'}")
    assert load(tmp_path, SMALLEST + tried % ("x" * 20_000)).route("d").require_next().sql == "x" * 20_000
    found = problems(tmp_path, SMALLEST + tried % ("x" * 20_001))
    assert any("routes.d.derive.next.sql: a text of 20,001 characters; at most 20,000 are read" in line for line in found)
    assert (
        problems(tmp_path, section(f"derive: {'x' * 201}"))[0]
        == "9: routes.flights.derive: a text of 201 characters; at most 200 are read"
    )


NEXT_VERSION = "expected a whole number from 1 to 1000000"
START = 'expected a text in quotes: earliest, latest, a stream position such as "1200", or a time such as "2026-07-01 12:00+00"'


def derived(line: str) -> str:
    """The smallest file with a derivation at version 2; the line is line 10."""
    return (
        f"{SMALLEST}  d: {{topics: [d], path: [hub, analytics], derive: {{from: flights, with: 'm:f', version: 2,\n{line}}}}}\n"
    )


@pytest.mark.parametrize(
    ("next_version", "told"),
    [
        ("3", ["next: got 3; expected a section with the keys with, sql, version"]),
        ("[]", ["next: got a list of 0; expected a section with the keys with, sql, version"]),
        ("{}", ["next: got neither of with and sql; expected one of them", f"next.version: missing; {NEXT_VERSION}"]),
        ("{with: 'm:f', version: 2}", ["next.version: got 2; expected a version above 2, that of derive"]),
        ("{with: 'm:f', version: 1}", ["next.version: got 1; expected a version above 2, that of derive"]),
        ("{with: 'm:f', version: true}", [f"next.version: got true; {NEXT_VERSION}"]),
        ("{with: 'm:f', version: '3'}", [f'next.version: got "3"; {NEXT_VERSION}']),
        ("{with: 'm:f', version: 3.0}", [f"next.version: got 3.0; {NEXT_VERSION}"]),
        ("{with: 'm:f', version: 1000001}", [f"next.version: got 1000001; {NEXT_VERSION}"]),
        ("{with: 'm:f', version: }", [f"next.version: got nothing; {NEXT_VERSION}"]),
        ("{version: 3}", ["next: got neither of with and sql; expected one of them"]),
        ("{version: 3, with: 'm:f', sql: select 1}", ["next: got both of with and sql; expected one of them"]),
        ("{version: 3, with: m}", ['next.with: got "m"; expected a function as package.module:function, of A-Z a-z 0-9 _']),
        ("{version: 3, with: 5}", ["next.with: got 5; expected a function as package.module:function, of A-Z a-z 0-9 _"]),
        ("{version: 3, sql: ''}", ['next.sql: got ""; expected a query of Spark SQL of at most 20000 characters']),
        ("{version: 3, sql: '  '}", ['next.sql: got "  "; expected a query of Spark SQL of at most 20000 characters']),
        ("{version: 3, sql: 7}", ["next.sql: got 7; expected a query of Spark SQL of at most 20000 characters"]),
        ("{version: 3, sql: select 1, start: earliest}", ["next.start: unknown key. Known: sql, version, with"]),
        ("{version: 3, sql: select 1, next: {version: 4}}", ["next.next: unknown key. Known: sql, version, with"]),
        (
            "{version: 3, wiht: 'm:f'}",
            [
                "next: got neither of with and sql; expected one of them",
                "next.wiht: unknown key. Did you mean with? Known: sql, version, with",
            ],
        ),
    ],
)
def test_a_next_version_that_is_wrong_is_told_with_its_place(tmp_path: Path, next_version: str, told: list[str]) -> None:
    assert problems(tmp_path, derived(f"next: {next_version}")) == [f"10: routes.d.derive.{one}" for one in told]


def test_a_next_version_that_has_nothing_behind_it_is_none(tmp_path: Path) -> None:
    """As in the example of each key."""
    assert load(tmp_path, derived("next: ")).route("d").require_derivation().next is None


def test_a_next_version_has_the_settings_of_the_present_one_and_begins_where_that_ends(tmp_path: Path) -> None:
    said = "start: earliest, batch_rows: 7, row_errors: dead_letter, sender: me, next: {version: 9, sql: select 1}"
    derivation = load(tmp_path, derived(said)).route("d").require_derivation()
    tried = load(tmp_path, derived(said)).route("d").require_next()
    assert (tried.function, tried.sql, tried.version, tried.start, tried.key) == (None, "select 1", 9, None, "derive.next")
    same = ("stream", "sender", "batch_rows", "row_errors", "dead_letter_limit", "changed_source")
    assert [getattr(tried, name) for name in same] == [getattr(derivation, name) for name in same]
    assert (derivation.start, derivation.key, derivation.function, derivation.version) == ("earliest", "derive", "m:f", 2)


def test_a_next_version_belongs_into_derive(tmp_path: Path) -> None:
    assert problems(tmp_path, section("next: {with: 'm:f', version: 2}")) == [f"9: routes.flights.next: unknown key. {KNOWN}"]


@pytest.mark.parametrize(
    "start", ["earliest", "latest", "0", "1200", "2026-07-01", "2026-07-01 12:00+00", "2026-07-01T12:00:30.5Z"]
)
def test_a_derivation_and_an_export_begin_at_a_word_a_stream_position_or_a_time(tmp_path: Path, start: str) -> None:
    """A time without quotes is read as text too."""
    assert load(tmp_path, derived(f"start: '{start}'")).route("d").require_derivation().start == start
    exports = f"exports: {{e: {{stream: flights, store: hub, to: delta, path: /e, start: '{start}'}}}}"
    assert load(tmp_path, f"{SMALLEST}{exports}\n").export("e").start == start


@pytest.mark.parametrize(
    ("start", "told"),
    [
        ("bogus", f'got "bogus"; {START}. Known: earliest, latest'),
        ("Latest", f'got "Latest"; {START}. Did you mean latest? Known: earliest, latest'),
        ("1200", f"got 1200; {START}"),
        ("'-1'", f'got "-1"; {START}'),
        ("'1234567890123456789'", f'got "1234567890123456789"; {START}'),
        ("2026-06-31", f'got "2026-06-31"; {START}'),
        ("2026-W27-1", f'got "2026-W27-1"; {START}'),
        ("'2026-07-01 25:00'", f'got "2026-07-01 25:00"; {START}'),
        ("yesterday", f'got "yesterday"; {START}. Known: earliest, latest'),
        ("' '", f'got " "; {START}'),
        ("[earliest]", f"got a list of 1; {START}"),
    ],
)
def test_another_start_is_refused_when_the_file_is_read(tmp_path: Path, start: str, told: str) -> None:
    """And not by the store, when the first run begins."""
    assert problems(tmp_path, derived(f"start: {start}")) == [f"10: routes.d.derive.start: {told}"]
    export = f"exports: {{e: {{stream: flights, store: hub, to: delta, path: /e,\nstart: {start}}}}}"
    assert problems(tmp_path, f"{SMALLEST}{export}\n") == [f"10: exports.e.start: {told}"]


def test_hundreds_of_problems_are_counted(tmp_path: Path) -> None:
    """The first hundred are written out, the rest is a number."""
    wrong = ", ".join(f"s{n}" for n in range(150))
    found = problems(tmp_path, SMALLEST.replace("[airline, hub, analytics]", f"[{wrong}]"))
    assert len(found) == 101
    assert found[-1] == "and 50 more"


def test_many_known_names_are_not_all_listed(tmp_path: Path) -> None:
    """A dozen is enough to see what kind of name is meant."""
    stores = "".join(f"  s{n:02}: {{}}\n" for n in range(20))
    content = f"stores:\n{stores}routes: {{r: {{topics: [x], path: [s00, other]}}}}"
    (problem,) = problems(tmp_path, content)
    assert problem.endswith("Known: s00, s01, s02, s03, s04, s05, s06, s07, s08, s09, s10, s11, and 8 more")


def test_the_map_of_an_adopted_table_is_read_and_written(tmp_path: Path) -> None:
    """Columns, constants, patterns; what a complete map says is what relaybox.yaml would say."""
    routes = load(
        tmp_path,
        """\
        stores:
          a:
            adopt:
              orders: {}
              app.events:
                {message_id: none, topic: "'it''s'", sender: kind, key: "a{The key:lower}-{n}", payload: "*", headers: {trace: tid}}
          b: {}
        routes: {r: {topics: [x], path: [a, b]}}
        """,
    )
    orders, events = routes.stores["a"].adopt
    assert (orders.name, orders.mapped, orders.on_unmapped) == ("public.orders", {}, "fail")
    assert complete_map(orders.mapped, ("n", "payload"), "a") == {
        "topic": {"parts": [{"column": "aggregatetype", "filter": "lower"}]},
        "sender": {"parts": ["a"]},
        "payload": {"column": "payload"},
        "header": {},
    }
    complete = complete_map(events.mapped, ("id",), "a")
    assert complete == {
        "topic": {"parts": ["it's"]},
        "sender": {"column": "kind"},
        "key": {"parts": ["a", {"column": "The key", "filter": "lower"}, "-", {"column": "n", "filter": None}]},
        "payload": {"row": True},
        "header": {"trace": {"column": "tid"}},
    }
    written = yaml.safe_load(EXAMPLE.read_text())["stores"]["airline"]["adopt"]["public.outboxevent"]
    assert write_map(complete) == {
        "message_id": "none", "topic": "'it''s'", "sender": "kind", "key": "a{The key:lower}-{n}", "payload": "*", "headers": {"trace": "tid"},
    }  # fmt: skip
    default = complete_map({}, ("id", "aggregateid", "type"), "airline")
    assert write_map(default) == {key: value for key, value in written.items() if key != "on_unmapped"}
    options = ["topic='it''s'", "sender=kind", "key=a{The key:lower}-{n}", "payload=*", "message_id=none", "header.trace=tid"]
    assert complete_map(parse_map_options(options), ("id",), "a") == complete


@pytest.mark.parametrize(
    ("option", "rule"),
    [
        ("topic", "expected FIELD=TEXT with one of message_id, topic"),
        ("tpic=x", "expected FIELD=TEXT with one of message_id, topic"),
        ("topic={x", "each brace has a column and its other brace"),
        ("topic={x:upper}", "behind the colon stands one of lower, base64"),
        ("topic=none", "each message has a topic"),
        ("key=*", "* is for payload"),
        ("header.a b=x", "expected a header of 1 to 100"),
        ("headers='x'", "expected a column of jsonb or json"),
        ("key=a b", "A column with other characters is written in braces"),
    ],
)
def test_a_broken_option_of_a_map_is_told_with_its_rule(option: str, rule: str) -> None:
    with pytest.raises(BrokenMap, match=re.escape(rule)):
        parse_map_options([option])


def test_an_option_of_a_map_stands_once() -> None:
    with pytest.raises(BrokenMap, match="each field once"):
        parse_map_options(["key=a", "key=b"])


@pytest.mark.parametrize("column", ["headers=meta", "headers=none"])
def test_headers_of_a_column_and_single_ones_are_not_mixed(column: str) -> None:
    """relaybox.yaml can't say both: what the command prints for it would lose one."""
    for options in ([column, "header.trace=trace"], ["header.trace=trace", column]):
        with pytest.raises(BrokenMap, match=r"--map headers and --map header\.NAME: expected one of them"):
            parse_map_options(options)


def test_what_is_wrong_with_adopted_tables_is_told(tmp_path: Path) -> None:
    """With its place; a table stands once, whether its schema is written or not."""
    assert problems(
        tmp_path,
        """\
stores:
  a: {adopt: {public.t: {topic: none, on_unmapped: skip, payload: 7}, t: , "a b": , u: {headers: "'x'"}}}
  b: {}
routes: {r: {topics: [x], path: [a, b]}}
""",
    ) == [
        (
            '2: stores.a.adopt."a b": got "a b"; expected a table as SCHEMA.TABLE, or TABLE for one of schema public, '
            "written as in the catalog, without quotes"
        ),
        '2: stores.a.adopt."public.t".on_unmapped: got "skip"; expected fail or set_aside. Known: fail, set_aside',
        (
            "2: stores.a.adopt.\"public.t\".payload: got 7; expected a column, a text in quotes such as 'orders', "
            "or a pattern such as outbox.{aggregatetype:lower}"
        ),
        (
            '2: stores.a.adopt."public.t".topic: got "none"; expected a column, a text in quotes such as \'orders\', '
            "or a pattern such as outbox.{aggregatetype:lower}; each message has a topic"
        ),
        '2: stores.a.adopt.t: got "t", which is "public.t" too; expected each table once',
        (
            "2: stores.a.adopt.u.headers: got \"'x'\"; expected a column of jsonb or json, none, "
            "or a section with a column for each header"
        ),
    ]
