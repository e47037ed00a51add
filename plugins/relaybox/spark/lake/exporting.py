"""Runs an export: batch by batch, files first, then one commit of the table, then the acknowledgement in the store."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from relaybox.errors import HistoryLost, LakeChanged, LakeFailed, RelayboxError, SparkFailed
from relaybox.failpoints import reach
from relaybox.log_events import emit, warn
from relaybox.spark.failures import SPARK_ERRORS, failure_line
from relaybox.spark.frames.ranges import cut_range, pin_message, pin_range
from relaybox.spark.lake.attempts import find_dead_attempts, find_older_attempts, new_attempt
from relaybox.spark.lake.files import list_directories, list_files, remove_directory
from relaybox.spark.lake.formats import open_table
from relaybox.spark.lake.subscription import open_subscription
from relaybox.spark.lake.table import superseded
from relaybox.spark.lake.verifying import compare_ranges
from relaybox.spark.lake.writing import Writing, write_range
from relaybox.spark.tasks import run_tasks

if TYPE_CHECKING:
    from relaybox.routes import Export
    from relaybox.spark.frames.ranges import PinnedRange, StreamPartition
    from relaybox.spark.lake.subscription import ExportSubscription
    from relaybox.spark.lake.table import LakeTable, TableState
    from relaybox.spark.lake.writing import WrittenFile
    from relaybox.spark.tasks import TaskSession


@dataclass(frozen=True)
class Exported:
    """What a run did.

    Attributes:
        export: its name.
        path: of the table.
        first_stream_position, last_stream_position: that it added; none if last is below first.
        version: of the table, as its format counts.
        batches: commits that it made.
        messages: that it added.
        files: that it added.
        removed_attempts: dead attempts whose files it removed.
    """

    export: str
    path: str
    first_stream_position: int
    last_stream_position: int
    version: int
    batches: int = 0
    messages: int = 0
    files: int = 0
    removed_attempts: int = 0


@dataclass(frozen=True)
class Waiting:
    """What an export would write now, through the newest message; `acknowledged`: what the store knows to be in the table."""

    export: str
    path: str
    first_stream_position: int
    last_stream_position: int
    acknowledged: int | None

    @property
    def messages(self) -> int:
        return max(0, self.last_stream_position - self.first_stream_position + 1)

    @property
    def is_done(self) -> bool:
        """Whether a run would do nothing at all."""
        return self.messages == 0 and self.acknowledged == self.first_stream_position - 1


def export_stream(export: Export, session: TaskSession, *, progress: Callable[[Exported], None] = lambda _: None) -> Exported:
    """Writes all messages into the table that the stream has now and the table has not. Killed anywhere, the next run goes on.

    Args:
        export: of relaybox.yaml.
        session: where Spark works.
        progress: told after each batch.

    Raises:
        ExportSuperseded: another run has committed first.
        LakeChanged: the table, or the subscription, is not as the export left it. Nothing is written.
        LakeFailed, LakeRefused: the lake failed, or takes no such message.
        HistoryLost, NoLongerKept, Detached: the store has not what comes next.
        SparkFailed, Transient, Terminal: Spark or the store failed.
    """
    with open_subscription(export) as subscription:
        pinned = pin_range(export.store.service, export.stream, "latest", None)
        table = open_table(export, pinned.store_id)
        state = _begin(subscription, table, pinned, session)
        first = state.position + 1
        done = Exported(export.name, export.path, first, state.position, state.version, removed_attempts=_clean(table, state))
        while state.position < pinned.newest_stream_position:
            last = min(state.position + export.batch_messages, pinned.newest_stream_position)
            attempt = new_attempt(state.position, is_hidden=table.hides_attempts)
            writing = Writing(
                export.store.service, export.stream, export.path, attempt.name, export.partition_by, table.splits_empty_keys
            )
            newest = pin_message(export.store.service, export.stream, last)
            ranges = cut_range(pinned.store_id, state.position + 1, last, export.file_messages, pinned=newest)
            files = _write(export, session, writing, ranges, table)
            reach("lake.collected", None)
            state = table.commit(attempt, last, files)
            reach("lake.committed", None)
            subscription.ack(state.position)
            removed = _clean(table, state)
            reach("lake.cleaned", None)
            done = replace(
                done,
                last_stream_position=last,
                version=state.version,
                batches=done.batches + 1,
                messages=last - first + 1,
                files=done.files + len(files),
                removed_attempts=done.removed_attempts + removed,
            )
            emit("batch_exported", export=export.name, last_stream_position=last, version=state.version, files=len(files))
            progress(done)
    return done


def count_waiting(export: Export) -> Waiting:
    """What a run would write now. Writes nothing, neither into the store nor into the lake.

    Raises: as export_stream().
    """
    with open_subscription(export) as subscription:
        pinned = pin_range(export.store.service, export.stream, "latest", None)
        state = open_table(export, pinned.store_id).read()
        subscribed = subscription.read()
    if state is not None:
        first = state.position + 1
    elif subscribed is not None:
        first = subscribed.first
    else:
        first = pin_range(export.store.service, export.stream, export.start, None).first_stream_position
    acknowledged = None if subscribed is None else subscribed.done
    return Waiting(export.name, export.path, first, pinned.newest_stream_position, acknowledged)


def _begin(subscription: ExportSubscription, table: LakeTable, pinned: PinnedRange, session: TaskSession) -> TableState:
    """The table and the subscription as the first batch needs them: of each other, and of this store."""
    newest = pinned.newest_stream_position
    export = subscription.export
    subscribed, state = subscription.read(), table.read()
    if state is None:
        if subscribed is not None and subscribed.done >= subscribed.first:
            raise LakeChanged(
                f"export {export.name}: there is no table at {export.path}, but subscription {export.subscription} in store "
                f"{export.store.name} has acknowledged stream positions {subscribed.first} to {subscribed.done}: they were in it.",
                next_step="Correct path, or restore the table. To write a new one of what the store still keeps: "
                f"{_unsubscribe(export)}, then run the export.",
            )
        first = subscription.subscribe(export.start) if subscribed is None else subscribed.first
        state = table.create(first)
        reach("lake.created", None)
        return state
    if state.position > newest:
        raise HistoryLost(
            f"store {export.store.name}, stream {export.stream}: the stream ends at stream position {newest}, the table of export "
            f"{export.name} at {state.position}. The store went back in time: it was restored, or failed over and lost commits.",
            next_step=f"Find out what was restored (relaybox status). Then {_new_path(export)}.",
        )
    if subscribed is None or subscribed.done < state.position:
        _require_same_history(export, session, state, None if subscribed is None else subscribed.done + 1)
    if subscribed is None:
        subscription.subscribe(str(state.position + 1))
    elif subscribed.done > state.position:
        raise LakeChanged(
            f"export {export.name}: the table at {export.path} ends at stream position {state.position}, but subscription "
            f"{export.subscription} in store {export.store.name} has acknowledged {subscribed.done}. The table went back in time, or "
            "another program acknowledged.",
            next_step=f"To write the missing messages again, if the store still keeps them: {_unsubscribe(export)}, "
            "then run the export.",
        )
    elif subscribed.done < state.position:  # the run before was killed between commit and acknowledgement
        subscription.ack(state.position)
    return state


def _require_same_history(export: Export, session: TaskSession, state: TableState, first: int | None) -> None:
    """Refuses a store that has other messages at stream positions of the table than the table has.

    The run before was killed between commit and acknowledgement. Or the store was restored to a time before both, and other messages
    have arrived since.

    Args:
        export: of relaybox.yaml.
        session: where Spark works.
        state: of the table.
        first: the first stream position that is not acknowledged; None: the store has no subscription, and the last batch is compared.
    """
    if state.position < state.first:
        return
    begin = max(state.first, state.position - export.batch_messages + 1 if first is None else first)
    if first is None:  # is the next message kept?
        pin_range(export.store.service, export.stream, str(state.position + 1), None)
    compared_ranges = compare_ranges(export, session, state, begin)
    for compared in compared_ranges:
        is_unknown = compared.stream_count is None and (first is not None or compared is compared_ranges[-1])
        if is_unknown or compared.first_difference is not None:
            found = "the store keeps no more" if compared.stream_count is None else f"differ at {compared.first_difference}"
            raise HistoryLost(
                f"store {export.store.name}, stream {export.stream}: stream positions {compared.first} to {compared.last}, which the table "
                f"of export {export.name} has, {found}. The store has not acknowledged them: it went back in time, and other messages have "
                "arrived since; or the subscription was ended.",
                next_step=f"Find out what was restored (relaybox status). Then {_new_path(export)}.",
            )


def _new_path(export: Export) -> str:
    return f"export into a new path, after {_unsubscribe(export)}"


def _unsubscribe(export: Export) -> str:
    return f"select relaybox.unsubscribe('{export.subscription}', 'REASON') in store {export.store.name}"


def _write(
    export: Export, session: TaskSession, writing: Writing, ranges: Sequence[StreamPartition], table: LakeTable
) -> list[WrittenFile]:
    """The files of a batch, complete and not committed. Of a batch that failed the files are removed."""
    try:
        files = _run_tasks(export, session, writing, ranges)
        _require_seen(export, writing.attempt, files)
    except RelayboxError as error:
        try:
            remove_directory(f"{export.path}/{writing.attempt}")
            state = table.read()
        except RelayboxError as unremoved:
            warn("export_attempt_not_removed", export=export.name, attempt=writing.attempt, error=unremoved)
            raise error from None
        if state is None or state.position >= ranges[0].first:  # it removed the files of this one, which is dead
            raise superseded(export, ranges[0].first, state) from error
        raise
    return files


def _require_seen(export: Export, attempt: str, files: Sequence[WrittenFile]) -> None:
    """Refuses files that executors have written, and that the driver does not see: their path is another disk."""
    seen = list_files(f"{export.path}/{attempt}")
    for file in files:
        if seen.get(file.path.removeprefix(f"{attempt}/")) != file.size_bytes:
            raise LakeFailed(
                f"export {export.name}: an executor has written {file.path}, {file.size_bytes} bytes, and the driver of Spark does not see "
                f"that in {export.path}. Nothing of it is in the table.",
                next_step="Let path lead to the same place on the driver and on each executor.",
            )


def _run_tasks(export: Export, session: TaskSession, writing: Writing, ranges: Sequence[StreamPartition]) -> list[WrittenFile]:
    what = f"stream positions {ranges[0].first} to {ranges[-1].last}"
    try:
        written = run_tasks(session, f"relaybox export {export.name}, {what}", ranges, partial(write_range, writing))
        return [file for files in written for file in files]
    except SPARK_ERRORS as error:
        raise SparkFailed(
            f"export {export.name}: Spark failed while it wrote {what}: {failure_line(error).rstrip('.')}. "
            "Nothing of them is in the table.",
            next_step="Its log has the rest. The next run goes on where the table ends.",
        ) from error


def _clean(table: LakeTable, state: TableState) -> int:
    """Removes the files of dead attempts; how many attempts these were."""
    names = list_directories(table.export.path)
    if not find_older_attempts(names, state.position) - {file.path.partition("/")[0] for file in state.files}:
        return 0  # the history is not read
    dead = find_dead_attempts(names, table.committed_attempts(state))
    for name in dead:
        remove_directory(f"{table.export.path}/{name}")
        emit("export_attempt_removed", export=table.export.name, attempt=name)
    return len(dead)
