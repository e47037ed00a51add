"""The rules of relaybox.yaml: what may stand at each key, and which values contradict each other.

pydantic checks each value against the rule of its key; the rules of each section (routes.route_rules and its neighbours) compare values
with each other. Both look at the values as they were read, so that a problem in one place hides none in another.
"""

import re
from collections.abc import Callable, Iterator
from typing import Annotated, Any

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainValidator,
    ValidationError,
    ValidationInfo,
    field_validator,
)
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails, PydanticCustomError

from relaybox.errors import ConfigurationError
from relaybox.routes.adopt_rules import MAPPED_FIELDS, ON_UNMAPPED, adopt_contradictions, broken_mapped, broken_table
from relaybox.routes.derive_rules import (
    CHANGED_SOURCES,
    DEAD_LETTER_LIMIT,
    DERIVE_BATCH_ROWS,
    DERIVE_KEYS,
    NEXT_KEYS,
    ROW_ERRORS,
    derive_contradictions,
)
from relaybox.routes.export_rules import (
    BATCH_MESSAGES,
    EXPORT_KEYS,
    FILE_MESSAGES,
    PARTITIONINGS,
    broken_format,
    export_contradictions,
)
from relaybox.routes.file import SMALLEST_FILE, RouteFile
from relaybox.routes.payload_rules import (
    GRACE_SECONDS,
    LOCATION_RULE,
    PAYLOAD_KEYS,
    TRASH_SECONDS,
    broken_location,
    payload_contradictions,
)
from relaybox.routes.problems import Location, Problem, report, show, suggest
from relaybox.routes.raw_values import entries
from relaybox.routes.retention_rules import STOPPED_CONSUMERS, retention_contradictions
from relaybox.routes.route_rules import INTEGRITIES, POLICIES, RUNNERS, route_contradictions
from relaybox.routes.schema_rules import OUTBOX_CHECKS, broken_first_hop_check, schema_contradictions
from relaybox.routes.sink_rules import (
    CLOUDEVENTS_MODES,
    DELAYED_WAYS,
    KAFKA_KEYS,
    LANE_KEYS,
    RECORD_KEYS,
    URL_RULE,
    WEBHOOK_KEYS,
    WHERE_SECRETS_ARE,
    WHERE_SECRETS_ARE_RULE,
    broken_property_name,
    broken_property_value,
    broken_secret_property,
    broken_servers,
    broken_target,
    broken_url,
    sink_contradictions,
)
from relaybox.routes.spark_rules import (
    DEPLOY_MODES,
    SPARK_CONN_ID,
    broken_setting_name,
    broken_setting_value,
    spark_contradictions,
)
from relaybox.routes.start_rules import broken_start
from relaybox.routes.store_rules import DURABILITIES, store_contradictions
from relaybox.routes.stream_rules import FRAGMENTS, HOLDBACK_ROWS, MESSAGE_ID_WINDOW, ORDERS, stream_contradictions
from relaybox.routes.watch_rules import INTERVAL_SECONDS, TARGET_LAG_SECONDS, watch_contradictions

MAX_SLICES_PER_BATCH = 10_000

_DAY_SECONDS = 24 * 60 * 60
_IDENTIFIER = r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}"
_IDENTIFIER_RULE = "1 to 63 of A-Z a-z 0-9 _ . -, the first a letter or a digit"


def check_rules(file: RouteFile) -> "FileRules":
    """The values of a file that breaks no rule.

    Raises:
        ConfigurationError: names every problem of the file, those found while it was read included.
    """
    problems = [*file.problems, *_contradictions(file.document)]
    try:
        rules = FileRules.model_validate(file.document)
    except ValidationError as error:
        problems += [_problem(details) for details in error.errors(include_url=False)]
    if problems:
        raise ConfigurationError(report(file.path, problems, file.lines))
    return rules


def _broken(rule: str) -> PydanticCustomError:
    return PydanticCustomError("rule", "{rule}", {"rule": rule})


