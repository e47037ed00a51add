"""Seeded bugs: each patch breaks one rule of the protocol, and names the tests that must notice.

A patch begins with two lines: `# what is broken`, and `# tests: a pytest selection`, chosen narrow so that it takes seconds.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.support.patience import patience

HERE = Path(__file__).parent
REPOSITORY = HERE.parents[1]
TIMEOUT_SECONDS = 120
"""For one test; a mutant that makes its tests hang for longer needs a narrower one."""

_LEFT_OUT = shutil.ignore_patterns(".*", "__pycache__", "build", "dist")
_WHERE = "import relaybox, relaybox.stores.schema.migrations; print(relaybox.__file__); print(relaybox.stores.schema.migrations.sql_directory())"
_times = itertools.count(1_000_000_000)
_FAILED = re.compile(r"^FAILED (.+?)(?: - .*)?$", re.MULTILINE)


class MutantsBrokenError(Exception):
    """The mutants show nothing: a patch does not apply, its tests are not there, or other code was under test."""


@dataclass(frozen=True)
class Mutant:
    """One seeded bug."""

    name: str
    broken: str
    tests: tuple[str, ...]
    patch: Path

    @property
    def paths(self) -> list[str]:
        """The files of the repository that it changes."""
        return re.findall(r"^\+\+\+ b/(.+)$", self.patch.read_text(encoding="utf-8"), re.MULTILINE)


@dataclass(frozen=True)
class Verdict:
    """What the tests said of a mutant: `caught_by` is the first that failed, empty where the mutant survived."""

    mutant: Mutant
    caught_by: str
    seconds: float


def read_mutants(directory: Path = HERE) -> tuple[Mutant, ...]:
    """All mutants by name. Raises MutantsBrokenError for a patch without its two lines."""
    return tuple(_read_mutant(path) for path in sorted(directory.glob("*.patch")))


def _read_mutant(path: Path) -> Mutant:
    broken, tests, *_ = path.read_text(encoding="utf-8").splitlines()
    if not broken.startswith("# ") or not tests.startswith("# tests: "):
        raise MutantsBrokenError(f"{path.name}: the first line says what is broken, the second is `# tests: SELECTION`.")
    return Mutant(path.stem, broken[2:], tuple(shlex.split(tests.removeprefix("# tests: "))), path)


def copy_repository(destination: Path) -> Path:
    """A copy of the checkout without anything that tools left in it."""
    shutil.copytree(REPOSITORY, destination, ignore=_LEFT_OUT)
    return destination


def digest_of_code() -> str:
    """Of everything that decides whether a test notices a mutant: code, tests, mutants."""
    folders = (("plugins", "py"), ("sql", "sql"), ("tests", "py"), ("tests/mutants", "patch"))
    paths = [path for folder, ending in folders for path in sorted((REPOSITORY / folder).rglob(f"*.{ending}"))]
    return hashlib.sha256(b"".join(path.read_bytes() for path in paths)).hexdigest()[:12]


def apply_patch(mutant: Mutant, repository: Path, *options: str) -> None:
    """Breaks a copy, or repairs it (`--reverse`). Raises MutantsBrokenError when the code has moved on and the patch no longer fits."""
    outside = {**os.environ, "GIT_CEILING_DIRECTORIES": str(repository.parent)}  # no repository around the copy is meant
    answer = subprocess.run(
        ["git", "apply", *options, mutant.patch.resolve()],
        cwd=repository,
        env=outside,
        capture_output=True,
        text=True,
        check=False,
    )
    if answer.returncode != 0:
        raise MutantsBrokenError(f"{mutant.name}: the patch does not apply; bring it up to date. {answer.stderr.strip()}")


def require_under_test(repository: Path) -> None:
    """Proves that Python and SQL come from the copy. Raises MutantsBrokenError where another installation is found first."""
    answer = subprocess.run(
        [sys.executable, "-c", _WHERE],
        cwd=repository,
        env=copied_environment(repository),
        capture_output=True,
        text=True,
        check=True,
    )
    for site in answer.stdout.split():
        if not Path(site).resolve().is_relative_to(repository.resolve()):
            raise MutantsBrokenError(f"under test is {site}, not the copy in {repository}.")


def give_new_time(path: Path) -> None:
    """A time that no other text of this file has had: Python finds bytecode by the second and the size of its source.

    A mutant may make a file, which is gone when it is repaired.
    """
    at = next(_times)
    if path.exists():
        os.utime(path, (at, at))


def first_failure(selection: Sequence[str], repository: Path, clusters: Path | None = None) -> str:
    """The first test of a pytest selection that fails, or an empty text.

    Raises:
        MutantsBrokenError: pytest did not run the tests: nothing was selected, a name is wrong, or the stores could not be made.
    """
    command = [sys.executable, "-m", "pytest", "--quiet", "--exitfirst", "--no-header", "-p", "no:cacheprovider", *selection]
    try:
        answer = subprocess.run(
            [*command, f"--timeout={TIMEOUT_SECONDS}"],
            cwd=repository,
            env=copied_environment(repository) | ({"RELAYBOX_TEST_CLUSTERS": str(clusters)} if clusters else {}),
            capture_output=True,
            text=True,
            check=False,
            timeout=patience(10 * TIMEOUT_SECONDS),
        )
    except subprocess.TimeoutExpired as error:
        raise MutantsBrokenError(f"pytest {shlex.join(selection)} did not end.") from error
    if answer.returncode not in {0, 1}:
        raise MutantsBrokenError(
            f"pytest {shlex.join(selection)} ended with {answer.returncode}:\n{answer.stdout}{answer.stderr}"
        )
    failed = failed_in(answer.stdout)
    if answer.returncode == 1 and not failed:
        raise MutantsBrokenError(f"pytest {shlex.join(selection)} could not begin:\n{answer.stdout}{answer.stderr}")
    return failed


def failed_in(output: str) -> str:
    """The first test that failed, as pytest's summary names it (a name may have spaces); empty where none did, or none began."""
    failed = _FAILED.search(output)
    return failed[1] if failed else ""


def require_green(outcomes: Iterable[Verdict], repository: Path, clusters: Path | None = None) -> None:
    """The tests that noticed pass on unbroken code. Raises MutantsBrokenError if one fails there too: it shows nothing."""
    noticed = sorted({outcome.caught_by for outcome in outcomes if outcome.caught_by})
    if noticed and (failed := first_failure(noticed, repository, clusters)):
        raise MutantsBrokenError(f"{failed} fails without any mutant.")


def copied_environment(repository: Path) -> dict[str, str]:
    """The copy's code first; nothing of this process's own settings."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("RELAYBOX_", "PYTEST_", "PG"))}
    return {**kept, "PYTHONPATH": str(repository / "plugins"), "PYTHONDONTWRITEBYTECODE": "1"}
