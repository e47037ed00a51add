"""The command line in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.support.patience import patience
from tests.support.world import World


def relaybox(world: World, directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs the command line in a process of its own, which finds the function."""
    environment = {**os.environ, "RELAYBOX_CONFIG": str(world.path), "PYTHONPATH": str(directory)}
    command = [Path(sys.executable).with_name("relaybox"), *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=patience(180), check=False)
