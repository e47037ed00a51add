"""What may stand at each key of relaybox.yaml: the rule of each value, and the sections with their defaults."""

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainValidator, ValidationInfo, field_validator
from pydantic.fields import FieldInfo

from relaybox.routes.adopt_rules import ON_UNMAPPED, broken_mapped, broken_table
from relaybox.routes.derive_rules import (
    CHANGED_SOURCES,
    DEAD_LETTER_LIMIT,
    DERIVE_BATCH_ROWS,
    ROW_ERRORS,
)
from relaybox.routes.export_rules import (
    BATCH_MESSAGES,
    FILE_MESSAGES,
    PARTITIONINGS,
    broken_format,
)
from relaybox.routes.payload_rules import (
    GRACE_SECONDS,
    LOCATION_RULE,
    TRASH_SECONDS,
    broken_location,
)
from relaybox.routes.retention_rules import STOPPED_CONSUMERS
from relaybox.routes.route_rules import INTEGRITIES, POLICIES, RUNNERS
from relaybox.routes.schema_rules import OUTBOX_CHECKS, broken_first_hop_check
from relaybox.routes.sink_rules import (
    CLOUDEVENTS_MODES,
    DELAYED_WAYS,
    LANE_KEYS,
    RECORD_KEYS,
    URL_RULE,
    WHERE_SECRETS_ARE,
    WHERE_SECRETS_ARE_RULE,
    broken_property_name,
    broken_property_value,
    broken_secret_property,
    broken_servers,
    broken_target,
    broken_url,
)
from relaybox.routes.spark_rules import (
    DEPLOY_MODES,
    SPARK_CONN_ID,
    broken_setting_name,
    broken_setting_value,
)
from relaybox.routes.start_rules import broken_start
from relaybox.routes.store_rules import DURABILITIES
from relaybox.routes.stream_rules import FRAGMENTS, HOLDBACK_ROWS, MESSAGE_ID_WINDOW, ORDERS
from relaybox.routes.value_checks import (
    broken,
    list_of,
    named_one_of,
    one_of,
    section,
    text,
    text_by,
    true_or_false,
    whole_number,
)
from relaybox.routes.watch_rules import INTERVAL_SECONDS, TARGET_LAG_SECONDS

MAX_SLICES_PER_BATCH = 10_000

_DAY_SECONDS = 24 * 60 * 60
_YEAR_SECONDS = 365 * _DAY_SECONDS
_IDENTIFIER = r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}"
_IDENTIFIER_RULE = "1 to 63 of A-Z a-z 0-9 _ . -, the first a letter or a digit"
_CONTROLS = r"\x00-\x1f\x7f-\x9f\u2028\u2029"

