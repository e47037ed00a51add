"""Readers that get nothing, or less than relaybox.yaml and their subscription say: told on stderr by each command that shows them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from relaybox.cli.printable import print_text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from relaybox.stores.readers.reader_problems import ReaderProblem


def warn_of_readers(problems: Iterable[ReaderProblem]) -> None:
    """One line each: the store, what is wrong, and what repairs it."""
    for problem in problems:
        print_text(f"warning: {problem}", stderr=True)
