"""CONTRIBUTING.md is true: its layers, paths, targets, folders and variables are those of the code."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TESTS = ROOT / "tests"
TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
NOT_FOR_PEOPLE = re.compile(r"PATH|LC_ALL|PGSERVICEFILE|RELAYBOX_CONFIG|AIRFLOW_.*")
"""What tests read because they, or the shell, set it."""
MAP = dict(re.findall(r"^\| `tests/(\w+)` \| ([^|]+) \|", TEXT, flags=re.MULTILINE))


def section(heading: str) -> str:
    return TEXT.split(f"\n## {heading}\n")[1].split("\n## ")[0]


def variables_read(path: Path) -> Iterator[str]:
    """Names in `os.environ["NAME"]` and `os.environ.get("NAME", ...)`; what is assigned or deleted is not read."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        match node:
            case (
                ast.Subscript(value=ast.Attribute(attr="environ"), slice=ast.Constant(value=str(name)), ctx=ast.Load())
                | ast.Call(
                    func=ast.Attribute(value=ast.Attribute(attr="environ"), attr="get"), args=[ast.Constant(value=str(name)), *_]
                )
                | ast.Call(func=ast.Attribute(attr="getenv"), args=[ast.Constant(value=str(name)), *_])
            ):
                yield name


def test_the_layers_are_those_of_the_import_contract() -> None:
    """In their order, line by line."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"]
    (layers,) = [contract["layers"] for contract in contracts if contract.get("containers") == ["relaybox"]]
    (picture,) = re.findall(r"```\n(.*?)```", section("The layers"), flags=re.DOTALL)
    assert [re.split(r" {2,}", line)[0] for line in picture.splitlines()] == layers


@pytest.mark.parametrize("text", re.findall(r"`([^`\n]+/[^`\n]*)`", TEXT))
def test_every_path_exists(text: str) -> None:
    """Words in capitals stand for a name; arguments of commands too."""
    for path in re.findall(r"(?<![\w/-])(?:[\w.-]+/)+[\w.-]*", text):
        if not path.startswith(".venv"):
            pattern = re.sub(r"\b[A-Z]{3,}\b(?!\.md)", "*", re.sub(r"NAME", "*", path)).rstrip("/")
            assert any(ROOT.glob(pattern)) or any((ROOT / "plugins/relaybox").glob(pattern)), path


def test_every_target_of_make_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+):", MAKEFILE, flags=re.MULTILINE)) | set(re.findall(r"lint-\w+", MAKEFILE))
    assert set(re.findall(r"(?:`|^)make ([a-z-]+)", TEXT, flags=re.MULTILINE)) <= targets


def test_the_map_has_every_folder_of_tests() -> None:
    assert set(MAP) == {path.name for path in TESTS.iterdir() if path.is_dir() and path.name != "__pycache__"}


def test_the_table_of_variables_is_what_the_tests_read() -> None:
    table = re.findall(r"^\| `([A-Z_]+)` \|", section("Variables of the tests"), flags=re.MULTILINE)
    read = {name for path in TESTS.rglob("*.py") for name in variables_read(path)}
    assert sorted(table) == sorted(name for name in read if not NOT_FOR_PEOPLE.fullmatch(name))


def test_the_variables_of_make_are_those_of_the_makefile() -> None:
    told = section("Variables of the tests").split("Variables of make:")[1]
    assert set(re.findall(r"`([A-Z]+)` \(", told)) == set(re.findall(r"^([A-Z]+) \?=", MAKEFILE, flags=re.MULTILINE))
