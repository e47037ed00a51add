"""Exit codes, and how an error is told: one message with its next step on stderr."""

from __future__ import annotations

import getpass
import traceback
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import typer

from relaybox import __version__, errors
from relaybox.cli.options import AS_JSON
from relaybox.cli.printable import print_text
from relaybox.cli.usage import UsageError, shows_help, wrong_usage

if TYPE_CHECKING:
    from relaybox.routes import Routes


class ExitCode(IntEnum):
    """What the exit code of a command means; Ctrl-C is 130."""

    FINE = 0
    DEFECT_FOUND = 1
    CONFIGURATION = 2
    IN_FLIGHT = 3
    TRANSIENT = 4
    TERMINAL = 5


@dataclass(frozen=True)
class Settings:
    """The options in front of the command."""

    config: Path | None
    debug: bool
    airflow: bool = False
    resources: ExitStack = field(default_factory=ExitStack)
    """Closed when the command ends."""

    @property
    def recorded_by(self) -> str:
        """Who runs this command, for the ledgers."""
        return f"{getpass.getuser()} with relaybox {__version__}"

    def load_routes(self) -> Routes:
        """The routes of the configuration; a ConfigurationError names every problem of the file."""
        from relaybox.routes import load_routes

        routes = load_routes(self.config)
        if self.airflow:
            self.resources.enter_context(_connections_of_airflow(routes))
        return routes


def _connections_of_airflow(routes: Routes) -> AbstractContextManager[None]:
    try:
        from relaybox.airflow.command_line import connections_of_airflow  # imports Airflow
    except ModuleNotFoundError as error:
        raise errors.ConfigurationError(
            f"--airflow: Airflow can't be imported here: {error}",
            next_step="Run relaybox in the environment of the tasks, or leave --airflow away and set PGSERVICEFILE.",
        ) from error
    return connections_of_airflow(routes)


def exit_code(error: errors.RelayboxError) -> ExitCode:
    """2 for a wrong configuration, 4 if a retry may help, else 5."""
    if isinstance(error, errors.ConfigurationError):
        return ExitCode.CONFIGURATION
    return ExitCode.TRANSIENT if isinstance(error, errors.Transient) else ExitCode.TERMINAL


def worst(codes: Iterable[ExitCode]) -> ExitCode:
    """The code of a command that met several errors: what no retry repairs comes first."""
    order = (ExitCode.FINE, ExitCode.CONFIGURATION, ExitCode.TRANSIENT, ExitCode.TERMINAL)
    return max(codes, key=order.index, default=ExitCode.FINE)


def tell(error: errors.RelayboxError, *, debug: bool = False) -> None:
    """Writes the error to stderr, with a traceback only if asked for."""
    if debug:
        print_text("".join(traceback.format_exception(error)).rstrip("\n"), stderr=True)
    print_text(f"error: {error}", stderr=True)


def warn_unanswered(error: errors.RelayboxError, unknown: str) -> None:
    """Says on stderr that a store did not answer which the command could do without, and what is therefore unknown."""
    print_text(f"warning: {error} {unknown}", stderr=True)


def end(found: Iterable[errors.RelayboxError], *, debug: bool) -> NoReturn:
    """Tells every error, and ends the command with the worst one's code; without an error it is fine."""
    codes = []
    for error in found:
        tell(error, debug=debug)
        codes.append(exit_code(error))
    raise typer.Exit(worst(codes))


@dataclass
class Failures:
    """What went wrong in a command that goes through several stores: one that fails stops none of the others, and is told at the end."""

    by_store: dict[str, errors.RelayboxError] = field(default_factory=dict)

    @contextmanager
    def kept(self, store: str) -> Iterator[None]:
        """Keeps an error of the block for later."""
        try:
            yield
        except errors.RelayboxError as error:
            self.by_store[store] = error

    def document(self) -> dict[str, str]:
        """The member `errors` of a JSON document."""
        return {store: str(error) for store, error in self.by_store.items()}

    def end(self, *, debug: bool) -> NoReturn:
        end(self.by_store.values(), debug=debug)


