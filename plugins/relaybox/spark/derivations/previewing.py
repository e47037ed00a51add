"""What a derivation would do with the next messages, as `relaybox derive --dry-run` shows it. Writes nothing into the store."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from relaybox.spark.derivations.deriving import in_order, messages, told_as_ours
from relaybox.spark.derivations.ledger import open_ledger
from relaybox.spark.derivations.source import load_source
from relaybox.spark.frames import register

if TYPE_CHECKING:
    from relaybox.routes import Derivation, Route
    from relaybox.spark.tasks import TaskSession


@dataclass(frozen=True)
class Preview:
    """Of one attempt that was not made.

    Attributes:
        first_stream_position: at which the derivation goes on, or would begin.
        last_stream_position: of the messages that the function got; below the first: there are none.
        messages: that the function got.
        derived: messages that it would send.
        samples: the first of these, by column.
        refused: why a run would be refused now, whatever the function returns; None: it would not.
    """

    route: str
    version: int
    source: str
    first_stream_position: int
    last_stream_position: int
    messages: int
    derived: int
    samples: list[dict[str, Any]]
    refused: str | None


def preview(route: Route, derivation: Derivation, session: TaskSession, *, sample_count: int) -> Preview:
    """Calls the function with the next messages, at most batch_rows, and counts what it returns.

    Raises:
        DerivationFailed: the function failed, or returned what makes no message.
        SparkFailed, UnknownStream, NoLongerKept, Transient, Terminal: as deriving.
    """
    register(session.dataframes)
    with open_ledger(route, derivation) as ledger:
        derivation = ledger.derivation
        source = load_source(derivation, route=route.name)
        refused = ledger.refusal(source)
        first, last = ledger.read_next(derivation.batch_rows)
    count, samples = 0, []
    if first <= last:
        where = f"route {route.name}: a dry run with stream positions {first} to {last}"
        with session.described(f"relaybox derive {route.name} --dry-run"), told_as_ours(where, source):
            derived = in_order(source.derive(messages(session.dataframes, route, derivation, first, last)), route).cache()
            try:
                count = derived.count()
                samples = [_shown(row.asDict()) for row in derived.limit(sample_count).collect()]
            finally:
                derived.unpersist()
    return Preview(
        route.name,
        derivation.version,
        source.name,
        first,
        last,
        max(0, last - first + 1),
        count,
        samples,
        None if refused is None else str(refused),
    )


def _shown(row: dict[str, Any]) -> dict[str, Any]:
    """Bytes as Postgres shows them."""
    return {name: f"\\x{value.hex()}" if isinstance(value, bytes | bytearray) else value for name, value in row.items()}
