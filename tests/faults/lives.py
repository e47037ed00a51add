"""What every state machine on real stores has: a world that ends with it, two clocks, and an end that checks all of its life."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from typing import Any, ClassVar, TypeVar

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine

from tests.support.world import World

any_one = st.integers(0, 1000)
"""Chooses from a list that has grown to any length, by the remainder."""
hops = st.sampled_from([0, 1])


class Life(RuleBasedStateMachine):
    """Fresh stores with the route `flights` of two hops; `moments` is the clock of the test, `numbers` names messages."""

    make_world: ClassVar[Callable[[], AbstractContextManager[Any]]]
    """Three fresh stores, gone when it is left."""

    def __init__(self) -> None:
        super().__init__()
        self.stack = ExitStack()
        self.moments, self.numbers = itertools.count(1), itertools.count(1)
        self.world: World | None = None

    def teardown(self) -> None:
        with self.stack:
            if self.world is not None:
                self.finish()

    def finish(self) -> None:
        """Everything is ended, moved and confirmed; then nothing may be missing."""
        raise NotImplementedError


Kind = TypeVar("Kind", bound=Life)


def in_lives(life: type[Kind], make_world: Callable[[], AbstractContextManager[Any]]) -> type[Kind]:
    """The same machine with stores of this test."""
    return type(life.__name__, (life,), {"make_world": staticmethod(make_world)})


def lives_of(steps: int, *, examples: int, examples_by_default: int, **others: Any) -> settings:
    """The default run is the same every time; longer ones look further, and print how to repeat what they found."""
    return settings(
        max_examples=examples,
        stateful_step_count=steps,
        derandomize=examples <= examples_by_default,
        print_blob=True,
        deadline=None,
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
        **others,
    )
