"""The command of the demonstration: demo."""

from __future__ import annotations

import typer

from relaybox.cli.usage import CommandList

commands = CommandList()


@commands.command()
def demo(context: typer.Context) -> None:
    """Move 336,776 real messages over two hops with Airflow and Spark, on its own clusters.

    Runs until Ctrl-C. With DEMO_EXIT=1 it ends after verify.

    \b
    Examples:
      relaybox demo
      DEMO_EXIT=1 relaybox demo
    """
    from relaybox.local.demo.run import run_demo

    raise typer.Exit(run_demo())
