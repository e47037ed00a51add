"""The wheel that a deployment installs: what the library reads from files comes with it, and is the checkout's."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.support.world import World

ROOT = Path(__file__).parents[2]

LOOK = """
import pathlib, sys
import relaybox
from relaybox.airflow.page import html
from relaybox.monitoring.runbooks import read_runbooks, runbooks_directory
from relaybox.spark.application_files import application_file
from relaybox.stores.schema.migrations import sql_directory
home = pathlib.Path(relaybox.__file__).parent
assert sql_directory().is_relative_to(home), sql_directory()
assert runbooks_directory().is_relative_to(home), runbooks_directory()
assert application_file("transfer.py").is_relative_to(home) and application_file("transfer.py").is_file()
assert (home / "spark" / "log4j2.properties").is_file()
assert html._static("page.js") and html._templates().get_template("map.html")
print(home, *read_runbooks())
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory into which the wheel is unpacked, for PYTHONPATH: it comes before the checkout."""
    directory = tmp_path_factory.mktemp("wheel")
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", directory], cwd=ROOT, check=True)
    (wheel,) = directory.glob("relaybox-*.whl")
    zipfile.ZipFile(wheel).extractall(directory / "site")
    return directory / "site"


def run(installed: Path, program: str, *arguments: str) -> str:
    """What a Python program prints that imports the installed wheel."""
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    return subprocess.run(
        [sys.executable, "-c", program, *arguments], env=environment, check=True, capture_output=True, text=True
    ).stdout


def test_a_wheel_brings_the_schema_the_runbooks_and_the_page(installed: Path) -> None:
    home, *runbooks = run(installed, LOOK).split()
    assert Path(home) == installed / "relaybox"
    assert runbooks == sorted(path.stem for path in (ROOT / "docs" / "runbooks").glob("*.md"))


def test_a_wheel_makes_the_stores_that_the_checkout_makes(installed: Path, world: World) -> None:
    """Its functions and views have the digest of those that the stores have already, and its schema the version."""
    told = run(installed, "from relaybox.cli import main; main()", "init")
    assert "replaced" not in told
    assert all(store in told for store in world.routes.stores)
    world.query("hub", "update relaybox_internal.installed_object set digest = 'older'")
    assert run(installed, "from relaybox.cli import main; main()", "init", "hub").count("replaced") == 1
    world.send("one")
    world.transfer_all()
    assert world.payloads("flights/2") == ["one"]
