"""The fenced commands of a runbook, run as they are written."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from relaybox.local.processes import as_account, server_account
from tests.support.patience import patience

RUNBOOKS = Path(__file__).parents[2] / "docs" / "runbooks"

_BLOCK = re.compile(r"^```sh( postgres)?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """One fenced block: shell commands, who runs them, and the exit code that the runbook promises."""

    commands: str
    as_postgres: bool
    exit_code: int


def read_blocks(runbook: str) -> list[Block]:
    text = (RUNBOOKS / f"{runbook}.md").read_text(encoding="utf-8")
    return [Block(commands, bool(as_postgres), _exit_code(commands)) for as_postgres, commands in _BLOCK.findall(text)]


def _exit_code(commands: str) -> int:
    promised = re.search(r"# exits (\d+)", commands)
    return int(promised[1]) if promised else 0


def run_blocks(runbook: str, *, variables: Mapping[str, str], binaries: Path, directory: Path) -> Iterator[str]:
    """Runs block after block with bash, which stops at the first failure; yields what each printed.

    Args:
        runbook: file name in docs/runbooks, without its ending.
        variables: what the runbook's reader has in the environment.
        binaries: Postgres programs that are found first.
        directory: working directory, which the servers' account may write to.
    """
    path = f"{Path(sys.executable).parent}:{binaries}:{os.defpath}"
    blocks = read_blocks(runbook)
    assert blocks, f"{runbook}: no commands"
    for block in blocks:
        inherited = {} if block.as_postgres else dict(os.environ)
        answer = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", block.commands],
            env={**inherited, **variables, "PATH": path, "COLUMNS": "400"},
            cwd=directory,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=patience(120),
            **as_account(server_account() if block.as_postgres else None),
        )
        assert answer.returncode == block.exit_code, f"{block.commands}\n{answer.stdout}"
        yield answer.stdout