def _text(pattern: str, rule: str) -> PlainValidator:
    """A text that the pattern matches as a whole."""
    compiled = re.compile(pattern)

    def check(value: object) -> str:
        if isinstance(value, str) and compiled.fullmatch(value):
            return value
        raise _broken(rule)

    return PlainValidator(check)


def _section(keys: str) -> BeforeValidator:
    """A mapping. A key with nothing behind it is the section with nothing in it."""

    def check(value: object) -> object:
        if value is None:
            return {}
        if isinstance(value, dict):
            return value
        raise _broken(f"a section with the keys {keys}")

    return BeforeValidator(check)


def _entries_or_none(what: str) -> BeforeValidator:
    """A mapping of names; a key with nothing behind it has none."""

    def check(value: object) -> object:
        if value is None:
            return {}
        if isinstance(value, dict):
            return value
        raise _broken(f"a section with {what}")

    return BeforeValidator(check)


def _list_of(what: str) -> BeforeValidator:
    """A list that has an entry."""

    def check(value: object) -> object:
        if isinstance(value, list) and value:
            return value
        raise _broken(f"a list of {what}")

    return BeforeValidator(check)


def _settings() -> BeforeValidator:
    """The settings of Spark, by name; a key with nothing behind it is none."""

    def check(value: object) -> object:
        if value is None:
            return {}
        if isinstance(value, dict):
            return value
        raise _broken('a section of Spark settings, such as spark.executor.memory: "2g"')

    return BeforeValidator(check)


def _by(find_broken_rule: Callable[[object], str | None]) -> PlainValidator:
    """A text in which the function finds no broken rule."""

    def check(value: object) -> str:
        if (rule := find_broken_rule(value)) is not None:
            raise _broken(rule)
        return str(value)

    return PlainValidator(check)


def _one_of(words: tuple[str, ...], rule: str, text_rule: str) -> PlainValidator:
    """One of these words; the nearest of them is named."""

    def check(value: object) -> str:
        if not isinstance(value, str):
            raise _broken(text_rule)
        if value not in words:
            raise _broken(f"{rule}. {suggest(value, words)}")
        return value

    return PlainValidator(check)


def _named_one_of(words: tuple[str, ...]) -> PlainValidator:
    """The same of so few words that the rule names them."""
    rule = f"{', '.join(words[:-1])} or {words[-1]}"
    return _one_of(words, rule, f"a text, {rule}")


def _whole_number(default: int, low: int, high: int) -> Any:
    return Field(default=default, ge=low, le=high, description=f"a whole number from {low} to {high}")


_CONTROLS = r"\x00-\x1f\x7f-\x9f\u2028\u2029"

