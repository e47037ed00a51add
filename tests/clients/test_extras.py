"""An application that installs Relaybox gets nothing besides, and needs only the library that it has."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.support.bare_airflow import build_wheel
from tests.support.patience import patience

ROOT = Path(__file__).parents[2]

ONLY = """
import importlib, sys
sys.path.insert(0, sys.argv[1])
allowed = set(sys.argv[2].split(",")) | sys.stdlib_module_names | {"relaybox", "__main__"}
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] not in allowed and not name.startswith("_sysconfigdata"):
            raise ModuleNotFoundError(f"No module named {name!r}: blocked", name=name)
sys.meta_path.insert(0, Blocked())
for module in sys.argv[3].split(","):
    importlib.import_module(module)
print(*sorted({name.partition(".")[0] for name in sys.modules} - set(sys.stdlib_module_names) - {"__main__", "relaybox"}))
"""


def import_with(allowed: str, modules: str) -> set[str]:
    """Imports modules where only these packages can be imported; returns the packages that were."""
    ran = subprocess.run(
        [sys.executable, "-I", "-c", ONLY, str(ROOT / "plugins"), allowed, modules],
        capture_output=True,
        text=True,
        check=False,
        timeout=patience(120),
    )
    assert ran.returncode == 0, ran.stderr
    return {name for name in ran.stdout.split() if not name.startswith("_")}


def test_sending_and_consuming_import_no_package() -> None:
    """No driver either: the application's is used when its session comes."""
    assert import_with("", "relaybox.outbox,relaybox.consumer,relaybox.aio,relaybox.errors,relaybox.cli") == set()


@pytest.mark.parametrize(
    ("module", "library"),
    [
        ("relaybox.clients.psycopg", "psycopg,psycopg_binary,typing_extensions"),
        ("relaybox.clients.asyncpg", "asyncpg"),
        ("relaybox.clients.sqlalchemy", "sqlalchemy,typing_extensions,greenlet"),
        ("relaybox.clients.django", "django,asgiref,sqlparse,typing_extensions,psycopg,psycopg_binary"),
    ],
)
def test_each_client_needs_its_library_alone(module: str, library: str) -> None:
    import_with(library, f"{module},relaybox.outbox,relaybox.consumer,relaybox.aio")


def test_the_lock_can_fail() -> None:
    """What is blocked can't be imported."""
    with pytest.raises(AssertionError, match="blocked"):
        import_with("", "relaybox.clients.psycopg")


def test_a_plain_install_brings_no_package_and_each_extra_what_it_names(tmp_path: Path) -> None:
    with zipfile.ZipFile(build_wheel(tmp_path)) as wheel:
        (name,) = [name for name in wheel.namelist() if name.endswith(".dist-info/METADATA")]
        metadata = Parser().parsestr(wheel.read(name).decode())
    requirements = [Requirement(line) for line in metadata.get_all("Requires-Dist") or ()]
    assert requirements
    assert [one for one in requirements if one.marker is None or one.marker.evaluate({"extra": ""})] == []

    def brought(extra: str) -> set[str]:
        return {one.name for one in requirements if one.marker is not None and one.marker.evaluate({"extra": extra})}

    of_the_command = {"typer", "rich", "apache-airflow", "pyspark", "pydantic", "pydantic-settings"}
    for extra in ("psycopg", "psycopg2", "asyncpg", "sqlalchemy", "django"):
        assert len(brought(extra)) == 1
        assert not brought(extra) & of_the_command
    assert {"typer", "rich"} <= brought("cli")
    for extra in ("airflow", "spark", "lake", "testing", "local"):
        assert brought("cli") <= brought(extra), extra


def test_the_command_line_without_its_extra_says_what_to_install() -> None:
    program = f"import sys; sys.path.insert(0, {str(ROOT / 'plugins')!r}); from relaybox.cli import main; main()"
    ran = subprocess.run(
        [sys.executable, "-I", "-S", "-c", program], capture_output=True, text=True, check=False, timeout=patience(60)
    )
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr.startswith("error: the command line needs packages that are not installed (typer, rich, ")
    assert ran.stderr.rstrip().endswith("Run: pip install 'relaybox[cli]'")
