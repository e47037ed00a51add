"""Decides on a batch while the slices of the next one are copied: a decision needs one session and one core."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager


@contextmanager
def delivering_beside(deliver: Callable[[], None] | None) -> Iterator[None]:
    """Runs `deliver` in a thread while the block runs, and waits for its end. None: nothing is to be delivered.

    The session that `deliver` uses is the thread's alone meanwhile.

    Raises:
        Terminal, Transient: what `deliver` raised, unless the block failed itself.
    """
    if deliver is None:
        yield
        return
    with ThreadPoolExecutor(1, thread_name_prefix="relaybox-deliver") as pool:
        delivery = pool.submit(deliver)
        yield
        delivery.result()
