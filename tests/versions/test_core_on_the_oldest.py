"""`make test-all` tries the oldest Postgres that a store may run; `make test-versions` tries more, on all of them."""

from __future__ import annotations

import pytest

from tests.support.patience import patience
from tests.support.postgres_versions import OLDEST
from tests.versions.__main__ import run_tests
from tests.versions.core import OLDEST_CORE

pytestmark = pytest.mark.thorough


def test_the_core_is_green_on_the_oldest_postgres() -> None:
    """In a pytest of its own: its stores all run this version."""
    done = run_tests(OLDEST, OLDEST_CORE, ["--exitfirst", f"--timeout={patience(300):.0f}"], capture=True)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
    assert "passed" in done.stdout
    assert "skipped" not in done.stdout
