"""What docs/first-hop.md shows is run, as it stands there, on a server of its own: from two empty databases to the verification of delivery.

docs/applications.md goes on from its first three blocks.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from relaybox.local.binaries import postgres_binaries
from relaybox.local.processes import as_account, server_account
from tests.support.memory import fast_temporary_directory
from tests.support.runbooks import RUNBOOKS, run_blocks

PAGE = (RUNBOOKS / "../first-hop.md").resolve()


@pytest.fixture
def directory(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where the page's reader stands, with the variables that the page sets; owned by the account that may run Postgres."""
    with fast_temporary_directory("first-hop") as made:
        if account := server_account():
            os.chown(made, account.uid, account.gid)
        for variable, file in re.findall(r'(\w+)="\$PWD/([\w.]+)"', PAGE.read_text(encoding="utf-8")):
            monkeypatch.setenv(variable, str(made / file))
        yield made


def test_first_hop_from_two_empty_databases_to_the_verification_of_delivery(directory: Path) -> None:
    """Each block exits 0; what the page shows is what it prints."""
    page = PAGE.read_text(encoding="utf-8")
    blocks = run_blocks("../first-hop", variables={}, binaries=postgres_binaries(), directory=directory)
    made, _, initialised, sent, moved, consumed, in_sql, proven = (next(blocks) for _ in range(8))
    (stopped,) = blocks
    assert made == ""
    assert "shop" in initialised
    assert " 2 " in sent
    (shown,) = re.findall(r"```text\n(.*?)```", page, flags=re.DOTALL)
    assert shown in moved
    assert re.findall(r'"payload": "({.*?})"', consumed) == [r"{\"purchase\": 1}", r"{\"purchase\": 2}"]
    assert re.findall(r"^ +(\d)$", in_sql, flags=re.MULTILINE)[-2:] == ["1", "2"]
    assert "delivered" in proven
    assert "server stopped" in stopped


def test_an_application_of_its_page_sends_and_consumes_between_these_databases(directory: Path) -> None:
    for program in (PAGE.parent / "examples").glob("shop_*.py"):
        shutil.copy(program, directory)
    binaries = postgres_binaries()
    first = run_blocks("../first-hop", variables={}, binaries=binaries, directory=directory)
    next(first)
    try:
        next(first)
        next(first)
        (shown,) = run_blocks("../applications", variables={}, binaries=binaries, directory=directory)
        assert "orders/1: 1 message in 1 batch" in shown
        assert re.findall(r"^ +(\d)$", shown, flags=re.MULTILINE) == ["1", "7"]
    finally:
        stop = [binaries / "pg_ctl", "stop", "--pgdata", "data", "--mode", "immediate"]
        subprocess.run(stop, cwd=directory, check=True, capture_output=True, **as_account(server_account()))
