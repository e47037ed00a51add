"""The sdist and the wheel. The wheel is built of the unpacked sdist, so the sdist has all that a build needs."""

from __future__ import annotations

import tarfile
from pathlib import Path

from tests.release.programs import run_module


def build_distributions(source: Path, target: Path, work: Path, *, epoch: int) -> tuple[Path, Path]:
    """Builds the sdist and the wheel of the files in `source` into `target`; unpacks the sdist below `work`.

    Raises:
        ConfigurationError: a build failed; with its output.
    """
    run_module("hatchling", "build", "-t", "sdist", "-d", target, directory=source, epoch=epoch)
    (sdist,) = target.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        archive.extractall(work / "unpacked", filter="data")
    unpacked = work / "unpacked" / sdist.name.removesuffix(".tar.gz")
    run_module("hatchling", "build", "-t", "wheel", "-d", target, directory=unpacked, epoch=epoch)
    (wheel,) = target.glob("*.whl")
    return sdist, wheel
