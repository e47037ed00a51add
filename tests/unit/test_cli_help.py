"""Every command explains itself, with examples, and without loading what it does not need."""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import typer

from relaybox import cli
from relaybox.cli.app import MODULES, SECTIONS, app, load_commands
from relaybox.cli.bench import SliceCopier
from relaybox.cli.usage import Runner
from relaybox.documents.answers import ANSWERS
from relaybox.documents.errors import ErrorDocument
from relaybox.local.bench import runners
from relaybox.routes.route_rules import RUNNERS
from tests.support.cli import commands, invoke
from tests.support.patience import patience

COMMANDS = [
    ["init"],
    ["adopt"],
    ["unadopt"],
    ["status"],
    ["metrics"],
    ["where"],
    ["verify"],
    ["holdback"],
    ["skip"],
    ["transfer"],
    ["confirm"],
    ["retention"],
    ["payloads", "list"],
    ["payloads", "check"],
    ["payloads", "collect"],
    ["payloads", "restore"],
    ["payloads", "prepare"],
    ["payloads", "forget"],
    ["retire"],
    ["derive"],
    ["trials", "run"],
    ["trials", "compare"],
    ["trials", "promote"],
    ["trials", "drop"],
    ["export"],
    ["verify-lake"],
    ["doctor"],
    ["attach"],
    ["plan-retries"],
    ["rebuild"],
    ["reanchor"],
    ["attest"],
    ["senders", "list"],
    ["senders", "declare"],
    ["senders", "new-epoch"],
    ["senders", "bind"],
    ["senders", "unbind"],
    ["subscriptions", "list"],
    ["subscriptions", "bindings"],
    ["subscriptions", "bind"],
    ["subscriptions", "unbind"],
    ["operators", "list"],
    ["operators", "bind"],
    ["operators", "unbind"],
    ["topics", "list"],
    ["topics", "grant"],
    ["topics", "revoke"],
    ["schemas"],
    ["asyncapi"],
    ["consume"],
    ["replay"],
    ["webhook", "list"],
    ["webhook", "run"],
    ["webhook", "retry"],
    ["kafka", "list"],
    ["kafka", "run"],
    ["kafka", "retry"],
    ["dead-letters", "list"],
    ["dead-letters", "show"],
    ["dead-letters", "redrive"],
    ["dead-letters", "drop"],
    ["demo"],
    ["bench", "hop"],
    ["bench", "growth"],
    ["bench", "workers"],
    ["bench", "order"],
    ["bench", "spark"],
    ["bench", "latency"],
    ["bench", "consume"],
    ["bench", "produce"],
    ["bench", "adopt"],
    ["bench", "page"],
    ["bench", "retention"],
    ["bench", "steady"],
    ["bench", "waiting"],
    ["bench", "sinks"],
    ["version"],
]


def test_every_command_is_looked_at() -> None:
    """A command that is new is in the list above."""
    assert sorted(map(tuple, COMMANDS)) == sorted(commands())


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_each_command_shows_examples_of_itself(command: list[str]) -> None:
    help_ = invoke(*command, "--help")
    assert help_.exit_code == 0
    assert "Examples:" in help_.stdout
    assert f"relaybox {' '.join(command)}" in help_.stdout.partition("Examples:")[2]


def test_each_command_but_a_few_writes_json_and_its_document_is_known() -> None:
    """`consume` always writes JSON, `asyncapi` a document of its own, the demo and the benchmarks write none to stdout."""
    words = {" ".join(command): options for command, options in commands().items()}
    assert {name for name, options in words.items() if "--json" in options and not name.startswith("bench ")} == set(ANSWERS)
    assert {name for name in words if name not in ANSWERS and not name.startswith("bench ")} == {"asyncapi", "consume", "demo"}


def test_help_lists_every_command_and_the_exit_codes() -> None:
    help_ = " ".join(invoke("--help").stdout.split())
    assert all(f" {command[0]} " in help_ for command in COMMANDS)
    assert "Exit codes: 0 done, and nothing is wrong 1 verify, verify-lake, payloads check: a defect. doctor: an error." in help_
    assert "2 wrong usage or configuration. status: something needs a decision 3 verify" in help_


