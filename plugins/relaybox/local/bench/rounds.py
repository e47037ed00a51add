"""The rounds of a benchmark: the contestants take turns, and a bar shows how far they are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

Contestant = TypeVar("Contestant")

WARM_UP = 0
"""The round that is run and not counted: who comes first on new clusters pays for making WAL files that the others reuse."""


def in_turn(contestants: Sequence[Contestant], round_: int) -> list[Contestant]:
    """All contestants; who begins changes with the round, so that none always meets the same caches."""
    first = round_ % len(contestants)
    return [*contestants[first:], *contestants[:first]]


def take_turns(contestants: Sequence[Contestant], rounds: int) -> Iterator[tuple[int, Contestant]]:
    """Each round with each of its contestants, the warm-up first."""
    for round_ in range(WARM_UP, rounds + 1):
        yield from ((round_, contestant) for contestant in in_turn(contestants, round_))


@contextmanager
def shown_turns(
    turns: Iterable[tuple[int, Contestant]], console: Console, *, title: Callable[[Contestant], str]
) -> Iterator[Iterator[tuple[int, Contestant]]]:
    """The turns, one after the other; a bar shows whose turn it is and how many are over."""
    all_turns = list(turns)
    with show_progress(console) as progress:
        task = progress.add_task("", total=len(all_turns))

        def take() -> Iterator[tuple[int, Contestant]]:
            for round_, contestant in all_turns:
                progress.update(task, description=title(contestant))
                yield round_, contestant
                progress.advance(task)

        yield take()


def show_progress(console: Console) -> Progress:
    """A bar that counts."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    # drawing costs CPU that a contestant needs
    return Progress(*columns, console=console, refresh_per_second=2)
