"""What an export and a verification need of a table, whatever its format: its state, and one commit that moves files and position.

`formats.py` has the formats. This module has what they share: the state of a table, and the errors that say the same of each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from relaybox.errors import ExportSuperseded, LakeChanged, LakeFailed
from relaybox.spark.lake.files import list_names

if TYPE_CHECKING:
    from relaybox.routes import Export
    from relaybox.spark.lake.attempts import Attempt
    from relaybox.spark.lake.writing import WrittenFile


EXPORT, STORE_ID, STREAM, FIRST = "relaybox.export", "relaybox.store_id", "relaybox.stream", "relaybox.first_stream_position"
"""Properties of a table that say whose it is, and where it began."""
OWNER = {"export": EXPORT, "stream": STREAM, "store id": STORE_ID}
ATTEMPT = "relaybox.attempt"
"""Property of a commit."""


@dataclass(frozen=True)
class LakeFile:
    """A file of a version of the table.

    Attributes:
        path: below the path of the table.
        message_count: of its rows, as the table says it.
        first, last: its lowest and its highest stream position.
        partition: the value that partitions the table, as WrittenFile has it; None: null, or not partitioned.
    """

    path: str
    message_count: int
    first: int
    last: int
    partition: str | None = None


@dataclass(frozen=True)
class TableState:
    """A version of the table.

    Attributes:
        version: as the format counts its commits.
        first: the stream position at which the export began.
        position: the last stream position that is in the table; first - 1 while it is empty.
        files: all of its files.
    """

    version: int
    first: int
    position: int
    files: tuple[LakeFile, ...]

    @property
    def message_count(self) -> int:
        """As the table itself says it."""
        return sum(file.message_count for file in self.files)


class LakeTable(Protocol):
    """The table of an export. Each call reads its newest version.

    Attributes:
        export: of relaybox.yaml.
        splits_empty_keys: whether an empty key is a partition of its own. A format without empty partitions has these messages in
            the partition of those that have no key.
        hides_attempts: whether the directories of attempts have names that readers of folders pass over.
    """

    @property
    def export(self) -> Export: ...

    @property
    def splits_empty_keys(self) -> bool: ...

    @property
    def hides_attempts(self) -> bool: ...

    def read(self) -> TableState | None:
        """Its newest version; None if there is no table.

        Raises:
            LakeChanged: it is not this export's, or not as the export left it.
            LakeFailed, LakeRefused: it can't be read.
        """

    def create(self, first: int) -> TableState:
        """Makes the table, empty, at the position before `first`.

        Raises:
            LakeChanged: there is something at its path.
            ExportSuperseded: another run has made it.
            LakeFailed, LakeRefused: it can't be written.
        """

    def commit(self, attempt: Attempt, last: int, files: Sequence[WrittenFile]) -> TableState:
        """Adds the files of an attempt and moves the position to `last`, in one commit.

        Raises:
            ExportSuperseded: the table is not at the position of the attempt any more. Nothing is committed.
            LakeChanged: others changed the table. Nothing is committed.
            LakeFailed, LakeRefused: the lake failed, and the table is at the position of the attempt.
        """

    def committed_attempts(self, state: TableState) -> set[str]:
        """Attempts that have committed, as far as the history of the table goes back, and those of its files."""


def describe_table(export: Export) -> str:
    """How errors name the table."""
    return f"export {export.name}, table {export.path}"


def superseded(export: Export, first: int, state: TableState | None) -> ExportSuperseded:
    """The error of a run that began at `first`, while the table moved on."""
    found = "is gone" if state is None else f"ends at stream position {state.position}"
    return ExportSuperseded(
        f"{describe_table(export)}: this run began at stream position {first}, but the table {found}: another run has committed. "
        "This run commits nothing.",
        next_step="Nothing is lost. Run one export at a time.",
    )


def require_empty_path(table: LakeTable, first: int, *, log: str) -> None:
    """Before a table is made.

    Args:
        table: that is to be made.
        first: stream position at which it begins.
        log: the directory of the format itself: a run that was killed while it made the table may have left it.

    Raises:
        LakeChanged: there is something at the path of the table.
        ExportSuperseded: another run has made the table.
    """
    if names := [name for name in list_names(table.export.path) if name != log]:
        if (state := table.read()) is not None:  # since this run looked
            raise superseded(table.export, first, state)
        raise LakeChanged(
            f"{describe_table(table.export)}: there is no table, but {len(names)} other files or directories, such as {names[0]}.",
            next_step="Give the export an empty path of its own.",
        )


def require_count(export: Export, state: TableState) -> TableState:
    """Returns the state.

    Raises:
        LakeChanged: the table has more or fewer rows than the export has written.
    """
    written = state.position - state.first + 1
    if state.message_count != written:
        raise LakeChanged(
            f"{describe_table(export)}: version {state.version} has {state.message_count} messages; the export has written "
            f"{written}, stream positions {state.first} to {state.position}. Others changed the table.",
            next_step="Restore the version before that change (history of the table), then run relaybox verify-lake "
            f"{export.name}; or begin with a new path.",
        )
    return state


def settle_commit(table: LakeTable, attempt: Attempt, last: int, error: Exception) -> TableState:
    """Whether a commit whose answer is an error is in the table: the table knows.

    Raises:
        ExportSuperseded: another run has committed.
        LakeFailed: nothing is committed.
    """
    state = table.read()
    if state is not None and state.position == last and attempt.name in table.committed_attempts(state):
        return state
    if state is None or state.position != attempt.position:
        raise superseded(table.export, attempt.position + 1, state) from error
    raise LakeFailed(
        f"{describe_table(table.export)}: the commit of stream positions {attempt.position + 1} to {last} failed: {error}. "
        f"The table ends at {state.position}; nothing is acknowledged.",
        next_step="Correct what the error says; the next run of the export goes on where the table ends.",
    ) from error


def require_created(export: Export, state: TableState | None) -> TableState:
    """Returns the state of a table that was just made.

    Raises:
        LakeFailed: it can't be found.
    """
    if state is None:
        raise LakeFailed(f"{describe_table(export)}: the table was made, and can't be found. Nothing is lost.")
    return state
