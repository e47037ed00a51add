"""Payloads by a schema: Spark's from_json, in the stage that reads the messages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as f
from pyspark.sql.types import StringType, StructType

from relaybox.spark.frames.options import refuse

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

PERMISSIVE, FAILFAST = "permissive", "failfast"
_INVALID = "_relaybox_invalid"
_PARSED = "_relaybox_payload"


def parse_payload(messages: DataFrame, schema: str | StructType, *, mode: str = PERMISSIVE) -> DataFrame:
    """Returns the messages with their payload as a struct. Reads nothing: Spark does it in the query that uses the payload.

    A message without a text payload has null. `payload_bytes` stays as it is.

    Args:
        messages: read by the format relaybox, with the columns payload and, for failfast, stream_position.
        schema: of the JSON of a payload: a StructType, or a text such as `flight int, dep_delay int`.
        mode: permissive: a field that does not fit is null, and all of a payload that is no JSON. failfast: both stop the query, and the
            error names the stream position.

    Raises:
        ConfigurationError: the mode is unknown, or a column is missing.
    """
    if mode not in (PERMISSIVE, FAILFAST):
        raise refuse(f"parse_payload has no mode {mode!r}.", f"Give {PERMISSIVE} or {FAILFAST}.")
    for name in ("payload", *(["stream_position"] if mode == FAILFAST else [])):
        if name not in messages.columns:
            raise refuse(f"parse_payload in mode {mode} needs column {name}.", "Parse the payload before you leave it out.")
    if mode == PERMISSIVE:
        return messages.withColumn(
            "payload", f.from_json("payload", schema)
        )  # without options, so that Spark parses what is used
    with_invalid = (
        StructType([*schema.fields]).add(_INVALID, StringType())
        if isinstance(schema, StructType)
        else f"{schema}, {_INVALID} string"
    )
    parsed = messages.withColumn(
        _PARSED, f.from_json("payload", with_invalid, {"mode": PERMISSIVE, "columnNameOfCorruptRecord": _INVALID})
    )
    shown = schema.simpleString() if isinstance(schema, StructType) else schema
    told = f.concat(
        f.lit("the payload at stream position "),
        f.col("stream_position").cast("string"),
        f.lit(f" is not of the schema {shown}."),
    )
    checked = f.when(f.col(_PARSED)[_INVALID].isNotNull(), f.raise_error(told)).otherwise(f.col(_PARSED).dropFields(_INVALID))
    return parsed.withColumn("payload", checked).drop(_PARSED)
