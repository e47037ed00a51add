"""How a command is called: its usage line, and what is said if it is called in another way."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Any

import typer

from relaybox import errors

UsageError: Any = typer.BadParameter.__mro__[1]
"""Click's: Typer exports its subclasses only."""


class Runner(StrEnum):
    """Values of `runner`, as in relaybox.yaml."""

    AUTO = "auto"
    SPARK = "spark"
    THREADS = "threads"


class Command(typer.core.TyperCommand):
    """A command whose usage line has its arguments as they are declared: `ROUTE`, or `[STORE]` if it may be left out."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        arguments = (parameter for parameter in self.get_params(ctx) if parameter.param_type_name == "argument")
        return [str(self.options_metavar), *(str(argument.metavar) for argument in arguments)]


class CommandList(typer.Typer):
    """The commands of a module."""

    def command(self, name: str | None = None, **options: Any) -> Callable[[Any], Any]:
        return super().command(name, **{"cls": Command, **options})


def shows_help(error: Any) -> bool:
    """Whether it is no error but the help of a group that was called without a command. Older versions of Typer have no such error."""
    return type(error).__name__ == "NoArgsIsHelpError"


def wrong_usage(error: Any) -> errors.ConfigurationError:
    """Returns Click's error as one of ours: the same message, and which help to read."""
    command = "relaybox" if error.ctx is None else error.ctx.command_path
    message = error.format_message()
    steps = [f"Run: {command} --help"]
    option = getattr(error, "param", None)
    if option is not None and getattr(option, "multiple", False):
        steps.insert(0, f"Repeat the option for each value: {option.opts[0]} VALUE {option.opts[0]} VALUE.")
    return errors.ConfigurationError(message if message.endswith((".", "?")) else f"{message}.", next_step=" ".join(steps))