Name = Annotated[str, _text(r"[a-z][a-z0-9_-]{0,29}", "a name of 1 to 30 of a-z 0-9 _ -, the first a letter")]
Topic = Annotated[str, _text(r"[a-z0-9_.-]{1,48}", "a topic of 1 to 48 of a-z 0-9 _ . -")]
Subscription = Annotated[str, _text(r"[a-z0-9_.-]{1,60}", "a subscription of 1 to 60 of a-z 0-9 _ . -")]
Directory = Annotated[
    str,
    _text(
        rf"(/|[a-z][a-z0-9+.-]*://)[^\s@?#'\"{_CONTROLS}]{{1,900}}",
        "an absolute path, or a URI such as s3a://bucket/path; no blanks, no control characters, no user",
    ),
]
StoreInPath = Annotated[str, _text(r"(?s).*", "the name of a store")]
Service = Annotated[str, _text(_IDENTIFIER, f"a libpq service name of {_IDENTIFIER_RULE}")]
Pool = Annotated[str, _text(_IDENTIFIER, f"an Airflow pool of {_IDENTIFIER_RULE}")]
Owner = Annotated[str, _text(r"[A-Za-z0-9][A-Za-z0-9_.@ -]{0,62}", "an owner of 1 to 63 of A-Z a-z 0-9 _ . @ - and blanks")]
Connection = Annotated[str, _text(_IDENTIFIER, f"an Airflow connection id of {_IDENTIFIER_RULE}")]
Policy = Annotated[str, _one_of(POLICIES, "a policy", "a text, the name of a policy")]
Order = Annotated[str, _one_of(ORDERS, "an order", "a text, the name of an order")]
Integrity = Annotated[str, _named_one_of(INTEGRITIES)]
Runner = Annotated[str, _named_one_of(RUNNERS)]
Durability = Annotated[str, _named_one_of(DURABILITIES)]
Text = Annotated[
    str, _text(rf"(?!\s)[^{_CONTROLS}]{{3,200}}(?<!\s)", "a text of 3 to 200 characters in one line, without control characters")
]
StoppedConsumer = Annotated[str, _named_one_of(STOPPED_CONSUMERS)]
DeployMode = Annotated[str, _named_one_of(DEPLOY_MODES)]
LaneKey = Annotated[str, _named_one_of(LANE_KEYS)]
DelayedWay = Annotated[str, _named_one_of(DELAYED_WAYS)]
RecordKey = Annotated[str, _named_one_of(RECORD_KEYS)]
CloudEventsMode = Annotated[str, _named_one_of(CLOUDEVENTS_MODES)]
OutboxCheck = Annotated[str, _named_one_of(OUTBOX_CHECKS)]
FirstHopCheck = Annotated[str, _by(broken_first_hop_check)]
Secret = Annotated[str, _text(WHERE_SECRETS_ARE, WHERE_SECRETS_ARE_RULE)]
Url = Annotated[str, _by(broken_url)]
Servers = Annotated[str, _by(broken_servers)]
Target = Annotated[str, _by(broken_target)]
PropertyName = Annotated[str, _by(broken_property_name)]
PropertyValue = Annotated[str, _by(broken_property_value)]
SecretProperty = Annotated[str, _by(broken_secret_property)]
Queue = Annotated[str, _text(r"[A-Za-z0-9_.-]{1,200}", "a queue of YARN, 1 to 200 of A-Z a-z 0-9 _ . -")]
SettingName = Annotated[str, _by(broken_setting_name)]
SettingValue = Annotated[str, _by(broken_setting_value)]


