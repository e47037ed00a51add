"""The command line: the options in front of the command, and the groups of commands, each of them a module."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Annotated

import typer

from relaybox.cli import (
    bench,
    consumers,
    dead_letters,
    demo,
    derivations,
    doctor,
    holdback,
    lake,
    monitoring,
    operators,
    recovery,
    retention,
    retry_plan,
    senders,
    stores,
    subscriptions,
    topics,
    transfer,
    trials,
    verification,
)
from relaybox.cli.exits import CommandGroup, Settings

GROUPS = (
    *(
        stores,
        doctor,
        transfer,
        derivations,
        trials,
        lake,
        monitoring,
        verification,
        subscriptions,
        operators,
        topics,
        consumers,
        dead_letters,
        senders,
        holdback,
    ),
    *(retention, recovery, retry_plan, demo, bench),
)
"""In the order of `relaybox --help`, which shows the commands of each module under its name."""

app = typer.Typer(
    name="relaybox",
    cls=CommandGroup,
    help="Moves messages from Postgres to Postgres, hop by hop. Verifies that none was lost, doubled or reordered.",
    epilog=(
        "Exit codes: 0 success; 1 verify found a defect, doctor an error, or reanchor or rebuild work; "
        "2 wrong usage or configuration, or status found a topic without a hop; "
        "3 verify found messages in flight or set aside and no defect, or doctor warnings and no error; 4 failed, and a retry may succeed; "
        "5 failed, and a retry fails again; 130 Ctrl-C."
    ),
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _add(group: ModuleType) -> None:
    """Adds the commands of a module: at the top level, or below a command of the module's name."""
    title = group.__name__.rpartition(".")[2].replace("_", " ").capitalize()
    if not isinstance(group.commands.info.name, str):
        for command in group.commands.registered_commands:
            command.rich_help_panel = title
    app.add_typer(group.commands, rich_help_panel=title)


for _group in GROUPS:
    _add(_group)


@app.callback()
def relaybox(
    context: typer.Context,
    *,
    config: Annotated[
        Path | None,
        typer.Option(
            "--config",
            envvar="RELAYBOX_CONFIG",
            help="The file of stores and routes. Default: ./relaybox.yaml",
            show_default=False,
        ),
    ] = None,
    airflow: Annotated[
        bool,
        typer.Option(
            "--airflow",
            envvar="RELAYBOX_AIRFLOW",
            help="Reach the stores by Airflow's connections and secrets backends, in place of the service file.",
        ),
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    """Stores the options in front of the command."""
    settings = Settings(config, debug, airflow)
    context.obj = settings
    context.call_on_close(settings.resources.close)
