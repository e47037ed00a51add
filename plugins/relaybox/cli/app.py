"""The command line: the options in front of the command, and which module has which command.

A module is imported when one of its commands runs, or when the help of all commands is shown.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

from relaybox.cli.exits import CommandGroup, Settings

MODULES: dict[str, tuple[str, ...]] = {
    "stores": ("init", "version"),
    "doctor": ("doctor",),
    "adoption": ("adopt", "unadopt"),
    "transfer": ("transfer", "confirm"),
    "monitoring": ("status", "where", "metrics"),
    "verification": ("verify",),
    "consumers": ("consume", "replay"),
    "subscriptions": ("subscriptions",),
    "dead_letters": ("dead-letters",),
    "webhook": ("webhook",),
    "kafka": ("kafka",),
    "senders": ("senders",),
    "holdback": ("holdback", "skip"),
    "contracts": ("schemas", "asyncapi"),
    "operators": ("operators",),
    "topics": ("topics",),
    "derivations": ("derive",),
    "trials": ("trials",),
    "lake": ("export", "verify-lake"),
    "retention": ("retention", "attach", "retire"),
    "payloads": ("payloads",),
    "recovery": ("reanchor", "attest", "rebuild"),
    "retry_plan": ("plan-retries",),
    "demo": ("demo",),
    "bench": ("bench",),
}
"""The modules of relaybox.cli and their commands."""

SECTIONS: dict[str, tuple[str, ...]] = {
    "Stores": ("stores", "doctor", "adoption"),
    "Hops": ("transfer", "monitoring", "verification"),
    "Consumers": ("consumers", "subscriptions", "dead_letters"),
    "Webhooks and Kafka": ("webhook", "kafka"),
    "Senders and order": ("senders", "holdback"),
    "Schemas of topics": ("contracts",),
    "Rights of database roles": ("operators", "topics"),
    "Spark": ("derivations", "trials", "lake"),
    "Retention": ("retention", "payloads"),
    "A store that lost history": ("recovery",),
    "Planning and trying": ("retry_plan", "demo", "bench"),
}
"""The sections of `relaybox --help` and the modules whose commands they list, in this order."""


class _Commands(MutableMapping[str, Any]):
    """The commands by name. A command is made of its function when it is asked for."""

    def __init__(self) -> None:
        self._modules = {command: module for module, commands in MODULES.items() for command in commands}
        self._loaded: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._loaded:
            self._loaded |= load_commands(self._modules[name])
        return self._loaded[name]

    def __setitem__(self, name: str, command: Any) -> None:
        self._loaded[name] = command

    def __delitem__(self, name: str) -> None:
        del self._modules[name], self._loaded[name]

    def __contains__(self, name: object) -> bool:
        return name in self._modules

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __len__(self) -> int:
        return len(self._modules)


def load_commands(module: str) -> dict[str, Any]:
    """The commands of a module: those at the top level, or one command of the module's name that has the others below it."""
    outer = typer.Typer(cls=CommandGroup, add_completion=False, rich_markup_mode=None)
    outer.add_typer(import_module(f"relaybox.cli.{module}").commands)
    return dict(typer.main.get_group(outer).commands)


class _TopGroup(CommandGroup):
    """The command `relaybox`."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{**options, "commands": _Commands()})

    def list_commands(self, ctx: Any) -> list[str]:
        return list(self.commands)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        for section, modules in SECTIONS.items():
            self.write_section(formatter, section, tuple(command for module in modules for command in MODULES[module]))


app = typer.Typer(
    name="relaybox",
    cls=_TopGroup,
    help=(
        "Moves messages from Postgres to Postgres, hop by hop. Verifies that none was lost, doubled or reordered.\n\n"
        "`relaybox COMMAND --help` shows the options of a command, and examples."
    ),
    epilog=(
        "\b\n"
        "Exit codes:\n"
        "  0    done, and nothing is wrong\n"
        "  1    verify, verify-lake, payloads check: a defect. doctor: an error.\n"
        "       schemas: a version breaks the one before it. init --dry-run: an init\n"
        "       would change something. adopt --dry-run: something is in the way.\n"
        "       reanchor, rebuild without --reason: something is to do\n"
        "  2    wrong usage or configuration. status: something needs a decision\n"
        "  3    verify: messages are in flight or set aside, and no defect. doctor:\n"
        "       warnings, and no error. consume, webhook run, kafka run: messages are\n"
        "       left unread\n"
        "  4    an error, and a retry may succeed\n"
        "  5    an error, and a retry fails again\n"
        "  130  Ctrl-C"
    ),
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(asked: bool) -> None:  # typer passes it by position
    if asked:
        from relaybox.cli.stores import version

        version()
        raise typer.Exit


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
    version: Annotated[
        bool,
        typer.Option("--version", help="Show the version of Relaybox and of the schema.", is_eager=True, callback=_show_version),
    ] = False,
) -> None:
    """Stores the options in front of the command."""
    settings = Settings(config, debug, airflow)
    context.obj = settings
    context.call_on_close(settings.resources.close)
