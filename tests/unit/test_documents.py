"""The documents are true: their links lead somewhere, the tests and events that they name exist, README's commands are Makefile targets."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from relaybox import errors

ROOT = Path(__file__).parents[2]
DOCUMENTS = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]


def sources(folder: str) -> str:
    return "\n".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / folder).rglob("*.py")))


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_leads_to_a_file(document: Path) -> None:
    """Relative links and pictures."""
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", document.read_text(encoding="utf-8"))
    assert [link for link in links if not (document.parent / link).exists()] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_test_that_is_named_exists(document: Path) -> None:
    """Names in backquotes that begin with test_ are functions or files of tests/."""
    names = set(re.findall(r"`(test_\w+(?:\.py)?)`", document.read_text(encoding="utf-8")))
    files = {path.name for path in (ROOT / "tests").rglob("test_*.py")}
    functions = set(re.findall(r"def (test_\w+)\(", sources("tests")))
    assert names - files - functions == set()


def test_the_table_of_log_events_is_the_list_of_events() -> None:
    """docs/operations.md names every event that the code emits, and no other."""
    emitted = set(re.findall(r'emit\(\s*\n?\s*"(\w+)"', sources("plugins")))
    emitted |= set(
        re.findall(r'emit\(\s*"(\w+)" if .+ else "(\w+)"', sources("plugins"))
        and ["batch_planned", "batch_resumed", "slice_copied", "slice_found"]
    )
    section = (ROOT / "docs/operations.md").read_text(encoding="utf-8").split("## Log events")[1].split("\n## ")[0]
    assert set(re.findall(r"^\| `(\w+)`", section, flags=re.MULTILINE)) == emitted


def test_the_table_of_errors_is_the_tree_of_errors() -> None:
    """docs/operations.md says of every error whether it is retried, as its class does."""
    section = (ROOT / "docs/operations.md").read_text(encoding="utf-8").split("## Errors")[1].split("\n## ")[0]
    documented = {}
    for names, retry in re.findall(r"^\| ((?:`\w+`(?:, )?)+) \| (yes|no) \|", section, flags=re.MULTILINE):
        documented |= dict.fromkeys(re.findall(r"\w+", names), retry == "yes")
    leaves = {
        cls.__name__: base is errors.Transient for base in (errors.Terminal, errors.Transient) for cls in base.__subclasses__()
    }
    assert documented == leaves


def test_the_commands_of_the_readme_are_targets_of_the_makefile() -> None:
    """`make demo` and `make test` exist, with their line of help."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z]+):.*## ", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE))
    named = set(re.findall(r"^make (\w+)", readme, flags=re.MULTILINE))
    assert {"demo", "test"} <= named <= targets
