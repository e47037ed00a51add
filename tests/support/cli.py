"""The command `relaybox`, run by tests: in this process where speed matters, in its own where the whole of it does."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pytest
import typer
from pydantic import ValidationError
from typer.testing import CliRunner

from relaybox.cli.app import app
from relaybox.documents.answers import ANSWERS
from relaybox.documents.document import Document
from relaybox.documents.errors import ErrorDocument
from tests.support.patience import patience


@dataclass(frozen=True)
class Run:
    """What a command left behind."""

    arguments: tuple[str, ...]
    exit_code: int
    stdout: str
    stderr: str

    @property
    def document(self) -> Any:
        """The one JSON document on stdout, which is one that docs/json.md gives this command."""
        wrong = []
        for model in (*answers_of(self.arguments), ErrorDocument):
            try:
                model.model_validate_json(self.stdout)
            except ValidationError as error:
                wrong.append(str(error))
            else:
                return json.loads(self.stdout)
        pytest.fail(f"{self.arguments} wrote no document of its own: {self.stdout}\n{'; '.join(wrong)}")


def answers_of(arguments: tuple[str, ...]) -> tuple[type[Document], ...]:
    """The documents that the command may answer with; `senders` alone lists."""
    named = next(name for name in arguments if any(name == command.split()[0] for command in ANSWERS))
    own = {command: models for command, models in ANSWERS.items() if command.split()[0] == named}
    of_group = {
        command: models for command, models in own.items() if command.split()[-1] in arguments[arguments.index(named) + 1 :]
    }
    return next(iter((of_group or own).values()))


def invoke(*arguments: str, answer: str | None = None) -> Run:
    """Runs a command in this process; an exception that is no exit is the test's failure. `answer`: what a person types."""
    command = _command()
    with CliRunner().isolation(input=answer) as (stdout, stderr, _):
        with pytest.raises(SystemExit) as ended:
            command.main(args=arguments, prog_name="relaybox")
        sys.stdout.flush()
        sys.stderr.flush()
        return Run(arguments, int(ended.value.code or 0), stdout.getvalue().decode(), stderr.getvalue().decode())


def diagnose(store: str, check: str) -> list[tuple[str, str, str]]:
    """What `relaybox doctor` says of one check of a store: severity, what, and the next step."""
    (report,) = invoke("doctor", store, "--json").document["stores"]
    return [(one["severity"], one["what"], one["next_step"]) for one in report["results"] if one["check"] == check]


@functools.cache
def _command() -> Any:
    """Made once: Typer takes longer to make it of its 35 functions than `relaybox status` needs."""
    return typer.main.get_command(app)


def start(*arguments: str, environment: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
    """Starts a command as a process of its own, with this process's environment, and more of it."""
    return subprocess.Popen(
        [sys.executable, "-c", "from relaybox.cli import main; main()", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **(environment or {})},
    )


def run(*arguments: str, environment: Mapping[str, str] | None = None) -> Run:
    """Runs a command as a process of its own to its end."""
    process = start(*arguments, environment=environment)
    stdout, stderr = process.communicate(timeout=patience(120))
    return Run(arguments, process.returncode, stdout, stderr)


def commands() -> dict[tuple[str, ...], set[str]]:
    """Every command by its words, `("bench", "hop")`, with its options."""

    def walk(command: Any, *words: str) -> Iterator[tuple[tuple[str, ...], set[str]]]:
        if hasattr(command, "commands"):
            for name, inner in command.commands.items():
                yield from walk(inner, *words, name)
        else:
            yield (
                words,
                {
                    option
                    for parameter in command.params
                    for option in (*parameter.opts, *parameter.secondary_opts)
                    if option.startswith("-")
                },
            )

    return dict(walk(_command()))
