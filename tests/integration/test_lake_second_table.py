"""Another table beside the old one, as docs/lake.md does it: run, compared, and the old one ended."""

from __future__ import annotations

import contextlib
import io
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pytest
import yaml
from deltalake import DeltaTable, write_deltalake

from relaybox.local.clusters import postgres_program
from relaybox.spark.lake.exporting import export_stream
from relaybox.spark.lake.verifying import verify_lake
from tests.spark.command import relaybox
from tests.support.lake import STORE, InProcess, section_program
from tests.support.streams import deliver
from tests.support.world import World

SECTION = "Another table beside the old one"
OLD, NEW = "flights_lake", "flights_by_day"


@pytest.fixture
def exports(world: World, tmp_path: Path) -> World:
    """The two exports of the page. The old table has six messages; the stream has nine."""
    shown = yaml.safe_load(section_program(SECTION, language="yaml").replace("/srv/lake", str(tmp_path)))
    shown["exports"][NEW]["start"] = "4"
    document = yaml.safe_load(world.path.read_text(encoding="utf-8"))
    world.path.write_text(yaml.safe_dump(document | shown), encoding="utf-8")
    deliver(world, 6)
    export_stream(world.routes.export(OLD), InProcess())
    deliver(world, 3)
    return world


def differences(tmp_path: Path) -> list[str]:
    """What the program of the page prints."""
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(section_program(SECTION).replace("/srv/lake", str(tmp_path)), {})  # noqa: S102
    return printed.getvalue().splitlines()


def replace_rows(path: str, changes: Mapping[int, Mapping[str, object] | None]) -> None:
    """Writes the table anew, without the stream positions that are None, and with other values in others."""
    table = DeltaTable(path).to_pyarrow_table()
    rows = [{**row, **(changes.get(row["stream_position"]) or {})} for row in table.to_pylist()]
    kept = [row for row in rows if changes.get(row["stream_position"], {}) is not None]
    shutil.rmtree(path)
    write_deltalake(path, pa.Table.from_pylist(kept, schema=table.schema))


def test_two_exports_of_a_stream_equal_it_and_each_other(exports: World, tmp_path: Path) -> None:
    """The range that both have is compared; the new table has another partitioning, and one column more."""
    routes = exports.routes
    export_stream(routes.export(NEW), InProcess())
    assert [verify_lake(routes.export(name), InProcess()).differences for name in (OLD, NEW)] == [[], []]
    nothing = ["only in the old table: 0 []", "only in the new table: 0 []", "changed: 0 []"]
    assert differences(tmp_path) == ["stream positions 4 to 6, 3 rows are equal", *nothing]
    export_stream(routes.export(OLD), InProcess())
    assert differences(tmp_path) == ["stream positions 4 to 9, 6 rows are equal", *nothing]


def test_rows_that_are_missing_or_changed_are_counted_and_named(exports: World, tmp_path: Path) -> None:
    export_stream(exports.routes.export(NEW), InProcess())
    export_stream(exports.routes.export(OLD), InProcess())
    replace_rows(exports.routes.export(OLD).path, {5: None, 8: {"payload": "other"}})
    replace_rows(exports.routes.export(NEW).path, {6: None, 7: None})
    assert differences(tmp_path) == [
        "stream positions 4 to 9, 2 rows are equal",
        "only in the old table: 2 [6, 7]",
        "only in the new table: 1 [5]",
        "changed: 1 [8]",
    ]


@pytest.mark.thorough
def test_the_commands_of_the_page_run_and_end_the_old_export(exports: World, tmp_path: Path) -> None:
    """Retention waits for the new one alone then."""
    commands, promotion = (section_program(SECTION, number, language="sh") for number in (0, 1))
    for line in commands.splitlines():
        ran = relaybox(exports, tmp_path, *line.removeprefix("relaybox ").split())
        assert ran.returncode == 0, ran.stderr
    statement = re.search(r'-c "(.*)"', promotion)
    assert statement is not None
    psql = [postgres_program("psql"), f"service={STORE}", "-v", "ON_ERROR_STOP=1", "-c", statement[1]]
    subprocess.run(psql, check=True, capture_output=True)
    found = exports.query(STORE, "select subscription from relaybox.subscriptions where subscription like 'export.%%'")
    assert found == [(f"export.{NEW}",)]