Name = Annotated[str, text(r"[a-z][a-z0-9_-]{0,29}", "a name of 1 to 30 of a-z 0-9 _ -, the first a letter")]
Topic = Annotated[str, text(r"[a-z0-9_.-]{1,48}", "a topic of 1 to 48 of a-z 0-9 _ . -")]
Subscription = Annotated[str, text(r"[a-z0-9_.-]{1,60}", "a subscription of 1 to 60 of a-z 0-9 _ . -")]
Directory = Annotated[
    str,
    text(
        rf"(/|[a-z][a-z0-9+.-]*://)[^\s@?#'\"{_CONTROLS}]{{1,900}}",
        "an absolute path, or a URI such as s3a://bucket/path; no blanks, no control characters, no user",
    ),
]
StoreInPath = Annotated[str, text(r"(?s).*", "the name of a store")]
Service = Annotated[str, text(_IDENTIFIER, f"a libpq service name of {_IDENTIFIER_RULE}")]
Pool = Annotated[str, text(_IDENTIFIER, f"an Airflow pool of {_IDENTIFIER_RULE}")]
Owner = Annotated[str, text(r"[A-Za-z0-9][A-Za-z0-9_.@ -]{0,62}", "an owner of 1 to 63 of A-Z a-z 0-9 _ . @ - and blanks")]
Connection = Annotated[str, text(_IDENTIFIER, f"an Airflow connection id of {_IDENTIFIER_RULE}")]
Policy = Annotated[str, one_of(POLICIES, "a policy", "a text, the name of a policy")]
Order = Annotated[str, one_of(ORDERS, "an order", "a text, the name of an order")]
Integrity = Annotated[str, named_one_of(INTEGRITIES)]
Runner = Annotated[str, named_one_of(RUNNERS)]
Durability = Annotated[str, named_one_of(DURABILITIES)]
Text = Annotated[
    str, text(rf"(?!\s)[^{_CONTROLS}]{{3,200}}(?<!\s)", "a text of 3 to 200 characters in one line, without control characters")
]
StoppedConsumer = Annotated[str, named_one_of(STOPPED_CONSUMERS)]
DeployMode = Annotated[str, named_one_of(DEPLOY_MODES)]
LaneKey = Annotated[str, named_one_of(LANE_KEYS)]
DelayedWay = Annotated[str, named_one_of(DELAYED_WAYS)]
RecordKey = Annotated[str, named_one_of(RECORD_KEYS)]
CloudEventsMode = Annotated[str, named_one_of(CLOUDEVENTS_MODES)]
OutboxCheck = Annotated[str, named_one_of(OUTBOX_CHECKS)]
FirstHopCheck = Annotated[str, text_by(broken_first_hop_check)]
Secret = Annotated[str, text(WHERE_SECRETS_ARE, WHERE_SECRETS_ARE_RULE)]
Url = Annotated[str, text_by(broken_url)]
Servers = Annotated[str, text_by(broken_servers)]
Target = Annotated[str, text_by(broken_target)]
PropertyName = Annotated[str, text_by(broken_property_name)]
PropertyValue = Annotated[str, text_by(broken_property_value)]
SecretProperty = Annotated[str, text_by(broken_secret_property)]
Queue = Annotated[str, text(r"[A-Za-z0-9_.-]{1,200}", "a queue of YARN, 1 to 200 of A-Z a-z 0-9 _ . -")]
SettingName = Annotated[str, text_by(broken_setting_name)]
SettingValue = Annotated[str, text_by(broken_setting_value)]
Function = Annotated[
    str, text(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*", "a function as package.module:function, of A-Z a-z 0-9 _")
]
Sql = Annotated[str, text(r"(?s)(?=.*\S)[^\x00]{1,20000}", "a query of Spark SQL of at most 20000 characters")]
SchemaFile = Annotated[
    str, text(rf"[^\s{_CONTROLS}]{{1,200}}", "the path of a JSON file, from the folder of this file on; no blanks")
]
Sender = Annotated[str, text(r"[A-Za-z0-9_.:-]{1,48}", "a sender of 1 to 48 of A-Z a-z 0-9 _ . : -")]
Start = Annotated[str, text_by(broken_start)]
RowErrors = Annotated[str, named_one_of(ROW_ERRORS)]
ChangedSource = Annotated[str, named_one_of(CHANGED_SOURCES)]
Format = Annotated[str, text_by(broken_format)]
CatalogTable = Annotated[
    str, text(r"[A-Za-z0-9_]{1,100}(\.[A-Za-z0-9_]{1,100}){1,9}", "a table of the catalog as namespace.name, of A-Z a-z 0-9 _")
]
PartitionBy = Annotated[str, named_one_of(PARTITIONINGS)]
PayloadLocation = Annotated[str, text_by(broken_location)]


def _mapped(field: str) -> PlainValidator:
    """A text of the map of an adopted table; of headers also a section."""

    def check(value: object) -> object:
        if (rule := broken_mapped(field, value)) is not None:
            raise broken(rule)
        return value

    return PlainValidator(check)


TableName = Annotated[str, text_by(broken_table)]
OnUnmapped = Annotated[str, named_one_of(ON_UNMAPPED)]


class Rules(BaseModel):
    """A section of the file: each field is the rule of a key."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


def fields_of(rules: type[Rules]) -> dict[str, FieldInfo]:
    """The rules of a section's keys, by the names that they have in the file."""
    return {field.alias or name: field for name, field in rules.model_fields.items()}


def _keys_of(rules: type[Rules]) -> BeforeValidator:
    """A section of these rules; its error names the keys."""
    return section(f"with the keys {', '.join(fields_of(rules))}")


class RetentionRules(Rules):
    replay_window_seconds: int | None = whole_number(None, 0, 10 * _YEAR_SECONDS)
    stopped_consumer: StoppedConsumer | None = None
    detach_after_seconds: int | None = whole_number(None, 0, 10 * _YEAR_SECONDS)
    detach_to: Directory | None = None


_Retention = Annotated[RetentionRules, _keys_of(RetentionRules)]


class WatchRules(Rules):
    interval_seconds: int = whole_number(INTERVAL_SECONDS, 1, _DAY_SECONDS)
    max_interval_seconds: int | None = whole_number(None, 1, _DAY_SECONDS)
    backoff: float = Field(default=2.0, ge=1, le=10, description="a number from 1 to 10")
    listen: bool = true_or_false(default=True)


_Watch = Annotated[WatchRules, _keys_of(WatchRules)]


class AdoptRules(Rules):
    message_id: Annotated[str, _mapped("message_id")] | None = None
    topic: Annotated[str, _mapped("topic")] | None = None
    sender: Annotated[str, _mapped("sender")] | None = None
    key: Annotated[str, _mapped("key")] | None = None
    payload: Annotated[str, _mapped("payload")] | None = None
    headers: Annotated[Any, _mapped("headers")] | None = None
    on_unmapped: OnUnmapped = "fail"


_Adopt = Annotated[AdoptRules, _keys_of(AdoptRules)]


class StoreRules(Rules):
    service: Service | None = None
    connection: Connection | None = None
    pool: Pool = "default_pool"
    bind_senders: bool | None = true_or_false(default=None)
    bind_subscriptions: bool | None = true_or_false(default=None)
    bind_topics: bool | None = true_or_false(default=None)
    require_approval: bool | None = true_or_false(default=None)
    durability: Durability = "server"
    durability_reason: Text | None = None
    retention: _Retention = RetentionRules()
    watch: _Watch = WatchRules()
    adopt: Annotated[dict[TableName, _Adopt], section("with one entry per adopted table")] = {}


class LimitsRules(Rules):
    batch_rows: int = whole_number(2_000_000, 1, 10_000_000)
    slice_rows: int = whole_number(100_000, 1, 10_000_000)
    slice_timeout_seconds: int = whole_number(900, 1, _DAY_SECONDS)
    linger_seconds: int = whole_number(0, 0, 3_600)
    spark_from_rows: int = whole_number(50_000, 1, 1_000_000_000)
    run_timeout_seconds: int = whole_number(21_600, 60, 7 * _DAY_SECONDS)
    target_lag_seconds: int = whole_number(TARGET_LAG_SECONDS, 1, 7 * _DAY_SECONDS)
    holdback_rows: int = whole_number(HOLDBACK_ROWS, 1, 1_000_000)
    fragments: int = whole_number(FRAGMENTS, 100, 100_000_000)

    @field_validator("slice_rows")
    @classmethod
    def _fits_the_batch(cls, slice_rows: int, info: ValidationInfo) -> int:
        batch_rows = info.data.get("batch_rows", slice_rows)
        if slice_rows > batch_rows:
            raise broken(f"at most batch_rows, which is {batch_rows}")
        if slice_rows * MAX_SLICES_PER_BATCH < batch_rows:
            raise broken(f"large enough that {batch_rows} batch_rows make at most {MAX_SLICES_PER_BATCH} slices")
        return slice_rows


_Limits = Annotated[LimitsRules, _keys_of(LimitsRules)]


class RetriesRules(Rules):
    attempts: int = whole_number(5, 1, 100)
    delay_seconds: int = whole_number(10, 0, _DAY_SECONDS)
    backoff: float = Field(default=2.0, ge=1, le=10, description="a number from 1 to 10")
    max_delay_seconds: int = whole_number(300, 0, _DAY_SECONDS)

    @field_validator("max_delay_seconds")
    @classmethod
    def _not_below_the_first(cls, max_delay_seconds: int, info: ValidationInfo) -> int:
        delay_seconds = info.data.get("delay_seconds", 0)
        if max_delay_seconds < delay_seconds:
            raise broken(f"at least delay_seconds, which is {delay_seconds}")
        return max_delay_seconds


_Retries = Annotated[RetriesRules, _keys_of(RetriesRules)]


class SparkRules(Rules):
    conn_id: Connection = SPARK_CONN_ID
    conf: Annotated[dict[SettingName, SettingValue], section('of Spark settings, such as spark.executor.memory: "2g"')] = {}
    deploy_mode: DeployMode = "client"
    queue: Queue | None = None


_Spark = Annotated[SparkRules, _keys_of(SparkRules)]


class NextRules(Rules):
    function: Function | None = Field(default=None, alias="with")
    sql: Sql | None = None
    version: int = whole_number(..., 1, 1_000_000)


_Next = Annotated[NextRules, _keys_of(NextRules)]


class DeriveRules(Rules):
    stream: Name = Field(alias="from", description="the name of a stream")
    function: Function | None = Field(default=None, alias="with")
    sql: Sql | None = None
    version: int = whole_number(..., 1, 1_000_000)
    start: Start | None = None
    sender: Sender | None = None
    batch_rows: int = whole_number(DERIVE_BATCH_ROWS, 1, 10_000_000)
    row_errors: RowErrors = "stop"
    dead_letter_limit: int = whole_number(DEAD_LETTER_LIMIT, 1, 1_000_000_000)
    changed_source: ChangedSource = "refuse"
    next: _Next | None = None


_Derive = Annotated[DeriveRules, _keys_of(DeriveRules)]


class RouteRules(Rules):
    topics: list[Topic] = Field(min_length=1, description="a list of one or more topics")
    path: list[StoreInPath] = Field(description="a list of two or more stores")
    topics_by_subscription: bool = true_or_false(default=False)
    policy: Policy = "cascade"
    processed_by: list[Subscription] = Field(default=[], description="a list of subscriptions at the last store")
    integrity: Integrity = "count"
    runner: Runner = "auto"
    owner: Owner = "relaybox"
    order: Order = "none"
    stream: Name | None = None
    message_id_window: int = whole_number(MESSAGE_ID_WINDOW, 0, 1_000_000)
    limits: _Limits = LimitsRules()
    retries: _Retries = RetriesRules()
    retention: _Retention = RetentionRules()
    spark: _Spark = SparkRules()
    derive: _Derive | None = None


class ExportRules(Rules):
    stream: Name = Field(description="the name of a stream")
    store: StoreInPath = Field(description="the name of a store")
    to: Format = Field(description="delta, iceberg or parquet")
    table: CatalogTable | None = None
    path: Directory = Field(
        description="an absolute path, or a URI such as s3a://bucket/path; no blanks, no control characters, no user"
    )
    partition_by: PartitionBy = "none"
    start: Start = "earliest"
    batch_messages: int = whole_number(BATCH_MESSAGES, 1, 100_000_000)
    file_messages: int = whole_number(FILE_MESSAGES, 1, 10_000_000)
    owner: Owner = "relaybox"
    retries: _Retries = RetriesRules()
    spark: _Spark = SparkRules()


class SinkRules(Rules):
    store: StoreInPath = Field(description="the name of a store")
    stream: Name = Field(description="the name of a stream")
    topic: Topic | None = None
    start: Start = "earliest"
    lanes: int = whole_number(1, 1, 64)
    lane_by: LaneKey = "sender"
    hold_sender: bool = true_or_false(default=False)
    delayed: DelayedWay = "hold"
    nack_limit: int = whole_number(5, 1, 1_000)
    retry_seconds: int = whole_number(30, 0, _DAY_SECONDS)
    messages_per_second: float | None = Field(default=None, ge=0.1, le=100_000, description="a number from 0.1 to 100000")
    open_after_failures: int = whole_number(5, 1, 1_000)
    max_pause_seconds: int = whole_number(300, 1, _DAY_SECONDS)
    owner: Owner = "relaybox"
    retries: _Retries = RetriesRules()


class WebhookRules(SinkRules):
    url: Url = Field(description=URL_RULE)
    secrets: list[Secret] = Field(min_length=1, max_length=4, description="a list of one to four secrets, by their names")
    plain_http: bool = true_or_false(default=False)
    connect_seconds: int = whole_number(5, 1, 60)
    read_seconds: int = whole_number(15, 1, 120)
    total_seconds: int = whole_number(30, 1, 120)
    answer_bytes: int = whole_number(65_536, 0, 16_777_216)
    cloudevents: CloudEventsMode = "none"


class KafkaRules(SinkRules):
    bootstrap_servers: Servers = Field(description="one or more host:port, with commas in between")
    to_topic: Target = "{topic}"
    key_by: RecordKey = "sender"
    cloudevents: bool = true_or_false(default=False)
    properties: Annotated[dict[PropertyName, PropertyValue], section("with properties of librdkafka")] = {}
    secrets: Annotated[dict[SecretProperty, Secret], section("with properties of librdkafka that are secret")] = {}
    delivery_seconds: int = whole_number(30, 1, 120)
    batch_messages: int = whole_number(500, 1, 10_000)


class PayloadRules(Rules):
    location: PayloadLocation = Field(description=LOCATION_RULE)
    grace_seconds: int = whole_number(GRACE_SECONDS, 3600, _YEAR_SECONDS)
    keep_seconds: int = whole_number(0, 0, 10 * _YEAR_SECONDS)
    trash_seconds: int = whole_number(TRASH_SECONDS, 0, _YEAR_SECONDS)


class SchemaCheckRules(Rules):
    outbox: OutboxCheck = "none"
    first_hop: FirstHopCheck = "none"


_Store = Annotated[StoreRules, _keys_of(StoreRules)]
_Route = Annotated[RouteRules, _keys_of(RouteRules)]
_Export = Annotated[ExportRules, _keys_of(ExportRules)]
_Webhook = Annotated[WebhookRules, _keys_of(WebhookRules)]
_Kafka = Annotated[KafkaRules, _keys_of(KafkaRules)]
_PayloadPlace = Annotated[PayloadRules, _keys_of(PayloadRules)]
_SchemaCheck = Annotated[SchemaCheckRules, _keys_of(SchemaCheckRules)]


class FileRules(Rules):
    stores: dict[Name, _Store] = Field(min_length=1, description="a section with one entry per store")
    routes: dict[Name, _Route] = Field(min_length=1, description="a section with one entry per route")
    exports: Annotated[dict[Name, _Export], section("with one entry per export")] = {}
    schemas: Annotated[
        dict[Topic, Annotated[list[SchemaFile], list_of("one or more files")]], section("with one entry per topic")
    ] = {}
    schema_checks: Annotated[dict[Topic, _SchemaCheck], section("with one entry per topic")] = {}
    webhooks: Annotated[dict[Name, _Webhook], section("with one entry per webhook")] = {}
    kafka: Annotated[dict[Name, _Kafka], section("with one entry per sink of Kafka")] = {}
    payloads: Annotated[dict[Name, _PayloadPlace], section("with one entry per place of large payloads")] = {}