Function = Annotated[
    str, _text(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*", "a function as package.module:function, of A-Z a-z 0-9 _")
]
Sql = Annotated[str, _text(r"(?s)(?=.*\S)[^\x00]{1,20000}", "a query of Spark SQL of at most 20000 characters")]
SchemaFile = Annotated[
    str, _text(rf"[^\s{_CONTROLS}]{{1,200}}", "the path of a JSON file, from the folder of this file on; no blanks")
]
Sender = Annotated[str, _text(r"[A-Za-z0-9_.:-]{1,48}", "a sender of 1 to 48 of A-Z a-z 0-9 _ . : -")]
Start = Annotated[str, _by(broken_start)]
RowErrors = Annotated[str, _named_one_of(ROW_ERRORS)]
ChangedSource = Annotated[str, _named_one_of(CHANGED_SOURCES)]
Format = Annotated[str, _by(broken_format)]
CatalogTable = Annotated[
    str, _text(r"[A-Za-z0-9_]{1,100}(\.[A-Za-z0-9_]{1,100}){1,9}", "a table of the catalog as namespace.name, of A-Z a-z 0-9 _")
]
PartitionBy = Annotated[str, _named_one_of(PARTITIONINGS)]
PayloadLocation = Annotated[str, _by(broken_location)]


def _mapped(field: str) -> PlainValidator:
    """A text of the map of an adopted table; of headers also a section."""

    def check(value: object) -> object:
        if (rule := broken_mapped(field, value)) is not None:
            raise _broken(rule)
        return value

    return PlainValidator(check)


TableName = Annotated[str, _by(broken_table)]
OnUnmapped = Annotated[str, _named_one_of(ON_UNMAPPED)]


class _Rules(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class RetentionRules(_Rules):
    replay_window_seconds: int | None = Field(
        default=None, ge=0, le=3_650 * _DAY_SECONDS, description=f"a whole number from 0 to {3_650 * _DAY_SECONDS}"
    )
    stopped_consumer: StoppedConsumer | None = None
    detach_after_seconds: int | None = Field(
        default=None, ge=0, le=3_650 * _DAY_SECONDS, description=f"a whole number from 0 to {3_650 * _DAY_SECONDS}"
    )
    detach_to: Directory | None = None


class WatchRules(_Rules):
    interval_seconds: int = _whole_number(INTERVAL_SECONDS, 1, _DAY_SECONDS)
    max_interval_seconds: int | None = Field(
        default=None, ge=1, le=_DAY_SECONDS, description=f"a whole number from 1 to {_DAY_SECONDS}"
    )
    backoff: float = Field(default=2.0, ge=1, le=10, description="a number from 1 to 10")
    listen: bool = Field(default=True, description="true or false")


class AdoptRules(_Rules):
    message_id: Annotated[str, _mapped("message_id")] | None = None
    topic: Annotated[str, _mapped("topic")] | None = None
    sender: Annotated[str, _mapped("sender")] | None = None
    key: Annotated[str, _mapped("key")] | None = None
    payload: Annotated[str, _mapped("payload")] | None = None
    headers: Annotated[Any, _mapped("headers")] | None = None
    on_unmapped: OnUnmapped = "fail"


_Adopt = Annotated[AdoptRules, _section(", ".join((*MAPPED_FIELDS, "on_unmapped")))]


class StoreRules(_Rules):
    service: Service | None = None
    connection: Connection | None = None
    pool: Pool = "default_pool"
    bind_senders: bool | None = Field(default=None, description="true or false")
    bind_subscriptions: bool | None = Field(default=None, description="true or false")
    bind_topics: bool | None = Field(default=None, description="true or false")
    require_approval: bool | None = Field(default=None, description="true or false")
    durability: Durability = "server"
    durability_reason: Text | None = None
    retention: Annotated[RetentionRules, _section(", ".join(RetentionRules.model_fields))] = RetentionRules()
    watch: Annotated[WatchRules, _section(", ".join(WatchRules.model_fields))] = WatchRules()
    adopt: Annotated[dict[TableName, _Adopt], _entries_or_none("one entry per adopted table")] = {}


class LimitsRules(_Rules):
    batch_rows: int = _whole_number(2_000_000, 1, 10_000_000)
    slice_rows: int = _whole_number(100_000, 1, 10_000_000)
    slice_timeout_seconds: int = _whole_number(900, 1, _DAY_SECONDS)
    linger_seconds: int = _whole_number(0, 0, 3_600)
    spark_from_rows: int = _whole_number(50_000, 1, 1_000_000_000)
    run_timeout_seconds: int = _whole_number(21_600, 60, 7 * _DAY_SECONDS)
    target_lag_seconds: int = _whole_number(TARGET_LAG_SECONDS, 1, 7 * _DAY_SECONDS)
    holdback_rows: int = _whole_number(HOLDBACK_ROWS, 1, 1_000_000)
    fragments: int = _whole_number(FRAGMENTS, 100, 100_000_000)

    @field_validator("slice_rows")
    @classmethod
    def _fits_the_batch(cls, slice_rows: int, info: ValidationInfo) -> int:
        batch_rows = info.data.get("batch_rows", slice_rows)
        if slice_rows > batch_rows:
            raise _broken(f"at most batch_rows, which is {batch_rows}")
        if slice_rows * MAX_SLICES_PER_BATCH < batch_rows:
            raise _broken(f"large enough that {batch_rows} batch_rows make at most {MAX_SLICES_PER_BATCH} slices")
        return slice_rows


class RetriesRules(_Rules):
    attempts: int = _whole_number(5, 1, 100)
    delay_seconds: int = _whole_number(10, 0, _DAY_SECONDS)
    backoff: float = Field(default=2.0, ge=1, le=10, description="a number from 1 to 10")
    max_delay_seconds: int = _whole_number(300, 0, _DAY_SECONDS)

    @field_validator("max_delay_seconds")
    @classmethod
    def _not_below_the_first(cls, max_delay_seconds: int, info: ValidationInfo) -> int:
        delay_seconds = info.data.get("delay_seconds", 0)
        if max_delay_seconds < delay_seconds:
            raise _broken(f"at least delay_seconds, which is {delay_seconds}")
        return max_delay_seconds


class SparkRules(_Rules):
    conn_id: Connection = SPARK_CONN_ID
    conf: Annotated[dict[SettingName, SettingValue], _settings()] = {}
    deploy_mode: DeployMode = "client"
    queue: Queue | None = None


class NextRules(_Rules):
    function: Function | None = Field(default=None, alias="with")
    sql: Sql | None = None
    version: int = Field(ge=1, le=1_000_000, description="a whole number from 1 to 1000000")


class DeriveRules(_Rules):
    stream: Name = Field(alias="from", description="the name of a stream")
    function: Function | None = Field(default=None, alias="with")
    sql: Sql | None = None
    version: int = Field(ge=1, le=1_000_000, description="a whole number from 1 to 1000000")
    start: Start | None = None
    sender: Sender | None = None
    batch_rows: int = _whole_number(DERIVE_BATCH_ROWS, 1, 10_000_000)
    row_errors: RowErrors = "stop"
    dead_letter_limit: int = _whole_number(DEAD_LETTER_LIMIT, 1, 1_000_000_000)
    changed_source: ChangedSource = "refuse"
    next: Annotated[NextRules, _section(", ".join(NEXT_KEYS))] | None = None


class RouteRules(_Rules):
    topics: list[Topic] = Field(min_length=1, description="a list of one or more topics")
    path: list[StoreInPath] = Field(description="a list of two or more stores")
    topics_by_subscription: bool = Field(default=False, description="true or false")
    policy: Policy = "cascade"
    processed_by: list[Subscription] = Field(default=[], description="a list of subscriptions at the last store")
    integrity: Integrity = "count"
    runner: Runner = "auto"
    owner: Owner = "relaybox"
    order: Order = "none"
    stream: Name | None = None
    message_id_window: int = _whole_number(MESSAGE_ID_WINDOW, 0, 1_000_000)
    limits: Annotated[LimitsRules, _section(", ".join(LimitsRules.model_fields))] = LimitsRules()
    retries: Annotated[RetriesRules, _section(", ".join(RetriesRules.model_fields))] = RetriesRules()
    retention: Annotated[RetentionRules, _section(", ".join(RetentionRules.model_fields))] = RetentionRules()
    spark: Annotated[SparkRules, _section(", ".join(SparkRules.model_fields))] = SparkRules()
    derive: Annotated[DeriveRules, _section(", ".join(DERIVE_KEYS))] | None = None


class ExportRules(_Rules):
    stream: Name = Field(description="the name of a stream")
    store: StoreInPath = Field(description="the name of a store")
    to: Format = Field(description="delta, iceberg or parquet")
    table: CatalogTable | None = None
    path: Directory = Field(
        description="an absolute path, or a URI such as s3a://bucket/path; no blanks, no control characters, no user"
    )
    partition_by: PartitionBy = "none"
    start: Start = "earliest"
    batch_messages: int = _whole_number(BATCH_MESSAGES, 1, 100_000_000)
    file_messages: int = _whole_number(FILE_MESSAGES, 1, 10_000_000)
    owner: Owner = "relaybox"
    retries: Annotated[RetriesRules, _section(", ".join(RetriesRules.model_fields))] = RetriesRules()
    spark: Annotated[SparkRules, _section(", ".join(SparkRules.model_fields))] = SparkRules()


class SinkRules(_Rules):
    store: StoreInPath = Field(description="the name of a store")
    stream: Name = Field(description="the name of a stream")
    topic: Topic | None = None
    start: Start = "earliest"
    lanes: int = _whole_number(1, 1, 64)
    lane_by: LaneKey = "sender"
    hold_sender: bool = Field(default=False, description="true or false")
    delayed: DelayedWay = "hold"
    nack_limit: int = _whole_number(5, 1, 1_000)
    retry_seconds: int = _whole_number(30, 0, _DAY_SECONDS)
    messages_per_second: float | None = Field(default=None, ge=0.1, le=100_000, description="a number from 0.1 to 100000")
    open_after_failures: int = _whole_number(5, 1, 1_000)
    max_pause_seconds: int = _whole_number(300, 1, _DAY_SECONDS)
    owner: Owner = "relaybox"
    retries: Annotated[RetriesRules, _section(", ".join(RetriesRules.model_fields))] = RetriesRules()


class WebhookRules(SinkRules):
    url: Url = Field(description=URL_RULE)
    secrets: list[Secret] = Field(min_length=1, max_length=4, description="a list of one to four secrets, by their names")
    plain_http: bool = Field(default=False, description="true or false")
    connect_seconds: int = _whole_number(5, 1, 60)
    read_seconds: int = _whole_number(15, 1, 120)
    total_seconds: int = _whole_number(30, 1, 120)
    answer_bytes: int = _whole_number(65_536, 0, 16_777_216)
    cloudevents: CloudEventsMode = "none"


class KafkaRules(SinkRules):
    bootstrap_servers: Servers = Field(description="one or more host:port, with commas in between")
    to_topic: Target = "{topic}"
    key_by: RecordKey = "sender"
    cloudevents: bool = Field(default=False, description="true or false")
    properties: Annotated[dict[PropertyName, PropertyValue], _entries_or_none("properties of librdkafka")] = {}
    secrets: Annotated[dict[SecretProperty, Secret], _entries_or_none("properties of librdkafka that are secret")] = {}
    delivery_seconds: int = _whole_number(30, 1, 120)
    batch_messages: int = _whole_number(500, 1, 10_000)


_YEAR_SECONDS = 365 * _DAY_SECONDS


class PayloadRules(_Rules):
    location: PayloadLocation = Field(description=LOCATION_RULE)
    grace_seconds: int = _whole_number(GRACE_SECONDS, 3600, _YEAR_SECONDS)
    keep_seconds: int = _whole_number(0, 0, 10 * _YEAR_SECONDS)
    trash_seconds: int = _whole_number(TRASH_SECONDS, 0, _YEAR_SECONDS)


_Store = Annotated[StoreRules, _section(", ".join(StoreRules.model_fields))]
_Route = Annotated[RouteRules, _section(", ".join(RouteRules.model_fields))]
_Export = Annotated[ExportRules, _section(", ".join(EXPORT_KEYS))]
_Webhook = Annotated[WebhookRules, _section(", ".join(WEBHOOK_KEYS))]
_Kafka = Annotated[KafkaRules, _section(", ".join(KAFKA_KEYS))]
_PayloadPlace = Annotated[PayloadRules, _section(", ".join(PAYLOAD_KEYS))]


class SchemaCheckRules(_Rules):
    outbox: OutboxCheck = "none"
    first_hop: FirstHopCheck = "none"


_SchemaCheck = Annotated[SchemaCheckRules, _section(", ".join(SchemaCheckRules.model_fields))]


class FileRules(_Rules):
    stores: dict[Name, _Store] = Field(min_length=1, description="a section with one entry per store")
    routes: dict[Name, _Route] = Field(min_length=1, description="a section with one entry per route")
    exports: Annotated[dict[Name, _Export], _entries_or_none("one entry per export")] = {}
    schemas: Annotated[
        dict[Topic, Annotated[list[SchemaFile], _list_of("one or more files")]], _entries_or_none("one entry per topic")
    ] = {}
    schema_checks: Annotated[dict[Topic, _SchemaCheck], _entries_or_none("one entry per topic")] = {}
    webhooks: Annotated[dict[Name, _Webhook], _entries_or_none("one entry per webhook")] = {}
    kafka: Annotated[dict[Name, _Kafka], _entries_or_none("one entry per sink of Kafka")] = {}
    payloads: Annotated[dict[Name, _PayloadPlace], _entries_or_none("one entry per place of large payloads")] = {}


def _problem(error: ErrorDetails) -> Problem:
    """pydantic's finding in our words; the value of an unknown key is not shown, since it may be a secret."""
    location = error["loc"]
    if error["type"] == "extra_forbidden":
        known = _fields_of(location[:-1])
        return Problem(location, "unknown key", unknown=str(location[-1]), known=known)
    if error["type"] == "rule":
        return Problem(_without_key_mark(location), f"got {_show_found(location, error['input'])}; expected {error['msg']}")
    if not location:
        found = "empty" if error["input"] is None else f"got {show(error['input'])}"
        return Problem((), f"{found}; expected the sections stores and routes. {SMALLEST_FILE}")
    rule = _fields_of(location[:-1])[str(location[-1])].description
    found = "missing" if error["type"] == "missing" else f"got {_show_found(location, error['input'])}"
    return Problem(location, f"{found}; expected {rule}")


def _show_found(location: Location, value: object) -> str:
    """Nothing of a text below `secrets`: somebody wrote the secret itself there."""
    return "a text (not shown)" if "secrets" in location and isinstance(value, str) else show(value)


def _without_key_mark(location: Location) -> Location:
    """pydantic writes ("stores", "Hub", "[key]") where the key itself of a mapping is wrong."""
    return location[:-1] if location[-1:] == ("[key]",) else location


def _fields_of(section: Location) -> dict[str, FieldInfo]:
    """The rules of a section's keys, by the names that they have in the file."""
    return {field.alias or name: field for name, field in _rules_of(section).model_fields.items()}


def _rules_of(section: Location) -> type[_Rules]:
    if not section:
        return FileRules
    if len(section) == 2:
        return _ENTRIES[str(section[0])]
    return AdoptRules if section[2:3] == ("adopt",) else _SECTIONS[str(section[-1])]


_ENTRIES: dict[str, type[_Rules]] = {
    "stores": StoreRules,
    "routes": RouteRules,
    "exports": ExportRules,
    "schema_checks": SchemaCheckRules,
    "webhooks": WebhookRules,
    "kafka": KafkaRules,
    "payloads": PayloadRules,
}

_SECTIONS: dict[str, type[_Rules]] = {
    "limits": LimitsRules,
    "retries": RetriesRules,
    "retention": RetentionRules,
    "watch": WatchRules,
    "spark": SparkRules,
    "derive": DeriveRules,
    "next": NextRules,
}


def _contradictions(document: object) -> Iterator[Problem]:
    """What is wrong between values, each of which may be right by itself. Values of a wrong kind are pydantic's business."""
    stores, routes = entries(document, "stores"), entries(document, "routes")
    yield from store_contradictions(stores)
    yield from route_contradictions(stores, routes)
    yield from retention_contradictions(stores, routes)
    yield from stream_contradictions(routes)
    yield from watch_contradictions(stores, routes)
    yield from spark_contradictions(stores, routes)
    yield from derive_contradictions(routes)
    yield from export_contradictions(stores, routes, entries(document, "exports"))
    yield from schema_contradictions(routes, entries(document, "schemas"), entries(document, "schema_checks"))
    for section in ("webhooks", "kafka"):
        yield from sink_contradictions(stores, routes, section, entries(document, section))
    yield from payload_contradictions(entries(document, "payloads"))
    yield from adopt_contradictions(stores)
