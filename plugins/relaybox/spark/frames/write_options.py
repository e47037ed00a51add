"""What a writer into an outbox is told by its options and by the columns of the DataFrame."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from pyspark.sql.types import BinaryType, StringType, StructType

from relaybox.spark.frames.options import refuse, refuse_secrets, require_service

_KNOWN = ("store", "sender", "topic", "write_id", "numbered", "atomic", "wait_seconds", "checkpointlocation", "path")
WAIT_SECONDS = 600
"""For the partition before. Spark runs tasks in the order of partitions; one that failed and waits for a core holds up those after it."""
_COLUMNS = {
    "topic": StringType(),
    "key": StringType(),
    "headers": StringType(),
    "payload": StringType(),
    "payload_bytes": BinaryType(),
}


@dataclass(frozen=True)
class WriteOptions:
    """Where messages go.

    Attributes:
        store: the libpq service of the store, on each executor; its login is a producer's.
        sender: of all messages. Each sender has its own writes.
        topic: of all messages; None: the column topic.
        write_id: names a batch write: written once, however often it is run. None: a streaming query, which has an id of its own.
        numbered: the sender is declared gapless: messages get the next indexes of its counter.
        atomic: all partitions in one transaction, which the driver makes; so it holds the rows.
        wait_seconds: how long a task waits for the partition before.
    """

    store: str
    sender: str
    topic: str | None
    write_id: str | None
    numbered: bool
    atomic: bool = False
    wait_seconds: int = WAIT_SECONDS


def write_options(given: Mapping[str, str], schema: StructType, *, overwrite: bool, streaming: bool) -> WriteOptions:
    """Returns the options of a writer, and refuses columns that a message does not have.

    Raises:
        ConfigurationError: an option or a column is missing, unknown, or a secret; or the mode is not append.
    """
    options = {name.lower(): value for name, value in given.items()}
    refuse_secrets(options)
    if overwrite:
        raise refuse("an outbox is never overwritten.", 'Give .mode("append"), or .outputMode("append").')
    for name in options:
        if name not in _KNOWN:
            raise refuse(
                f"a writer has no option {name}.", "Its options: store, sender, topic, write_id, numbered, atomic, wait_seconds."
            )
    required = ("store", "sender") if streaming else ("store", "sender", "write_id")
    for name in required:
        if not options.get(name):
            why = " It names the write, so that a repeat sends nothing." if name == "write_id" else ""
            raise refuse(f"option {name} is missing.{why}", f'Give .option("{name}", ...).')
    require_service(options["store"])
    write_id = options.get("write_id")
    if write_id is not None and (streaming or not re.fullmatch(r"[!-~]{1,300}", write_id)):
        said = "a streaming query has an id of its own" if streaming else "it has 1 to 300 printable characters without blanks"
        raise refuse(f"option write_id is {write_id!r}: {said}.", "Correct it.")
    for name in ("numbered", "atomic"):
        if options.get(name, "false") not in ("true", "false"):
            raise refuse(f"option {name} is {options[name]!r}.", "Give true or false.")
    wait_seconds = options.get("wait_seconds", str(WAIT_SECONDS))
    if not re.fullmatch(r"[1-9][0-9]{0,5}", wait_seconds):
        raise refuse(f"option wait_seconds is {wait_seconds!r}.", "Give a number of seconds, from 1 to 999999.")
    require_message_columns(schema)
    _require_one_topic(schema, has_topic="topic" in options)
    return WriteOptions(
        options["store"],
        options["sender"],
        options.get("topic"),
        write_id,
        numbered=options.get("numbered") == "true",
        atomic=options.get("atomic") == "true",
        wait_seconds=int(wait_seconds),
    )


def require_message_columns(schema: StructType, *, but: Collection[str] = ()) -> None:
    """Refuses columns that a message does not have, except those named.

    Raises:
        ConfigurationError: a column is unknown or has another type, or there is no payload.
    """
    for field in schema.fields:
        if field.name in but:
            continue
        wanted = _COLUMNS.get(field.name)
        if wanted is None:
            raise refuse(
                f"a message has no column {field.name}.", f"Select {', '.join(_COLUMNS)}; to_json() makes a payload of others."
            )
        if field.dataType != wanted:
            raise refuse(
                f"column {field.name} is {field.dataType.simpleString()}, a message has {wanted.simpleString()}.",
                "Cast it in the query.",
            )
    names = schema.fieldNames()
    if "payload" not in names and "payload_bytes" not in names:
        raise refuse("there is no column payload or payload_bytes.", "Select one of them.")


def _require_one_topic(schema: StructType, *, has_topic: bool) -> None:
    if has_topic == ("topic" in schema.fieldNames()):
        raise refuse(f"there is {'both' if has_topic else 'neither'} a column topic and an option topic.", "Give one of them.")
