"""A venv as a team has it: Airflow from the package registry in recorded versions, and nothing of this repository."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
VERSIONS = REPOSITORY / "tests" / "versions"

_UV = Path(sys.executable).with_name("uv")


@dataclass(frozen=True)
class BareAirflow:
    """A venv with `apache-airflow[postgres]` and pip.

    Args:
        directory: of the venv.
        constraints: the versions of all its packages, as `make lock` resolved them for this Airflow alone.
    """

    directory: Path
    constraints: Path

    @property
    def bin(self) -> Path:
        return self.directory / "bin"

    def install(self, *arguments: str | Path) -> None:
        """`uv pip install` with the constraints: what pip does, in a tenth of its time.

        Raises:
            AssertionError: it failed; with what it said.
        """
        uv("pip", "install", "--python", self.bin / "python", "--constraint", self.constraints, *arguments)

    def versions(self) -> dict[str, str]:
        """Package -> version, of all that is installed."""
        lines = uv("pip", "list", "--format", "freeze", "--python", self.bin / "python").splitlines()
        return dict(line.split("==", 1) for line in lines)


def make_bare_airflow(directory: Path, constraints: Path) -> BareAirflow:
    """A new venv of this Python with exactly what the constraints file names; packages are links into uv's cache."""
    uv("venv", "--seed", "--python", sys.executable, directory)
    made = BareAirflow(directory, constraints)
    made.install("apache-airflow[postgres]")
    return made


def build_wheel(directory: Path, tree: Path = REPOSITORY) -> Path:
    """The wheel of a tree; by default of this one."""
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", directory], cwd=tree, check=True)
    (wheel,) = directory.glob("relaybox-*.whl")
    return wheel


def uv(*arguments: str | Path) -> str:
    """What uv prints.

    Raises:
        AssertionError: it failed; with what it said.
    """
    environment = {name: text for name, text in os.environ.items() if name not in {"VIRTUAL_ENV", "PYTHONPATH"}}
    ran = subprocess.run([_UV, *arguments], env=environment, check=False, capture_output=True, text=True)
    assert ran.returncode == 0, f"uv {' '.join(map(str, arguments))}\n{ran.stderr}"
    return ran.stdout
