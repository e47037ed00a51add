"""What the exit code of a command means, and how an error is told."""

from __future__ import annotations

import inspect

import pytest
import typer

from relaybox import errors
from relaybox.cli.exits import CommandGroup, ExitCode, Settings, exit_code, tell, worst
from tests.support.cli import invoke

LEAVES = [
    error
    for _, error in inspect.getmembers(errors, inspect.isclass)
    if issubclass(error, errors.RelayboxError) and error not in (errors.RelayboxError, errors.Terminal, errors.Transient)
]


@pytest.mark.parametrize("error", LEAVES, ids=lambda error: error.__name__)
def test_every_error_has_the_code_of_its_kind(error: type[errors.RelayboxError]) -> None:
    """2 for configuration, 4 if a retry may help, 5 if not; never a code that verify uses."""
    code = exit_code(error("what"))
    if issubclass(error, errors.ConfigurationError):
        assert code is ExitCode.CONFIGURATION
    else:
        assert code is (ExitCode.TRANSIENT if issubclass(error, errors.Transient) else ExitCode.TERMINAL)


@pytest.mark.parametrize(
    ("codes", "told"),
    [
        ([], ExitCode.FINE),
        ([ExitCode.TRANSIENT, ExitCode.TERMINAL], ExitCode.TERMINAL),
        ([ExitCode.CONFIGURATION, ExitCode.TRANSIENT], ExitCode.TRANSIENT),
        ([ExitCode.CONFIGURATION], ExitCode.CONFIGURATION),
    ],
)
def test_of_several_errors_the_one_that_no_retry_repairs_is_told(codes: list[ExitCode], told: ExitCode) -> None:
    assert worst(codes) is told


def test_an_error_is_one_message_with_its_next_step(capsys: pytest.CaptureFixture[str]) -> None:
    tell(errors.StoreUnreachable("store hub: no connection.", next_step="Check that the server runs."))
    assert capsys.readouterr() == ("", "error: store hub: no connection. Check that the server runs.\n")


def _app_that_raises(error: BaseException) -> typer.Typer:
    app = typer.Typer(cls=CommandGroup, pretty_exceptions_enable=False)

    @app.callback()
    def options(context: typer.Context, debug: bool = False) -> None:
        context.obj = Settings(None, debug)

    @app.command()
    def fail() -> None:
        raise error

    return app


@pytest.mark.parametrize(("debug", "shown"), [(["--debug"], True), ([], False)])
def test_a_traceback_is_shown_only_to_those_who_ask(debug: list[str], shown: bool, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exited:
        _app_that_raises(errors.StoreBusy("store hub: busy."))([*debug, "fail"])
    assert exited.value.code == ExitCode.TRANSIENT
    assert ("Traceback" in capsys.readouterr().err) == shown


def test_ctrl_c_ends_with_130_and_no_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exited:
        _app_that_raises(KeyboardInterrupt())(["fail"])
    assert exited.value.code == 130
    assert "Traceback" not in capsys.readouterr().err


def test_a_file_that_is_not_there_is_a_configuration_error(tmp_path: object) -> None:
    missing = invoke("--config", f"{tmp_path}/relaybox.yaml", "status", "--json")
    assert (missing.exit_code, missing.document["error"]["kind"]) == (2, "ConfigurationError")
    assert "no such file" in missing.stderr
