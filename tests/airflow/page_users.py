"""Users of the page who may read and run some hops only."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from relaybox.airflow.page import permissions
from relaybox.routes import Hop
from tests.airflow.page_client import PageServer


class SomeHops:
    """The rights of who may read and run some hops."""

    def __init__(self, *hops: str, run: tuple[str, ...] = ()) -> None:
        self._read, self._run = hops, run

    def may_read(self, hop: Hop) -> bool:
        return hop.name in self._read

    def may_read_named(self, hop: str) -> bool:
        return hop in self._read

    def may_run(self, hop: Hop) -> bool:
        return hop.name in self._run

    def may_pause(self, hop: Hop) -> bool:
        return hop.name in self._run

    def may_start(self, dag_id: str) -> bool:
        return False


@contextmanager
def seen_by(page: PageServer, rights: SomeHops) -> Iterator[Any]:
    page.page.dependency_overrides[permissions.rights_of] = lambda: rights
    try:
        yield page.client("viewer")
    finally:
        page.page.dependency_overrides.clear()
