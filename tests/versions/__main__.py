"""Runs the core of the suite: `python -m tests.versions [14 17] [-- -k fifo]` on versions of Postgres.

With `--python` it is the core of this Python, with `--lowest` that of these packages. `make test-versions`, `make test-pythons` and
`make test-lowest` call it; what follows `--` are options of pytest.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Sequence

from relaybox.errors import ConfigurationError
from tests.support.postgres_versions import NEWEST, package_versions, reason_for_none, server_binaries
from tests.versions.core import CORE, LOWEST_CORE, PYTHON_CORE


def main(arguments: Sequence[str]) -> int:
    """Exit code 0 when everything is green."""
    cut = arguments.index("--") if "--" in arguments else len(arguments)
    parser = argparse.ArgumentParser(prog="python -m tests.versions", description=__doc__)
    parser.add_argument(
        "majors", nargs="*", type=int, help=f"{', '.join(map(str, package_versions()))} (default: all) or {NEWEST}"
    )
    parser.add_argument("--python", action="store_true", help="the core of this Python, on the newest Postgres")
    parser.add_argument("--lowest", action="store_true", help="the core of these packages, on the newest Postgres")
    own, options = parser.parse_args(arguments[:cut]), arguments[cut + 1 :]
    if own.python or own.lowest:
        return run_tests(NEWEST, PYTHON_CORE if own.python else LOWEST_CORE, options).returncode
    try:
        return _run_versions(own.majors or [*package_versions()], options)
    except ConfigurationError as error:
        print(error, file=sys.stderr)
        return 2


def _run_versions(majors: Sequence[int], options: Sequence[str]) -> int:
    if reason := reason_for_none():
        raise ConfigurationError(f"{reason}.", next_step="Run it on another machine.")
    for major in majors:
        server_binaries(major)
    lines, code = [], 0
    for major in majors:
        began = time.monotonic()
        print(f"Postgres {major}", flush=True)
        red = run_tests(major, CORE, options).returncode
        code = code or red
        lines.append(f"Postgres {major}: {'red' if red else 'green'}, {time.monotonic() - began:.0f} s")
    print(*lines, sep="\n")
    return code


def run_tests(
    major: int, tests: Sequence[str], options: Sequence[str] = (), *, capture: bool = False
) -> subprocess.CompletedProcess[str]:
    """A pytest of its own, whose stores all run this version."""
    environment = {**os.environ, "RELAYBOX_TEST_POSTGRES": str(major)}
    environment.pop("RELAYBOX_TEST_CLUSTERS", None)  # they run the version that they were made with
    command = [sys.executable, "-m", "pytest", "--quiet", *options, *tests]
    return subprocess.run(command, env=environment, check=False, text=True, capture_output=capture)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
