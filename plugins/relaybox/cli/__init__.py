"""The command `relaybox`. Imports are late throughout: `relaybox --help` loads no driver and no configuration."""

from __future__ import annotations


def main() -> None:
    """Runs the command line; ends the process with its exit code."""
    from relaybox.cli.app import app

    app()
