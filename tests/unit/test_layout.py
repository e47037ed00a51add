"""How the tests are laid out: helpers in modules of helpers, so that a test module can be changed without reading another one."""

from __future__ import annotations

import ast
import re
from pathlib import Path

TESTS = Path(__file__).parents[1]


def imported_names(path: Path) -> set[str]:
    """Every module, and every name of a module, that a file imports."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
    return names


def test_no_module_imports_a_test_module() -> None:
    """What two test modules need is in tests/support/, or in a module of their package."""
    modules = {".".join(("tests", *path.relative_to(TESTS).with_suffix("").parts)): path for path in TESTS.rglob("*.py")}
    test_modules = {name for name in modules if name.rpartition(".")[2].startswith("test_")}
    assert len(test_modules) > 100
    imports = {name: imported_names(path) & test_modules for name, path in modules.items()}
    assert {name: sorted(wrong) for name, wrong in imports.items() if wrong} == {}


def test_the_top_of_the_tests_has_no_helpers() -> None:
    assert sorted(path.name for path in TESTS.glob("*.py")) == ["__init__.py", "conftest.py"]


def test_a_helper_of_one_folder_is_in_that_folder() -> None:
    """What is in tests/support serves several folders, other helpers there, or the Makefile."""
    used_in: dict[str, set[str]] = {path.stem: set() for path in (TESTS / "support").glob("[!_]*.py")}
    for path in (*TESTS.rglob("*.py"), TESTS.parent / "Makefile"):
        folder = path.relative_to(TESTS).parts[0] if path.is_relative_to(TESTS) else path.name
        for module, names in re.findall(r"\btests\.support(?:\.(\w+)| import ([\w, ]+))", path.read_text(encoding="utf-8")):
            for name in {module, *names.split(", ")} & used_in.keys() - {path.stem if folder == "support" else ""}:
                used_in[name].add(folder)
    assert len(used_in) > 30
    assert {
        name: folders for name, folders in used_in.items() if len(folders) < 2 and not folders & {"support", "Makefile"}
    } == {}
