"""From a relaybox.yaml to its routes, every default filled in."""

import os
from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from relaybox.routes.adopt_rules import MAPPED_FIELDS, parse_headers, parse_mapped, split_table
from relaybox.routes.checking import check_rules
from relaybox.routes.file import parse_route_file, read_text
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
    RouteSettings,
    SchemaCheck,
    Spark,
    Store,
    Watch,
    Webhook,
)
from relaybox.routes.rules import (
    AdoptRules,
    DeriveRules,
    ExportRules,
    FileRules,
    KafkaRules,
    PayloadRules,
    RetentionRules,
    RetriesRules,
    RouteRules,
    SinkRules,
    SparkRules,
    StoreRules,
    WatchRules,
    WebhookRules,
)


def load_routes(path: str | Path | None = None) -> Routes:
    """Reads and checks a relaybox.yaml. Connects to nothing.

    Args:
        path: the file; by default $RELAYBOX_CONFIG, or relaybox.yaml in the working directory if that is unset or empty.

    Raises:
        ConfigurationError: everything that is wrong in the file, one line per problem; a retry does not help.
    """
    file = Path(path or os.environ.get("RELAYBOX_CONFIG") or "relaybox.yaml").absolute()
    return parse_routes(read_text(file), file)


def parse_routes(text: str, path: Path) -> Routes:
    """The same for a text that was read from `path` at some time."""
    return _routes(check_rules(parse_route_file(path, text)), path, text)


def _routes(rules: FileRules, path: Path, text: str) -> Routes:
    stores = {name: _store(name, store) for name, store in rules.stores.items()}
    routes = {name: _route(name, route, stores) for name, route in rules.routes.items()}
    exports = {name: _export(name, export, stores) for name, export in rules.exports.items()}
    webhooks = {name: _webhook(name, webhook, stores) for name, webhook in rules.webhooks.items()}
    kafka = {name: _kafka(name, sink, stores) for name, sink in rules.kafka.items()}
    schemas = {topic: tuple(files) for topic, files in rules.schemas.items()}
    checks = {topic: SchemaCheck(check.outbox, check.first_hop) for topic, check in rules.schema_checks.items()}
    payloads = {name: _payload_place(name, place) for name, place in rules.payloads.items()}
    return Routes(stores, routes, path, text, exports, schemas, checks, webhooks, kafka, payloads)


def _export(name: str, rules: ExportRules, stores: Mapping[str, Store]) -> Export:
    return Export(
        name=name,
        stream=rules.stream,
        store=stores[rules.store],
        format=rules.to,
        table=rules.table,
        path=rules.path.rstrip("/"),
        partition_by=rules.partition_by,
        start=rules.start,
        batch_messages=rules.batch_messages,
        file_messages=rules.file_messages,
        owner=rules.owner,
        retries=_retries(rules.retries),
        spark=_spark(rules.spark),
    )


def _payload_place(name: str, rules: PayloadRules) -> PayloadPlace:
    return PayloadPlace(
        name=name,
        location=rules.location.rstrip("/"),
        grace_seconds=rules.grace_seconds,
        keep_seconds=rules.keep_seconds,
        trash_seconds=rules.trash_seconds,
    )


def _webhook(name: str, rules: WebhookRules, stores: Mapping[str, Store]) -> Webhook:
    return Webhook(
        **_sink(name, rules, stores),
        url=rules.url,
        secrets=tuple(rules.secrets),
        connect_seconds=rules.connect_seconds,
        read_seconds=rules.read_seconds,
        total_seconds=rules.total_seconds,
        answer_bytes=rules.answer_bytes,
        cloudevents=rules.cloudevents,
    )


def _kafka(name: str, rules: KafkaRules, stores: Mapping[str, Store]) -> KafkaSink:
    return KafkaSink(
        **_sink(name, rules, stores),
        bootstrap_servers=rules.bootstrap_servers,
        to_topic=rules.to_topic,
        key_by=rules.key_by,
        cloudevents=rules.cloudevents,
        properties=dict(rules.properties),
        secrets=dict(rules.secrets),
        delivery_seconds=rules.delivery_seconds,
        batch_messages=rules.batch_messages,
    )


def _sink(name: str, rules: SinkRules, stores: Mapping[str, Store]) -> dict[str, Any]:
    """What both kinds of sinks have."""
    return {
        "name": name,
        "store": stores[rules.store],
        "stream": rules.stream,
        "topic": rules.topic,
        "start": rules.start,
        "lanes": rules.lanes,
        "lane_by": rules.lane_by,
        "hold_sender": rules.hold_sender,
        "delayed": rules.delayed,
        "nack_limit": rules.nack_limit,
        "retry_seconds": rules.retry_seconds,
        "messages_per_second": rules.messages_per_second,
        "open_after_failures": rules.open_after_failures,
        "max_pause_seconds": rules.max_pause_seconds,
        "owner": rules.owner,
        "retries": _retries(rules.retries),
    }


def _store(name: str, rules: StoreRules) -> Store:
    connection = rules.connection or f"relaybox_{name}"
    return Store(
        name,
        service=rules.service or name,
        connection=connection,
        bind_senders=rules.bind_senders,
        bind_subscriptions=rules.bind_subscriptions,
        bind_topics=rules.bind_topics,
        require_approval=rules.require_approval,
        pool=rules.pool,
        retention=_retention(rules.retention, Retention()),
        watch=_watch(rules.watch),
        durability=rules.durability,
        durability_reason=rules.durability_reason,
        adopt=tuple(_adopted(table, adopted) for table, adopted in rules.adopt.items()),
    )