def test_each_module_of_commands_is_in_one_section_of_the_help() -> None:
    """`relaybox --help` has the sections in their order, and a module of relaybox.cli has the commands that MODULES says."""
    for name, command in typer.main.get_command(app).commands.items():
        leaves = getattr(command, "commands", {"": command}).values()
        modules = {inspect.unwrap(leaf.callback).__module__.removeprefix("relaybox.cli.") for leaf in leaves}
        assert modules == {module for module, commands in MODULES.items() if name in commands}
    files = {
        path.stem for path in Path(cli.__file__).parent.glob("*.py") if "@commands.command(" in path.read_text(encoding="utf-8")
    }
    assert set(MODULES) == files
    assert sorted(module for modules in SECTIONS.values() for module in modules) == sorted(MODULES)
    sections = re.findall(r"^(\S.*):$", invoke("--help").stdout, flags=re.MULTILINE)
    assert sections == ["Options", *SECTIONS]


def test_no_command_of_a_module_is_missing_in_the_list() -> None:
    """A command that a module has and MODULES has not could not be run."""
    for module, names in MODULES.items():
        assert tuple(load_commands(module)) == names


def test_help_loads_no_driver_no_configuration_no_engine_and_no_terminal_library() -> None:
    """So that it answers at once: pydantic and rich take as long as all the rest."""
    assert (
        _loaded(["--help"]) & {"psycopg2", "yaml", "sqlalchemy", "airflow", "pyspark", "pydantic", "rich", "relaybox.routes"}
        == set()
    )


def test_a_command_loads_no_other_command() -> None:
    loaded = _loaded(["status", "--help"])
    assert {f"relaybox.cli.{module}" for module in MODULES} & loaded == {"relaybox.cli.monitoring"}
    assert loaded & {"psycopg2", "yaml", "rich", "relaybox.routes"} == set()


def test_status_loads_what_it_prints_and_no_json_documents(tmp_path: Path) -> None:
    """It is typed often, so it shows a table without what the other commands need."""
    file = tmp_path / "relaybox.yaml"
    file.write_text("stores: {a: {}, b: {}}\nroutes: {r: {topics: [r], path: [a, b]}}\n", encoding="utf-8")
    loaded = _loaded(["--config", str(file), "status"])
    assert {"psycopg2", "relaybox.monitoring.status", "relaybox.cli.terminal.monitoring"} <= loaded
    assert loaded & {"rich.markdown", "rich.traceback", "markdown_it", "relaybox.documents", "airflow", "pyspark"} == set()


