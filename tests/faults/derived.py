"""What the derivation of the fault matrix makes of a message: none, one or two, as its payload says. For drivers and for the checker.

The checker computes it once more, from the messages that the stream has, and takes no word of Relaybox for it.
"""

from __future__ import annotations

import hashlib
import zlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ROUTE = "delays"
FUNCTION = f"{__name__}:derive"


def derived_payloads(payload: str) -> list[str]:
    """What is derived from a message, in its order."""
    return [f"{number} of {payload}" for number in range(1, zlib.crc32(payload.encode()) % 3 + 1)]


def derive(messages: DataFrame) -> DataFrame:
    """The same as a function of DataFrames, row by row."""
    from pyspark.sql import functions as f

    count = (f.crc32("payload") % 3).cast("int")
    numbers = f.when(count == 0, f.array().cast("array<int>")).otherwise(f.sequence(f.lit(1), count))
    numbered = messages.select("stream_position", "key", "payload", f.explode(numbers).alias("number"))
    return numbered.select("stream_position", "key", f.concat("number", f.lit(" of "), "payload").alias("payload"))


def derived_id(version: int, cause: int, number: int) -> str:
    """The message id that follows from route, version, the stream position of the cause, and the number among its messages."""
    digest = hashlib.sha256(f"derived\n{ROUTE}\n{version}\n{cause}\n{number}".encode()).hexdigest()[:32]
    return "-".join((digest[:8], digest[8:12], digest[12:16], digest[16:20], digest[20:]))
