"""A driver of a derivation that needs no Spark: all that it and its task do in the store is the library's; rows are made in this process.

The function of derived.py is called on the messages that the library's reader gives. Real executors are in derivation_spark_cells.py.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from relaybox.errors import DerivationFailed
from relaybox.spark.derivations.deriving import Derived, Run
from relaybox.spark.derivations.ledger import Attempt, open_ledger
from relaybox.spark.derivations.publishing import Published, send
from relaybox.spark.derivations.source import load_source
from relaybox.spark.frames import numbered_rows
from relaybox.spark.frames.batch_reader import BatchReader
from relaybox.spark.frames.columns import SCHEMA
from relaybox.spark.frames.options import ReadOptions
from relaybox.stores.sessions import settings
from relaybox.stores.sessions.settings import duration
from tests.faults.derived import derived_payloads

if TYPE_CHECKING:
    from relaybox.routes import Route


class NoSpark:
    """A session that nothing may be asked of."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"{name} of a session of Spark")


@dataclass(frozen=True)
class RunInProcess(Run):
    """Attempts of the library, whose messages are read, derived and sent in this process. `fails`: attempts that are still to fail."""

    fails: tuple[int, ...] = ()

    def _call(self, attempt: Attempt) -> Any:
        return [batch for first, last in zip(attempt.firsts, attempt.lasts, strict=True) for batch in self._derived(first, last)]

    def _derived(self, first: int, last: int) -> Iterator[pa.RecordBatch]:
        options = ReadOptions(self.route.path[0].service, self.derivation.stream, start=str(first), through=str(last))
        reader = BatchReader(options, SCHEMA)
        for partition in reader.partitions():
            for batch in reader.read(partition):
                yield _derive(batch)

    def _publish(self, attempt: Attempt, derived: Any) -> Published:
        if self.fails and attempt.message_count > 1:
            object.__setattr__(self, "fails", self.fails[1:])
            raise DerivationFailed("a row that the function takes the second time.")
        return send(self.sending(attempt), derived)


def _derive(batch: pa.RecordBatch) -> pa.RecordBatch:
    made = [derived_payloads(payload) for payload in batch.column("payload").to_pylist()]
    indexes = pa.array([number for number, payloads in enumerate(made) for _ in payloads], pa.int64())
    columns = {name: pc.take(batch.column(name), indexes) for name in ("stream_position", "key")}
    return pa.RecordBatch.from_pydict({**columns, "payload": pa.array([one for each in made for one in each], pa.string())})


def drive_derivation(route: Route, *, fails_first: bool) -> Derived:
    """Derives from all messages that the stream has now, as derive() does. With `fails_first` the function fails once."""
    derivation = route.require_derivation()
    done = Derived(route.name, derivation.version)
    with tasks_patient_for_seconds(), open_ledger(route, derivation) as ledger:
        source = load_source(derivation, route=route.name)
        ledger.begin(source)
        run = RunInProcess(
            route, derivation, NoSpark(), source, ledger, f"driver {os.getpid()}", fails=(1,) if fails_first else ()
        )
        for more in run.attempts():
            done = done.with_more(more)
    return done


@contextmanager
def tasks_patient_for_seconds() -> Iterator[None]:
    """Sessions of tasks wait, and idle in a transaction, no longer than those of drivers (drivers.patient_for_seconds)."""
    usual = dict(numbered_rows.SENDING_SETTINGS)
    numbered_rows.SENDING_SETTINGS.update(
        lock_timeout=duration(settings.LOCK_TIMEOUT_SECONDS),
        idle_in_transaction_session_timeout=duration(settings.IDLE_IN_TRANSACTION_SECONDS),
    )
    try:
        yield
    finally:
        numbered_rows.SENDING_SETTINGS.update(usual)
