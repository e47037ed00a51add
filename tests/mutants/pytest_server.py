"""A pytest that has its imports behind it: each run is a fork of this process, so that a mutant costs its tests and little more.

Reads one JSON list of pytest's arguments per line, with the seconds that the run may take in front, and answers with one JSON
document per line: the exit code (null: it took longer) and the first test that failed. The command's arguments are tests that are
imported before the first run.
"""

from __future__ import annotations

import importlib
import json
import os
import select
import signal
import sys
import tempfile
from pathlib import Path
from typing import TextIO

IMPORTED = ("hypothesis", "psycopg2.extras", "pytest", "yaml", "relaybox.cli", "tests.support.world", "tests.support.streams")


def main() -> int:
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever an import prints is no answer
    for module in IMPORTED:
        importlib.import_module(module)
    if sys.argv[1:]:
        _import_tests(sys.argv[1:])
    for line in sys.stdin:
        seconds, *arguments = json.loads(line)
        with tempfile.NamedTemporaryFile("w+", encoding="utf-8", suffix=".pytest") as output:
            code = _run(arguments, seconds, output)
            text = Path(output.name).read_text(encoding="utf-8", errors="replace")
        failed = [line.split(" ", 2)[1] for line in text.splitlines() if line.startswith(("FAILED ", "ERROR "))]
        print(json.dumps({"code": code, "failed": failed, "output": text[-3000:]}), file=answers, flush=True)
    return 0


def _import_tests(selection: list[str]) -> None:
    """They stay imported in every fork. Thirty files cost each run 0.4 s of CPU instead of 2.5 s."""
    answers, silence = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)
    try:
        code = importlib.import_module("pytest").main(["--collect-only", "--quiet", "-p", "no:cacheprovider", *selection])
        sys.stdout.flush()
    finally:
        os.dup2(answers, 1)
        os.close(answers)
        os.close(silence)
    if code != 0:
        sys.exit(f"pytest --collect-only {' '.join(selection)} ended with {code}.")


def _run(arguments: list[str], seconds: float, output: TextIO) -> int | None:
    """Exit code of a fork that runs the tests; None: it did not end in time and was killed, with what it had started."""
    process = os.fork()
    if process == 0:
        os.setsid()
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        code = 3
        try:
            code = int(importlib.import_module("pytest").main(arguments))
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    ended = os.pidfd_open(process)
    try:
        in_time = bool(select.select([ended], [], [], seconds)[0])
    finally:
        os.close(ended)
    if not in_time:
        os.killpg(process, signal.SIGKILL)
    status = os.waitpid(process, 0)[1]
    return os.waitstatus_to_exitcode(status) if in_time else None


if __name__ == "__main__":
    sys.exit(main())
