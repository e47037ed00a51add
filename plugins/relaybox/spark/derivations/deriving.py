"""Runs a derivation until no message is left: attempt by attempt, each on record before the function gets its messages."""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import TYPE_CHECKING, Protocol

from pyspark import errors as spark_errors
from pyspark.sql import functions as f
from pyspark.sql.types import LongType

from relaybox import errors
from relaybox.errors import (
    ConfigurationError,
    DerivationChanged,
    DerivationFailed,
    LaneLost,
    NotSubscribed,
    RelayboxError,
    SparkFailed,
)
from relaybox.log_events import emit, warn
from relaybox.spark.derivations.ledger import Attempt, open_ledger
from relaybox.spark.derivations.publishing import CAUSE, Published, Sending, reports, send
from relaybox.spark.derivations.source import WHERE_IT_HAS_TO_BE, Source, SourceText, load_source
from relaybox.spark.failures import SPARK_ERRORS, failure_line, printable
from relaybox.spark.frames import register
from relaybox.spark.frames.write_options import require_message_columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from relaybox.routes import Derivation, Route
    from relaybox.spark.tasks import TaskSession

_NUMBER = "relaybox_number"


@dataclass(frozen=True)
class Derived:
    """What a run did.

    Attributes:
        route: whose messages were derived.
        version: of the derivation.
        attempts: that published.
        messages: of the stream, from which they derived.
        derived: messages that they sent.
        dead_letters: messages for which the function fails, set aside by this run.
    """

    route: str
    version: int
    attempts: int = 0
    messages: int = 0
    derived: int = 0
    dead_letters: int = 0

    def with_more(self, more: Derived) -> Derived:
        """This run after another attempt."""
        return Derived(
            more.route,
            more.version,
            self.attempts + more.attempts,
            self.messages + more.messages,
            self.derived + more.derived,
            self.dead_letters + more.dead_letters,
        )


def derive(
    route: Route,
    derivation: Derivation,
    session: TaskSession,
    *,
    recorded_by: str,
    progress: Callable[[Derived], None] = lambda _: None,
) -> Derived:
    """Derives from all messages that the stream has now.

    Args:
        route: whose messages are derived; its first store has the stream.
        derivation: of the route.
        session: where Spark works.
        recorded_by: who runs it, for the ledger.
        progress: told after each attempt.

    A run whose version is followed by a promoted one in the middle goes on with that.

    Raises:
        DerivationChanged: the store has another version or another source.
        DerivationFailed: the function failed, or returned what makes no message. Nothing of that attempt is sent.
        LaneLost: another run of the derivation has taken over.
        SparkFailed: Spark lost the work. Nothing of that attempt is sent.
        NotSubscribed, NoLongerKept, Transient, Terminal: the store refuses, or failed.
    """
    register(session.dataframes)
    done = Derived(route.name, derivation.version)
    while True:
        with open_ledger(route, derivation) as ledger:
            version = ledger.derivation
            try:
                source = load_source(version, route=route.name)
                ledger.begin(source)
                for more in Run(route, version, session, source, ledger, recorded_by).attempts():
                    done = done.with_more(more)
                    progress(done)
            except (DerivationChanged, LaneLost, NotSubscribed):
                ledger.session.rollback()
                if not ledger.is_promoted():
                    raise
                emit("derivation_promoted", route=route.name, before=version.version)
                continue
        emit("derivation_done", route=route.name, version=version.version, messages=done.messages, derived=done.derived)
        return replace(done, version=version.version)


class AttemptLedger(Protocol):
    """Where attempts are on record: of a derivation, or of a trial."""

    def begin_attempt(self, max_count: int, begun_by: str) -> Attempt | None:
        """As Ledger.begin_attempt()."""
        ...

    def fail(self, attempt: Attempt, reason: str, *, dead_letter: bool) -> None:
        """As Ledger.fail()."""
        ...