class CommandGroup(typer.core.TyperGroup):
    """Ends a command that raised an error of ours with a message and its code, without a traceback; with --json as a document too.

    Wrong usage is told in the same way, by the outermost group. `help COMMAND` is `COMMAND --help`.
    """

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        as_json = "--json" in args  # an argument that can't be parsed has no value: only its text says that JSON was asked for
        with _usage_told(as_json=as_json, outermost=parent is None):
            context = super().make_context(info_name, args, parent=parent, **extra)
        context.meta[_MENTIONS_JSON] = as_json or context.meta.get(_MENTIONS_JSON, False)
        return context

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        self.write_section(formatter, "Commands", self.list_commands(ctx))

    def write_section(self, formatter: Any, title: str, commands: Iterable[str]) -> None:
        """Writes commands with the first paragraph of their help, in columns as wide as those of the group's other sections."""
        widest = max(map(len, self.commands))
        with formatter.section(title):
            formatter.write_dl([(f"{name:{widest}}", _first_paragraph(self.commands[name].help)) for name in commands])

    def resolve_command(self, ctx: typer.Context, args: list[str]) -> Any:  # type: ignore[override]
        if args[0] == "help" and args[1:]:
            self._refuse_words_behind(ctx, args[1:])
            args = [*args[1:], ctx.help_option_names[0]]
        elif args[0] == "help":
            print_text(ctx.get_help())
            raise typer.Exit
        return super().resolve_command(ctx, args)

    def _refuse_words_behind(self, ctx: typer.Context, words: list[str]) -> None:
        """Refuses `help COMMAND WORD`: --help alone would not look at the word."""
        found: Any = self
        for number, word in enumerate(words):
            if word.startswith("-") or found is None:
                return
            if not hasattr(found, "get_command"):
                raise UsageError(f"'{' '.join(words[:number])}' has no command '{word}'", ctx)
            found = found.get_command(ctx, word)

    def invoke(self, ctx: typer.Context) -> object:  # type: ignore[override]
        with _usage_told(as_json=bool(ctx.meta[_MENTIONS_JSON]), outermost=ctx.parent is None):
            return self._invoke(ctx)

    def _invoke(self, ctx: typer.Context) -> object:
        try:
            return super().invoke(ctx)
        except errors.RelayboxError as error:
            settings = ctx.find_object(Settings)
            tell(error, debug=settings is not None and settings.debug)
            if ctx.meta.get(AS_JSON):
                _write_document(error)
            raise typer.Exit(exit_code(error)) from None


def _first_paragraph(text: str | None) -> str:
    return " ".join((text or "").partition("\n\n")[0].split())


class ListsByDefault(CommandGroup):
    """A group such as `senders`: `senders` and `senders STORE` list."""

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]
        if not args or args[0] not in {*self.commands, *ctx.help_option_names, "help"}:
            args = ["list", *args]
        return super().parse_args(ctx, args)


_MENTIONS_JSON = "relaybox.mentions_json"
"""Where a context remembers that the command line has --json somewhere."""


@contextmanager
def _usage_told(*, as_json: bool, outermost: bool) -> Iterator[None]:
    """Ends the process with code 2 after wrong usage: with a message on stderr, and with a document if JSON was asked for."""
    try:
        yield
    except UsageError as error:
        if not outermost or shows_help(error):
            raise
        wrong = wrong_usage(error)
        tell(wrong)
        if as_json:
            _write_document(wrong)
        raise typer.Exit(exit_code(wrong)) from None


def _write_document(error: errors.RelayboxError) -> None:
    """The only document of a command that failed: which error, what it says, what to do, whether a retry may help."""
    from relaybox.documents.document import write
    from relaybox.documents.errors import ErrorDocument, Failure

    failure = Failure(
        kind=type(error).__name__,
        message=Exception.__str__(error),
        next_step=error.next_step,
        retry_may_help=isinstance(error, errors.Transient),
        exit_code=exit_code(error),
    )
    write(ErrorDocument(error=failure))
