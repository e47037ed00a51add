"""The command `relaybox`. Imports are late throughout: `relaybox --help` loads no driver and no configuration."""

from __future__ import annotations

import sys
from importlib.util import find_spec

_NEEDED = ("typer", "rich", "pydantic", "yaml", "psycopg2", "sqlalchemy", "prometheus_client")
"""Modules of the extra `cli`."""


def main() -> None:
    """Runs the command line; ends the process with its exit code."""
    if missing := [module for module in _NEEDED if find_spec(module) is None]:
        print(
            f"error: the command line needs packages that are not installed ({', '.join(missing)}). "
            "Run: pip install 'relaybox[cli]'",
            file=sys.stderr,
        )
        sys.exit(2)
    from relaybox.cli.app import app

    app()
