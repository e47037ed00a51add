"""The checks of a change: `make lint`, `make check` and the hooks of git are the same ones."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.support.changed import lints_of, select_modules
from tests.support.patience import patience

ROOT = Path(__file__).parents[2]
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
HOOKS = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))["repos"][0]["hooks"]
PROBE = """
def test_green(): pass
def test_green_too(): pass
def test_red(): raise AssertionError
"""


def lints() -> list[str]:
    """What `make lint` is made of."""
    (names,) = re.findall(r"^LINTS := (.+)$", MAKEFILE, flags=re.MULTILINE)
    return str(names).split()


def test_git_runs_what_make_lint_runs() -> None:
    """The same list in the same order, each by its target of the Makefile; no file that a check reads is passed over."""
    assert re.search(r"^lint: \$\(LINTS\) ##", MAKEFILE, flags=re.MULTILINE)
    assert [hook["id"] for hook in HOOKS] == lints()
    for hook in HOOKS:
        assert hook["entry"] == f"make --no-print-directory {hook['id']}"
        assert not hook["pass_filenames"]
        assert re.search(rf"^{hook['id']}: \$\(INSTALLED\)\n\t\$\(BIN\)/\S+", MAKEFILE, flags=re.MULTILINE)
        checked = "sql/functions/hops/hop_topics.sql" if hook["id"] == "lint-sql" else "plugins/relaybox/errors.py"
        assert all(re.search(hook["files"], file) for file in (checked, "pyproject.toml"))


def test_the_tree_is_as_the_editors_are_told() -> None:
    """.editorconfig: texts end with a line, lines without blanks (output in pages is left as it is); tabs only where make and gofmt ask for them."""
    texts = {
        name: (ROOT / name).read_text(encoding="utf-8")
        for name in subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
        if not name.endswith((".png", ".patch")) and not re.match(r"tests/upgrades/\w+/", name) and (ROOT / name).is_file()
    }
    kept = {name: text for name, text in texts.items() if not name.endswith(".md")}
    assert [name for name, text in kept.items() if re.search(r"[ \t\r]$", text, flags=re.MULTILINE)] == []
    assert [name for name, text in texts.items() if text and not text.endswith("\n")] == []
    assert [name for name, text in texts.items() if re.search(r"^ *\t", text, flags=re.MULTILINE)] == [
        "Makefile",
        "docs/examples/relaybox.go",
    ]


def test_make_check_runs_what_make_lint_runs() -> None:
    """SQL only where it changed: to lint all of it takes half a minute."""
    targets = lints_of(["plugins/relaybox/errors.py", "sql/grants.sql"])
    assert targets == [*lints(), "SQL=sql/grants.sql"]
    assert lints_of(["plugins/relaybox/errors.py"]) == [name for name in lints() if name != "lint-sql"]


def test_every_module_of_the_library_has_tests_that_a_change_of_it_runs() -> None:
    """But packages without content."""
    library = [path.relative_to(ROOT) for path in (ROOT / "plugins/relaybox").rglob("*.py") if path.name != "__init__.py"]
    assert [str(path) for path in library if not select_modules([str(path)])] == []


@pytest.mark.parametrize(
    ("file", "tests"),
    [
        ("tests/unit/test_checks.py", "tests/unit/test_checks.py"),
        ("docs/alerts.yml", "tests/unit/test_alarms.py"),
        ("docs/operations.md", "tests/unit/test_documents.py"),
        ("plugins/relaybox/routes/rules.py", "tests/unit/test_routes.py"),
        ("plugins/relaybox/hops/batches.py", "tests/unit/test_batches.py"),
        ("sql/functions/hops/publish_batch.sql", "tests/integration/test_schema.py"),
        ("sql/functions/hops/publish_batch.sql", "tests/integration/test_guards.py"),
        ("tests/support/clocks.py", "tests/integration/test_clocks.py"),
        ("tests/support/removed.py", "tests/unit/test_checks.py"),
    ],
)
def test_a_changed_file_runs_its_tests(file: str, tests: str) -> None:
    """One that is gone runs those that still name it, as this text names tests.support.removed."""
    assert tests in select_modules([file])[:12]


@pytest.mark.parametrize(
    ("seconds", "code", "said"), [(60, 1, "1 failed, 2 passed"), (0.5, 0, "3 tests of these modules were left out")]
)
def test_the_time_ends_a_check_and_a_red_test_is_red(tmp_path: Path, seconds: float, code: int, said: str) -> None:
    """A test of which nothing is known is expected to take a second."""
    (tmp_path / "test_probe.py").write_text(PROBE)
    (tmp_path / "pytest.ini").touch()
    program = "import sys, time; from tests.support.changed import run_tests; sys.exit(run_tests(sys.argv[2:], time.monotonic() + float(sys.argv[1])))"
    done = subprocess.run(
        [sys.executable, "-c", program, str(seconds), "--import-mode=importlib", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=patience(60),
        check=False,
    )
    assert said in done.stdout, done.stdout + done.stderr
    assert done.returncode == code
