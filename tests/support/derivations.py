"""A route whose messages are derived: delays, at the store hub, from the stream flights; with functions that make them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from relaybox.routes import Derivation, Route
from tests.support.streams import STREAM
from tests.support.world import World, routes_file

STORE = "hub"
ROUTE = "delays"
SUBSCRIPTION = "derive.delays.v1"
HERE = "tests.support.derivations"


def derived_route(**derive: object) -> dict[str, object]:
    """What relaybox.yaml says of the route delays."""
    return {"topics": [ROUTE], "path": [STORE, "analytics"], "derive": {"from": STREAM, "version": 1, **derive}}


@dataclass(frozen=True)
class DerivedWorld:
    """A world with the routes flights and delays."""

    world: World

    @property
    def route(self) -> Route:
        return self.world.routes.route(ROUTE)

    @property
    def derivation(self) -> Derivation:
        return self.route.require_derivation()

    def configure(self, **derive: object) -> None:
        """Writes relaybox.yaml: what the route says of its derivation. Stores need no init for that."""
        routes_file(self.world.path.parent, more_routes={ROUTE: derived_route(**derive)})

    def sent(self) -> list[str]:
        """Payloads of the derived messages, in the order of the outbox."""
        return [payload for (payload,) in self.world.query(STORE, "select payload from relaybox.outbox order by seq")]

    def attempts(self) -> list[tuple[Any, ...]]:
        return self.world.query(
            STORE,
            "select attempt, state, stream_positions::text, message_count, derived_count from relaybox_internal.derivation_attempt "
            "order by derivation_id, attempt",
        )

    def done(self) -> int:
        """The stream position that the derivation has acknowledged."""
        done: int = self.world.value(
            STORE, "select done_stream_position from relaybox.lag((select max(subscription) from relaybox.subscriptions))"
        )
        return done


def copies(flights: DataFrame) -> DataFrame:
    """One for one, with the cause."""
    return flights.select("stream_position", "key", f.concat(f.lit("late "), "payload").alias("payload"))


def later(flights: DataFrame) -> DataFrame:
    """As copies(), but for two messages: it changes 2, and makes none of 4."""
    late = f.when(f.col("stream_position") == 2, f.lit("later ")).otherwise(f.lit("late "))
    return flights.filter("stream_position <> 4").select("stream_position", "key", f.concat(late, "payload").alias("payload"))


def twos(flights: DataFrame) -> DataFrame:
    """Two for one."""
    parts = f.explode(f.array(f.lit("a"), f.lit("b"))).alias("part")
    return flights.select("stream_position", "payload", parts).select(
        "stream_position", f.concat("payload", "part").alias("payload")
    )


def odd_ones(flights: DataFrame) -> DataFrame:
    """A filter."""
    return flights.filter("stream_position % 2 = 1").select("stream_position", "payload")


def nothing(flights: DataFrame) -> DataFrame:
    return flights.filter("false").select("payload")


def counts(flights: DataFrame) -> DataFrame:
    """An aggregate within a batch: no single cause."""
    counted = flights.groupBy("sender").count().orderBy("sender")
    return counted.select(f.to_json(f.struct("sender", "count")).alias("payload"))


def any_number(flights: DataFrame) -> DataFrame:
    """Other rows each time."""
    return flights.select("stream_position", f.concat_ws(" ", "payload", f.expr("uuid()")).alias("payload")).filter(
        "rand() < 0.5"
    )


def raises(flights: DataFrame) -> DataFrame:
    raise ValueError("no such airline \0 \ud800")


def no_frame(flights: DataFrame) -> str:
    return "delays"


def other_columns(flights: DataFrame) -> DataFrame:
    return flights.select("payload", f.lit(1).alias("delay"))


def other_topic(flights: DataFrame) -> DataFrame:
    return flights.select("payload", f.lit("elsewhere").alias("topic"))


def other_cause(flights: DataFrame) -> DataFrame:
    return flights.select("payload", (f.col("stream_position") + 1000).alias("stream_position"))


def no_tens(flights: DataFrame) -> DataFrame:
    """Fails for each message whose number ends with 0."""
    failing = f.when(f.col("payload").endswith("0"), f.raise_error(f.concat(f.lit("bad row "), "payload"))).otherwise(
        f.col("payload")
    )
    return flights.select("stream_position", failing.alias("payload"))


def doubled_column(flights: DataFrame) -> DataFrame:
    return flights.select("payload", f.upper("payload").alias("Payload"))


def never(flights: DataFrame) -> DataFrame:
    """Fails for each message, in Python, with a text that no store takes."""

    def fail(payload: str) -> str:
        raise ValueError(f"never {payload} \0")

    return flights.select("stream_position", f.udf(fail)("payload").alias("payload"))


def lone_surrogate(flights: DataFrame) -> DataFrame:
    """A text that UTF-8 has not: as a payload for m1, as the text of an error for the others."""

    def text(payload: str) -> str:
        if payload == "m1":
            return "gate \ud800"
        raise ValueError(f"no such gate \ud800 of {payload}")

    return flights.select("stream_position", f.udf(text)("payload").alias("payload"))


not_callable = 1
