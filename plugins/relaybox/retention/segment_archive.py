"""The files of detached segments, as retention asks for them; Spark writes and reads them (relaybox.spark.archive)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from relaybox.stores.binary_copy.log_rows import RowsDigest


@dataclass(frozen=True)
class DetachPart:
    """Positions first to last of a log, both included; `table` has them, `directory` shall have them or has them."""

    service: str
    table: str
    first: int
    last: int
    directory: str


@dataclass(frozen=True)
class DetachedFile:
    """A file of a detached segment, as the ledger has it.

    Attributes:
        name: in its directory.
        size_bytes: of the whole file.
        row_count: of its rows.
        first, last: its lowest and its highest log position.
    """

    name: str
    size_bytes: int
    row_count: int
    first: int
    last: int


class SegmentArchive(Protocol):
    """Writes and reads the files of detached segments. Every method may be called again with the same arguments.

    Raises:
        FilesFailed: the files could not be written, read or removed; a retry may help.
        RelayboxError: what a store said.
    """

    def write(self, part: DetachPart) -> None:
        """Reads the rows of a part from its table into its directory, which is not there yet."""

    def digest(self, directory: str) -> RowsDigest:
        """Reads all files of a directory: what relaybox_internal.log_digest would say of the rows in them."""

    def list_files(self, directory: str) -> list[DetachedFile]:
        """The files of a directory that have rows, in the order of their log positions."""

    def copy_back(self, part: DetachPart) -> None:
        """Copies all rows of the directory into the table; commits."""

    def remove(self, directory: str) -> None:
        """Removes a directory; it may be gone already."""