def _loaded(arguments: list[str]) -> set[str]:
    """Names of the modules that a command has loaded when it ends, in a process of its own. Its stores do not exist."""
    script = (
        "import sys\nfrom relaybox.cli.app import app\n"
        f"try:\n    app({arguments!r})\nexcept SystemExit:\n    pass\nprint(' '.join(sorted(sys.modules)))"
    )
    finished = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        timeout=patience(60),
        check=True,
        env={**os.environ, "PGSERVICEFILE": os.devnull},
    )
    return set(finished.stdout.splitlines()[-1].split())


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["no-such-command"], "No such command 'no-such-command'"),
        (["verify"], "Missing argument 'ROUTE'"),
        (["where", "not-a-uuid"], "Invalid value for 'MESSAGE_ID'"),
        (["transfer", "flights/1", "--threads", "0"], "Invalid value for '--threads'"),
        (
            ["verify", "flights", "--runner", "sparks"],
            "'sparks' is not one of 'auto', 'spark', 'threads'. Run: relaybox verify --help",
        ),
        (["bench", "hop", "--runner", "sparks"], "'sparks' is not one of 'spark', 'threads'"),
        (["bench", "latency", "--runner", "sparks"], "'sparks' is not one of 'auto', 'spark', 'threads'"),
        (["bench", "latency", "--hops", "1,10"], "Repeat the option for each value: --hops VALUE --hops VALUE."),
        (["status", "--jsn"], "No such option: --jsn"),
        (["statsu"], "No such command 'statsu'. Did you mean 'status'? Run: relaybox --help"),
        (["help", "transfer", "extra"], "'transfer' has no command 'extra'. Run: relaybox --help"),
        (["help", "bench", "adopt", "extra"], "'bench adopt' has no command 'extra'. Run: relaybox --help"),
        (["help", "statsu"], "No such command 'statsu'. Did you mean 'status'? Run: relaybox --help"),
        (["bench", "latncy"], "No such command 'latncy'. Did you mean 'latency'? Run: relaybox bench --help"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_wrong_usage_is_exit_code_2_with_the_argument_named(arguments: list[str], said: str) -> None:
    wrong = invoke(*arguments)
    assert wrong.exit_code == 2
    assert said in " ".join(wrong.stderr.split())
    assert wrong.stderr.startswith("error: ")
    assert len(wrong.stderr.splitlines()) == 1
    assert wrong.stdout == ""


def test_wrong_usage_of_every_command_is_one_json_document_where_json_is_asked_for() -> None:
    """An unknown option, in front of the command too; one document on stdout, nothing lost on stderr."""
    for words in [*commands(), ()]:
        wrong = invoke(*words, "--no-such-option", "--json")
        error = ErrorDocument.model_validate_json(wrong.stdout).error
        assert (wrong.exit_code, error.exit_code, error.kind, error.retry_may_help) == (2, 2, "ConfigurationError", False), words
        assert "--no-such-option" in error.message, words
        assert error.next_step == f"Run: {' '.join(('relaybox', *words))} --help"
        assert wrong.stderr == f"error: {error.message} {error.next_step}\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["no-such-command", "--json"], "No such command 'no-such-command'"),
        (["verify", "--json"], "Missing argument 'ROUTE'"),
        (["where", "--json", "not-a-uuid"], "Invalid value for 'MESSAGE_ID'"),
        (["transfer", "flights/1", "--json", "--threads", "0"], "Invalid value for '--threads'"),
        (["--no-such-option", "status", "--json"], "No such option: --no-such-option"),
        (["bench", "--json"], "No such option: --json"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_wrong_usage_is_one_json_document(arguments: list[str], said: str) -> None:
    wrong = invoke(*arguments)
    assert ErrorDocument.model_validate_json(wrong.stdout).error.message.startswith(said)
    assert wrong.exit_code == 2


def test_usage_lines_have_an_argument_as_it_is_declared() -> None:
    """`ROUTE`, `[STORE]...`: not in two pairs of brackets."""
    for command in COMMANDS:
        usage = " ".join(invoke(*command, "--help").stdout.partition("\n\n")[0].split())
        assert re.fullmatch(rf"Usage: relaybox {' '.join(command)} \[OPTIONS\]( \[?[A-Z_|]+\]?(\.\.\.)?)*", usage), usage


@pytest.mark.parametrize(
    "words", [[], ["status"], ["senders"], ["senders", "list"], ["dead-letters", "list"], ["bench", "hop"]], ids=" ".join
)
def test_help_of_a_command_is_its_option_help(words: list[str]) -> None:
    assert invoke("help", *words) == replace(invoke(*words, "--help"), arguments=("help", *words))
    if words[1:]:
        assert invoke(words[0], "help", *words[1:]).stdout == invoke(*words, "--help").stdout


def test_the_copiers_of_a_benchmark_are_those_that_it_takes() -> None:
    assert [*SliceCopier] == [*runners.RUNNERS]
    assert [*Runner] == [*RUNNERS]


def test_the_option_version_is_the_command_version() -> None:
    assert invoke("--version") == replace(invoke("version"), arguments=("--version",))


def test_version_tells_program_and_schema() -> None:
    document = invoke("version", "--json").document
    assert set(document) == {"version", "schema"}
    assert f"relaybox {document['version']}, schema {document['schema']}" in invoke("version").stdout