def _adopted(name: str, rules: AdoptRules) -> AdoptedTable:
    said = {field: value for field in MAPPED_FIELDS if (value := getattr(rules, field)) is not None}
    mapped = {
        field: parse_headers(value) if field == "headers" else parse_mapped(value, field=field) for field, value in said.items()
    }
    return AdoptedTable(*split_table(name), mapped, rules.on_unmapped)


def _watch(rules: WatchRules) -> Watch:
    longest = rules.interval_seconds if rules.max_interval_seconds is None else rules.max_interval_seconds
    return Watch(rules.interval_seconds, longest, rules.backoff, rules.listen)


def _retention(rules: RetentionRules, otherwise: Retention) -> Retention:
    return Retention(
        otherwise.replay_window_seconds if rules.replay_window_seconds is None else rules.replay_window_seconds,
        rules.stopped_consumer or otherwise.stopped_consumer,
        otherwise.detach_after_seconds if rules.detach_after_seconds is None else rules.detach_after_seconds,
        rules.detach_to or otherwise.detach_to,
    )


def _route(name: str, rules: RouteRules, stores: Mapping[str, Store]) -> Route:
    settings = _settings(name, rules)
    path, processed_by = tuple(stores[store] for store in rules.path), tuple(rules.processed_by)
    derivation = None if rules.derive is None else _derivation(name, rules.derive)
    route = Route(**vars(settings), name=name, path=path, processed_by=processed_by, hops=(), derivation=derivation)
    return replace(route, hops=_hops(route, settings, rules.retention))


def _derivation(route: str, rules: DeriveRules) -> Derivation:
    derivation = Derivation(
        stream=rules.stream,
        function=rules.function,
        sql=rules.sql,
        version=rules.version,
        start=rules.start,
        sender=rules.sender or route,
        batch_rows=rules.batch_rows,
        row_errors=rules.row_errors,
        dead_letter_limit=rules.dead_letter_limit,
        changed_source=rules.changed_source,
    )
    if rules.next is None:
        return derivation
    candidate = replace(
        derivation,
        function=rules.next.function,
        sql=rules.next.sql,
        version=rules.next.version,
        start=None,
        key="derive.next",
    )
    return replace(derivation, next=candidate)


def _settings(name: str, rules: RouteRules) -> RouteSettings:
    return RouteSettings(
        topics=tuple(rules.topics),
        policy=rules.policy,
        topics_by_subscription=rules.topics_by_subscription,
        integrity=rules.integrity,
        runner=rules.runner,
        owner=rules.owner,
        order=rules.order,
        stream=rules.stream or name,
        message_id_window=rules.message_id_window,
        limits=_limits(rules),
        retries=_retries(rules.retries),
        spark=_spark(rules.spark),
    )


CAUSAL_BATCH_ROWS = 200_000
"""A decision on clocks takes up to 50 us per message and sender in its clock, and ends within the limit of a statement (15 minutes)."""


def _limits(rules: RouteRules) -> Limits:
    limits = rules.limits
    batch_rows = limits.batch_rows
    if rules.order == "causal" and "batch_rows" not in limits.model_fields_set:
        batch_rows = CAUSAL_BATCH_ROWS
    return Limits(
        batch_rows=batch_rows,
        slice_rows=min(limits.slice_rows, batch_rows),  # only the default can be above: the rules refuse another
        slice_timeout_seconds=limits.slice_timeout_seconds,
        linger_seconds=limits.linger_seconds,
        spark_from_rows=limits.spark_from_rows,
        run_timeout_seconds=limits.run_timeout_seconds,
        target_lag_seconds=limits.target_lag_seconds,
        holdback_rows=limits.holdback_rows,
        fragments=limits.fragments,
    )


def _spark(spark: SparkRules) -> Spark:
    return Spark(spark.conn_id, dict(spark.conf), spark.deploy_mode, spark.queue)


def _retries(retries: RetriesRules) -> Retries:
    return Retries(
        attempts=retries.attempts,
        delay_seconds=retries.delay_seconds,
        backoff=retries.backoff,
        max_delay_seconds=max(retries.max_delay_seconds, retries.delay_seconds),  # as above, for the default alone
    )


def _hops(route: Route, settings: RouteSettings, retention: RetentionRules) -> tuple[Hop, ...]:
    return tuple(
        Hop(
            **vars(settings),
            name=f"{route.name}/{number}",
            route=route.name,
            number=number,
            source=source,
            destination=destination,
            origin=route.path[0],
            upstream=f"{route.name}/{number - 1}" if number > 1 else None,
            downstream=f"{route.name}/{number + 1}" if number + 1 < len(route.path) else None,
            processed_by=route.processed_by if number + 1 == len(route.path) else (),
            log_retention=_retention(retention, destination.retention),
            outbox_retention=_of_an_outbox(_retention(retention, source.retention)),
        )
        for number, (source, destination) in enumerate(pairwise(route.path), start=1)
    )


def _of_an_outbox(retention: Retention) -> Retention:
    """Nothing is detached from it: who reads it is a hop, and a hop that stopped is alarmed."""
    stopped_consumer = "alarm" if retention.stopped_consumer == "detach" else retention.stopped_consumer
    return Retention(retention.replay_window_seconds, stopped_consumer)
