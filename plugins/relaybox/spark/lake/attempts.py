"""Directories of attempts: each run writes the files of a batch into one of its own, below the table, and commits them from there.

An attempt can commit only while the table is at the position where the attempt began: a later commit refuses it. So the files of an
attempt are garbage for certain once another attempt is known to have committed from that position. An old commit may be known no
more, since formats forget their history: then the files stay.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Collection, Iterable
from dataclasses import dataclass

_NAME = re.compile(r"_?relaybox-after-(\d+)-([0-9a-f]{32})")


@dataclass(frozen=True)
class Attempt:
    """An attempt at the batch that begins after a stream position; its name is that of its directory."""

    position: int
    identity: str
    is_hidden: bool = False

    @property
    def name(self) -> str:
        return f"{'_' if self.is_hidden else ''}relaybox-after-{self.position}-{self.identity}"


def new_attempt(position: int, *, is_hidden: bool = False) -> Attempt:
    """An attempt that nobody had before.

    Args:
        position: of the table.
        is_hidden: whether readers of folders pass over its directory.
    """
    return Attempt(position, uuid.uuid4().hex, is_hidden)


def find_older_attempts(names: Iterable[str], position: int) -> set[str]:
    """The directories of attempts that began before the table was at this position."""
    return {name for name in names if (found := _NAME.fullmatch(name)) and int(found[1]) < position}


def find_dead_attempts(names: Iterable[str], committed: Collection[str]) -> list[str]:
    """The directories whose files are in no version of the table and never will be.

    Args:
        names: of the directories below the table.
        committed: attempts that have committed, as far as the table knows.
    """
    left = {found[1] for name in committed if (found := _NAME.fullmatch(name))}
    return [name for name in names if name not in committed and (found := _NAME.fullmatch(name)) and found[1] in left]


def attempt_of(path: str) -> str | None:
    """The attempt that wrote a file, by the file's path in the table; None for a file of another origin, such as a compaction."""
    name = path.partition("/")[0]
    return name if _NAME.fullmatch(name) else None
