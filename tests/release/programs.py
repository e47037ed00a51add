"""Programs that make a part of a release, in surroundings of their own: what the caller's shell sets changes no byte of it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from relaybox.errors import ConfigurationError
from relaybox.process_lifetime import child_dies_with_parent


def run_module(module: str, *arguments: str | Path, directory: Path, epoch: int) -> None:
    """Runs a module of this Python's packages in a directory.

    Isolated (-I): neither the directory nor PYTHONPATH shadows a package. Only PATH comes from the caller.

    Args:
        epoch: the time that the program writes into files, in seconds since 1970.

    Raises:
        ConfigurationError: it failed; with its output.
    """
    environment = {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C.UTF-8", "TZ": "UTC", "SOURCE_DATE_EPOCH": str(epoch)}
    run([sys.executable, "-I", "-m", module, *arguments], directory, environment, next_step="Correct what it names.")


def run(
    command: Sequence[str | Path], directory: Path, environment: Mapping[str, str], *, next_step: str, given: bytes = b""
) -> bytes:
    """What a program prints that reads `given`; it ends with this process.

    Raises:
        ConfigurationError: there is no program of this name, or it failed; with its output and the next step.
    """
    try:
        done = subprocess.run(
            command,
            cwd=directory,
            env=environment,
            input=given,
            capture_output=True,
            check=False,
            preexec_fn=child_dies_with_parent(),
        )
    except FileNotFoundError as error:
        raise ConfigurationError(f"no program {command[0]} on PATH.", next_step=f"Install {command[0]}.") from error
    if done.returncode != 0:
        said = (done.stdout[-3000:] + done.stderr[-3000:]).decode(errors="replace").strip()
        words = " ".join(map(str, command))
        raise ConfigurationError(f"{words}: exit code {done.returncode}: {said}", next_step=next_step)
    return done.stdout
