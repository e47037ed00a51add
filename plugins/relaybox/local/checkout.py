"""Where the repository is: its dags/ and plugins/ are an Airflow home, which the demo and a benchmark run as they are."""

from __future__ import annotations

from pathlib import Path

import relaybox
from relaybox.errors import ConfigurationError


def find_checkout() -> Path:
    """The folder of the repository; a ConfigurationError if this is an installed wheel."""
    home = Path(relaybox.__file__).resolve().parents[2]
    if not (home / "dags").is_dir():
        raise ConfigurationError(
            f"this needs a checkout of the repository; {home} has no dags folder.", next_step="Run it in one, after make venv."
        )
    return home
