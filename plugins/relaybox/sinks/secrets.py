"""Where the secrets of sinks are: relaybox.yaml has their names only."""

from __future__ import annotations

import os
from collections.abc import Callable

from relaybox.errors import ConfigurationError

FindSecret = Callable[[str], str]
"""Returns the secret that relaybox.yaml names env:NAME or connection:ID."""


def find_in_environment(where: str) -> str:
    """Returns the secret that an environment variable of this process has.

    Raises:
        ConfigurationError: the variable is not set, or the secret is in an Airflow connection.
    """
    kind, _, name = where.partition(":")
    if kind != "env":
        raise ConfigurationError(
            f"secret {where}: it is in Airflow, which this command does not read.",
            next_step="Run the DAG of the sink, or the command with --airflow, or name an environment variable: env:NAME.",
        )
    if not (secret := os.environ.get(name)):
        raise ConfigurationError(
            f"secret {where}: the environment variable {name} is {'empty' if name in os.environ else 'not set'}.",
            next_step=f"Set {name} for the process that delivers.",
        )
    return secret
