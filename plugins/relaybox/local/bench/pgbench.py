"""Sessions of pgbench that send the same message again and again: what it did, and the CPU time of the server."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from relaybox import errors
from relaybox.local.bench.stores import SOURCE
from relaybox.local.binaries import postgres_program

SESSIONS = 8
SIZES = (1, 100)
"""Messages per transaction."""


@dataclass(frozen=True)
class Sending:
    """A contestant has sent messages in one round; cpu_seconds are those of the server."""

    contestant: str
    size: int
    round: int
    messages: int
    seconds: float
    cpu_seconds: float


@dataclass(frozen=True)
class Script:
    """What pgbench runs as one transaction: a statement, or two of which the second needs the `:id` that the first returns."""

    contestant: str
    title: str
    statement: str
    size: int

    def write(self, directory: Path) -> Path:
        """Writes it for pgbench. 100 messages are one round trip, unless a statement needs the id of the one before."""
        path = directory / f"{self.contestant}-{self.size}.sql"
        if ";\n" in self.statement:
            first, second = self.statement.split(";\n")
            text = "begin;\n" + f"{first} \\gset\n{second};\n" * self.size + "commit;\n"
        elif self.size == 1:
            text = f"{self.statement};\n"
        else:
            text = "\\startpipeline\nbegin;\n" + f"{self.statement};\n" * self.size + "commit;\n\\endpipeline\n"
        path.write_text(text, encoding="utf-8")
        return path


def send(script: Script, directory: Path, *, round_: int, transactions: int, cpu_seconds: Callable[[], float]) -> Sending:
    """SESSIONS sessions run the script at the source, each this number of times, prepared.

    Raises:
        ContentDiffers: another number of transactions was run.
    """
    command = [str(postgres_program("pgbench")), "--no-vacuum", "--protocol=prepared", f"--client={SESSIONS}", "--jobs=2"]
    command += [f"--transactions={transactions}", f"--file={script.write(directory)}", f"service={SOURCE}"]
    before = cpu_seconds()
    answer = subprocess.run(command, env=dict(os.environ), capture_output=True, text=True, check=False)
    sent = re.search(r"actually processed: (\d+)", answer.stdout)
    rate = re.search(r"tps = ([\d.]+)", answer.stdout)
    if answer.returncode != 0 or sent is None or rate is None or int(sent[1]) != transactions * SESSIONS:
        raise errors.ContentDiffers(
            f"{script.title} did not send {transactions * SESSIONS} transactions: {(answer.stderr or answer.stdout)[-500:]}"
        )
    seconds = int(sent[1]) / float(rate[1])
    return Sending(script.contestant, script.size, round_, int(sent[1]) * script.size, seconds, cpu_seconds() - before)
