"""An init of an older Relaybox, or its script, replaces newer functions only with --older; doctor names whose functions a store has."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

from relaybox import errors
from relaybox.monitoring.doctor import repairs
from relaybox.stores.init import script as init_script
from relaybox.stores.init.one_store import initialise_store
from relaybox.stores.schema import functions_version, migrations
from relaybox.stores.schema.functions_version import version_order
from tests.support.cli import invoke
from tests.support.init_scripts import init_by_script, write_script
from tests.support.psql import run_psql
from tests.support.world import World

STORE = "hub"
RECORD = "select functions_version from relaybox_internal.store"
BODY = (
    "select prosrc ~ 'of another version' from pg_proc where oid = 'relaybox_internal.segment_name(text, bigint)'::regprocedure"
)


def test_versions_are_ordered_as_the_package_index_orders_them() -> None:
    """A development version before its alpha, a release candidate before the release, a local part without effect."""
    versions = [
        "0.1.0.dev3",
        "0.1.0.dev12",
        "0.1.0a1",
        "0.1.0b1",
        "0.1.0rc2",
        "0.1.0",
        "0.1.0.post1",
        "0.1.1",
        "0.2.0",
        "0.10.0",
        "1.0.0",
    ]
    assert sorted(versions, key=version_order) == versions
    assert version_order("0.1.0+local.1") == version_order("0.1.0")
    with pytest.raises(ValueError, match="unknown is no version"):
        version_order("unknown")


def become(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, version: str) -> None:
    """This process is a Relaybox of that version, with a function of its own."""
    directory = tmp_path / version / "sql"
    shutil.copytree(migrations.sql_directory(), directory)
    (file,) = (directory / "functions").rglob("segment_name.sql")
    file.write_text(file.read_text().replace("select format(", f"-- of another version: {version}\n    select format("))
    monkeypatch.setattr(functions_version, "__version__", version)
    monkeypatch.setattr(migrations, "sql_directory", lambda: directory)
    monkeypatch.setattr(init_script, "sql_directory", lambda: directory)
    monkeypatch.setattr(repairs, "sql_directory", lambda: directory)
    monkeypatch.setattr(repairs, "__version__", version)


def init(world: World, *, older: bool = False) -> None:
    initialise_store(world.routes.store(STORE), world.routes, older=older)


def _doctor(exit_code: int) -> Mapping[str, str]:
    done = invoke("doctor", "--json", STORE)
    assert done.exit_code == exit_code, done.stdout
    (store,) = done.document["stores"]
    (result,) = [one for one in store["results"] if one["check"] == "functions"]
    return result


def test_an_older_init_is_refused_and_changes_nothing(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Command, dry run and script; with --older each goes back, and the version on record too."""
    this = world.value(STORE, RECORD)
    assert _doctor(0)["severity"] == "ok"
    with monkeypatch.context() as newer:
        become(newer, tmp_path, "9.1.0")
        init(world)
        assert (world.value(STORE, RECORD), world.value(STORE, BODY)) == ("9.1.0", True)
        assert _doctor(0)["severity"] == "ok"
    with pytest.raises(errors.SchemaTooNew, match=r"Relaybox 9\.1\.0 made its functions") as refused:
        init(world)
    assert "relaybox init --older" in refused.value.next_step
    for arguments in ((), ("--dry-run",)):
        done = invoke("init", STORE, *arguments)
        assert done.exit_code == 5, done.stdout
        assert "Relaybox 9.1.0 made its functions" in done.stderr
    script = run_psql(write_script(tmp_path, STORE), STORE)
    assert script.returncode == 3
    assert "Relaybox 9.1.0 made its functions" in script.stderr
    assert (world.value(STORE, RECORD), world.value(STORE, BODY)) == ("9.1.0", True)
    told = _doctor(1)
    assert told["what"].startswith(
        "Relaybox 9.1.0, which is newer, made its functions and views; 1 of them differ from those of this Relaybox"
    )
    assert "segment_name" in told["what"]
    assert told["next_step"].endswith("relaybox init --older")
    planned = invoke("init", STORE, "--dry-run", "--older")
    assert (planned.exit_code, world.value(STORE, BODY)) == (1, True)
    assert invoke("init", STORE, "--older").exit_code == 0
    assert (world.value(STORE, RECORD), world.value(STORE, BODY)) == (this, False)
    assert _doctor(0)["severity"] == "ok"


def test_a_script_with_older_goes_back(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As init --older does."""
    this = world.value(STORE, RECORD)
    with monkeypatch.context() as newer:
        become(newer, tmp_path, "9.1.0")
        init_by_script(tmp_path, STORE)
        assert world.value(STORE, RECORD) == "9.1.0"
    init_by_script(tmp_path, STORE, "--older")
    assert (world.value(STORE, RECORD), world.value(STORE, BODY)) == (this, False)


def test_an_older_init_with_the_same_functions_goes_on(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing would go back; the newer version stays on record."""
    world.query(STORE, "update relaybox_internal.store set functions_version = '9.1.0', functions_order = '{9,1,0,4,0}'")
    world.query(STORE, "drop function relaybox.lag(text)")
    init(world)
    assert world.value(STORE, RECORD) == "9.1.0"
    assert _doctor(0)["severity"] == "ok"


def test_doctor_names_functions_of_another_commit_of_the_same_version(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two commits of one version have no order: the last init wins, and doctor of the other one tells it."""
    this = world.value(STORE, RECORD)
    with monkeypatch.context() as other:
        become(other, tmp_path, this)
        init(world)
    told = _doctor(1)
    assert told["what"].startswith(f"Relaybox {this} made its functions and views; 1 of them differ")
    assert told["next_step"] == "Run: relaybox init"
    init(world)
    assert _doctor(0)["severity"] == "ok"


def test_functions_of_an_older_version_are_named_and_replaced(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A downgrade that was asked for is seen by doctor of the newer version."""
    with monkeypatch.context() as older:
        become(older, tmp_path, "0.0.9")
        init(world, older=True)
        assert world.value(STORE, RECORD) == "0.0.9"
    assert _doctor(1)["what"].startswith("Relaybox 0.0.9, which is older, made its functions and views; 1 of them differ")
    init(world)
    assert _doctor(0)["severity"] == "ok"
