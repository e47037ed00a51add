"""The example of docs/adopt.md, run as it stands there: an application with Debezium's outbox, which is not changed."""

from __future__ import annotations

import itertools
import json
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from relaybox.local.binaries import postgres_binaries
from relaybox.local.clusters import write_service_file
from relaybox.routes.adopt_rules import FILTERS, MAPPED_FIELDS
from tests.support.runbooks import RUNBOOKS, run_blocks

PAGE = (RUNBOOKS / "../adopt.md").resolve()
PROGRAM = PAGE.parent / "examples" / "debezium_outbox.py"


def test_the_example_of_the_page_from_the_first_row_to_the_consumer(
    databases: Mapping[str, Mapping[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each block exits 0. Three events of before and two that were deleted at once arrive once, in order."""
    services = {"shop": databases["airline"], "billing": databases["hub"]}
    write_service_file(tmp_path / "services.conf", services)
    for name, value in {"PGSERVICEFILE": tmp_path / "services.conf", "RELAYBOX_CONFIG": tmp_path / "relaybox.yaml"}.items():
        monkeypatch.setenv(name, str(value))
    shutil.copy(PROGRAM, tmp_path)
    blocks = run_blocks("../adopt", variables={}, binaries=postgres_binaries(), directory=tmp_path)
    # those behind them partition a table: test_adopt_partitions.py
    made, initialised, planned, adopted, moved = itertools.islice(blocks, 5)
    assert made.count("placed") == 3
    assert "shop" in initialised
    assert "Nothing was changed." in planned
    assert planned.count("shoporders  shop-app") == 3
    assert "3 messages of the backlog moved into the outbox" in adopted
    consumed = [json.loads(line) for line in moved.splitlines() if line.startswith("{")]
    assert [json.loads(one["payload"])["order"] for one in consumed] == [1, 2, 3, 4, 5]
    assert {(one["sender"], one["key"], one["headers"]["type"]) for one in consumed} == {
        ("shop-app", f"customer-{n}", "OrderPlaced") for n in range(2)
    }
    assert "shop: table public.outboxevent is adopted, sending" in moved


def test_the_page_has_every_part_of_a_map_and_every_filter() -> None:
    """And the sections that functions and messages name."""
    page = PAGE.read_text(encoding="utf-8")
    assert re.findall(r"^\| `(\w+)` \| (?:the id|its) ", page, flags=re.MULTILINE) == list(MAPPED_FIELDS)
    assert all(f"`:{one}`" in page for one in FILTERS)
    assert "## Change the table\n" in page
    assert yaml.safe_load(re.findall(r"^cat > relaybox.yaml <<END\n(.*?)END$", page, flags=re.MULTILINE | re.DOTALL)[0])
