"""relaybox.testing: an application's tests get real stores, soon, and with the rights of an application."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from relaybox.testing import clusters, plugin
from tests.support.patience import patience

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
RIGHTS = """
def test_the_login_is_no_superuser(relaybox_stores):
    for store in (relaybox_stores.outbox, relaybox_stores.inbox):
        assert store.query("select rolsuper, rolcreaterole from pg_roles where rolname = current_user") == [(False, False)]
        try:
            store.query("select payload from relaybox.outbox")
        except Exception as error:
            assert "permission denied" in str(error)
        else:
            raise AssertionError("an application reads the outbox")
"""


def run(project: Path, *options: str) -> str:
    """One run of pytest as an application has it."""
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--durations=0", "--durations-min=0", *options],
        cwd=project,
        env={**os.environ, "XDG_CACHE_HOME": str(project / "cache")},
        capture_output=True,
        text=True,
        check=False,
        timeout=patience(120),
    )
    return f"{ran.returncode}\n{ran.stdout}{ran.stderr}"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """The example of the page, in a project of its own."""
    for name in ("shop_psycopg.py", "test_shop.py"):
        shutil.copy(EXAMPLES / name, tmp_path)
    (tmp_path / "test_rights.py").write_text(RIGHTS)
    (tmp_path / "pytest.ini").write_text("[pytest]\nrelaybox_topics = orders\npythonpath = .\n")
    return tmp_path


def test_an_application_s_tests_have_real_stores_in_under_two_seconds(project: Path) -> None:
    """Once the first run has made what later runs copy. The server ends with the run."""
    first = run(project)
    assert "3 passed" in first, first
    (kept,) = (project / "cache" / "relaybox").iterdir()
    made = kept.stat().st_ino
    second = run(project)
    assert "3 passed" in second, second
    (kept,) = (project / "cache" / "relaybox").iterdir()
    assert kept.stat().st_ino == made
    setups = [float(seconds) for seconds in re.findall(r"^([\d.]+)s setup", second, flags=re.MULTILINE)]
    assert len(setups) == 3
    assert max(setups) < patience(2), second


def test_the_plugin_imports_nothing_that_a_run_without_its_fixture_would_pay_for() -> None:
    program = (
        f"import sys, {plugin.__name__}; print(*(name for name in ('psycopg2', 'sqlalchemy', 'pydantic') if name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split() == []


def test_a_project_without_topics_is_told_what_to_write(project: Path) -> None:
    (project / "pytest.ini").write_text("[pytest]\npythonpath = .\n")
    said = run(project, "test_rights.py")
    assert (
        "relaybox_stores: no topics. Name them in pyproject.toml: [tool.pytest.ini_options] relaybox_topics = ['orders']" in said
    )


def test_runs_that_clear_up_at_once_remove_what_is_old_and_nothing_else(tmp_path: Path) -> None:
    """As the workers of pytest-xdist do, each of which is a run of its own."""
    for name in ("testing-used", *(f"testing-{number}" for number in range(30)), "making-killed"):
        (tmp_path / name / "data" / "base").mkdir(parents=True)
        for number in range(20):
            (tmp_path / name / "data" / "base" / str(number)).touch()
        if name != "testing-used":
            os.utime(tmp_path / name, (0, 0))
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(clusters._remove_old, [tmp_path] * 4))  # noqa: SLF001
    assert [one.name for one in tmp_path.iterdir()] == ["testing-used"]
    assert len(list((tmp_path / "testing-used" / "data" / "base").iterdir())) == 20