@dataclass(frozen=True)
class Run:
    """What makes one attempt after the other, of a derivation or of a trial."""

    route: Route
    derivation: Derivation
    session: TaskSession
    source: Source
    ledger: AttemptLedger
    recorded_by: str
    is_trial: bool = False

    def attempts(self) -> Iterator[Derived]:
        """One attempt after the other; after one that failed for a row, smaller ones, until the row is alone."""
        at_most = self.derivation.batch_rows
        dead_letters = 0  # one after the other
        while attempt := self._begin_attempt(at_most):
            try:
                derived = self._call(attempt)
            except RelayboxError as error:  # no row was looked at: it says nothing of one
                self._record_failure(attempt, error, dead_letter=False)
                raise
            try:
                published = self._publish(attempt, derived)
            except RelayboxError as error:
                is_alone = attempt.message_count == 1
                isolates = self.derivation.row_errors == "dead_letter" and isinstance(error, DerivationFailed)
                self._record_failure(attempt, error, dead_letter=isolates and is_alone)
                if not isolates:
                    raise
                if is_alone:
                    dead_letters += 1
                    if dead_letters == self.derivation.dead_letter_limit:
                        raise self._too_many(dead_letters, error) from error
                    yield Derived(self.route.name, self.derivation.version, dead_letters=1)
                at_most = max(1, attempt.message_count // 2)
                continue
            dead_letters = 0
            at_most = min(self.derivation.batch_rows, max(at_most, 2 * attempt.message_count))
            self._tell(attempt, published.derived_count)
            yield Derived(self.route.name, self.derivation.version, 1, attempt.message_count, published.derived_count)

    @property
    def _text(self) -> SourceText | None:
        """What must not change while the run goes on; None: it may."""
        return self.source.text if self.derivation.changed_source == "refuse" else None

    def _begin_attempt(self, at_most: int) -> Attempt | None:
        if self._text is not None:
            self._text.require_unchanged(self.route.name)
        return self.ledger.begin_attempt(at_most, self.recorded_by)

    def _tell(self, attempt: Attempt, derived: int) -> None:
        done = {
            "route": self.route.name,
            "version": self.derivation.version,
            "attempt": attempt.attempt,
            "first_stream_position": attempt.firsts[0],
            "last_stream_position": attempt.lasts[-1],
            "messages": attempt.message_count,
            "derived": derived,
        }
        if self.is_trial:
            emit("trial_derived", **done)
        else:
            emit("derived", **done)

    def _too_many(self, dead_letters: int, error: RelayboxError) -> DerivationFailed:
        if self.is_trial:
            return DerivationFailed(
                f"route {self.route.name}: the function of the trial fails for {dead_letters} messages, one after the other. The last "
                f"one: {error}",
                next_step=f"{self._fix_the_trial()}. If the messages are wrong, set dead_letter_limit.",
            )
        return DerivationFailed(
            f"route {self.route.name}: {dead_letters} messages, one after the other, are dead letters now. The last one: {error}",
            next_step="If the function is wrong, fix it under a higher version, which takes these dead letters over, and redrive them. "
            "If the messages are, run it again, or set dead_letter_limit.",
        )

    def _next_step(self) -> str:
        """What to do after the function failed. A fixed function has another digest, and so it is another trial."""
        if self.is_trial:
            return f"{self._fix_the_trial()}; {_OR_DEAD_LETTERS}"
        return f"{_FIX}; {_OR_DEAD_LETTERS}"

    def _fix_the_trial(self) -> str:
        return f"Run relaybox trials drop {self.route.name} --reason WHY, fix the function, and try it again"

    def _where(self, attempt: Attempt) -> str:
        read = f"stream positions {attempt.firsts[0]} to {attempt.lasts[-1]}"
        return f"route {self.route.name}: attempt {attempt.attempt} to derive from {read}"

    def _call(self, attempt: Attempt) -> DataFrame:
        """What the function makes of the messages: a plan, no row of which is computed."""
        with told_as_ours(self._where(attempt), self.source, next_step=self._next_step()):
            frames = [self._messages(first, last) for first, last in zip(attempt.firsts, attempt.lasts, strict=True)]
            return in_order(self.source.derive(reduce(lambda one, other: one.unionAll(other), frames)), self.route)

    def sending(self, attempt: Attempt) -> Sending:
        """What a task needs to send the messages of an attempt."""
        return Sending(
            store=self.route.path[0].service,
            route=self.route.name,
            version=self.derivation.version,
            stream=self.derivation.stream,
            sender=self.derivation.sender,
            topics=self.route.topics,
            derivation_id=attempt.derivation_id,
            attempt=attempt.attempt,
            token=attempt.token,
            first=attempt.firsts[0],
            last=attempt.lasts[-1],
            is_trial=self.is_trial,
            text=self._text,
        )

    def _publish(self, attempt: Attempt, derived: DataFrame) -> Published:
        sending = self.sending(attempt)
        with (
            self.session.described(f"relaybox derive {self.route.name}"),
            told_as_ours(self._where(attempt), self.source, next_step=self._next_step()),
        ):
            rows = derived.mapInArrow(partial(reports, sending), "report binary").collect()
        results: list[Published | RelayboxError] = [pickle.loads(row.report) for row in rows]  # noqa: S301  of our own tasks
        for result in results:
            if isinstance(result, RelayboxError):
                raise result
        # of a result that is empty whatever the messages are, Spark runs no task
        return next((result for result in results if isinstance(result, Published)), None) or send(sending, [])

    def _messages(self, first: int, last: int) -> DataFrame:
        return messages(self.session.dataframes, self.route, self.derivation, first, last)

    def _record_failure(self, attempt: Attempt, error: RelayboxError, *, dead_letter: bool) -> None:
        try:
            reason = str(error.args[0]) if dead_letter else str(error)  # the next step is for one who has no dead letter yet
            self.ledger.fail(attempt, reason, dead_letter=dead_letter)
        except RelayboxError as unrecorded:  # the attempt is open: the next one ends it, so this loses no more than the reason
            if dead_letter:
                raise
            warn("derivation_failure_not_recorded", route=self.route.name, attempt=attempt.attempt, error=unrecorded)


def messages(spark: SparkSession, route: Route, derivation: Derivation, first: int, last: int) -> DataFrame:
    """The messages of a run of stream positions, both ends included."""
    reader = spark.read.format("relaybox").option("store", route.path[0].service).option("stream", derivation.stream)
    return reader.option("start", str(first)).option("through", str(last)).load()


def in_order(derived: DataFrame, route: Route) -> DataFrame:
    """In one partition, in the order of the messages' causes, and of the function among those of one cause.

    Raises:
        DerivationFailed: its columns make no message.
    """
    columns = getattr(derived, "schema", None)
    names = [] if columns is None else [name.lower() for name in columns.fieldNames()]
    if columns is None:
        raise DerivationFailed(
            f"route {route.name}: the function returned {type(derived).__name__}, no DataFrame. Nothing was sent."
        )
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise DerivationFailed(f"route {route.name}: the function returned the column {twice[0]} twice. Nothing was sent.")
    has_cause = CAUSE in columns.fieldNames()
    if has_cause and columns[CAUSE].dataType != LongType():
        raise DerivationFailed(f"route {route.name}: the function changed the type of the column {CAUSE}. Nothing was sent.")
    try:
        require_message_columns(columns, but=(CAUSE,))
    except ConfigurationError as error:
        raise DerivationFailed(f"route {route.name}: the function's result can't be sent: {error} Nothing was sent.") from error
    numbered = derived.withColumn(_NUMBER, f.monotonically_increasing_id()).repartition(1)
    order = [CAUSE, _NUMBER] if has_cause else [_NUMBER]
    return numbered.sortWithinPartitions(*order).drop(_NUMBER)


@contextmanager
def told_as_ours(where: str, source: Source, *, next_step: str | None = None) -> Iterator[None]:
    """Tells what Spark or the function raises: an error of ours in a task, a failure of the function, or one of Spark.

    Args:
        where: at which attempt.
        source: with the function.
        next_step: after a failure of the function; by default as for a derivation.

    Raises:
        ConfigurationError: an executor can't import a module.
        DerivationFailed, SparkFailed, and what reading the stream raises: with the place.
    """
    try:
        yield
    except RelayboxError:
        raise
    except SPARK_ERRORS as error:
        told = failure_line(error)
        if told.startswith(_OURS):
            name, _, message = told.removeprefix(_OURS).partition(": ")
            raise getattr(errors, name, SparkFailed)(f"{where}: {message}") from error
        if missing := _MISSING_MODULE.match(told):  # it says nothing of a message
            raise ConfigurationError(
                f"{where}: {source.name}: a Python worker of Spark's executors can't import {missing[1]}. Nothing was sent.",
                next_step=WHERE_IT_HAS_TO_BE,
            ) from error
        if isinstance(error, _OF_THE_FUNCTION):
            raise _function_failed(where, source, told, next_step) from error
        raise SparkFailed(f"{where}: Spark failed: {told.rstrip('.')}. Nothing was sent.") from error
    except Exception as error:  # of the function, which runs in this process
        raise _function_failed(where, source, f"{type(error).__name__}: {error}", next_step) from error


_OURS = "relaybox.errors."
_MISSING_MODULE = re.compile(r"ModuleNotFoundError: No module named '([^']+)'")
_OF_THE_FUNCTION = (
    spark_errors.AnalysisException,
    spark_errors.ArithmeticException,
    spark_errors.ArrayIndexOutOfBoundsException,
    spark_errors.DateTimeException,
    spark_errors.IllegalArgumentException,
    spark_errors.NumberFormatException,
    spark_errors.ParseException,
    spark_errors.PythonException,
    spark_errors.SparkRuntimeException,
    spark_errors.UnsupportedOperationException,
)
"""What rows or plans raise. Others, such as those of lost executors, say nothing of a message."""


def _function_failed(where: str, source: Source, told: str, next_step: str | None) -> DerivationFailed:
    return DerivationFailed(
        f"{where}: {source.name} failed: {printable(told).rstrip('.')}. Nothing was sent.",
        next_step=next_step or f"{_FIX}; {_OR_DEAD_LETTERS}",
    )


_FIX = "Fix the function, give it a higher version if its messages change, and run it again"
_OR_DEAD_LETTERS = "or set row_errors: dead_letter, if it fails for single messages while Spark computes their rows."
