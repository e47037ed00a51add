"""Failpoints: off by default, refused outside a test, and what each action does."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from relaybox.errors import ConfigurationError
from relaybox.failpoints import FAILPOINTS, reach
from tests.support.patience import patience

PROGRAM = """
from relaybox.failpoints import reach
for n in range(3):
    reach("slice.copied", None)
    print(n, flush=True)
"""


def run(text: str, directory: Path, environment: str = "test") -> subprocess.CompletedProcess[str]:
    """A process that reaches `slice.copied` three times."""
    env = {
        **os.environ,
        "RELAYBOX_FAILPOINTS": text,
        "RELAYBOX_FAILPOINTS_DIRECTORY": str(directory),
        "RELAYBOX_ENVIRONMENT": environment,
    }
    return subprocess.run(
        [sys.executable, "-c", PROGRAM], env=env, capture_output=True, text=True, timeout=patience(60), check=False
    )


def test_nothing_happens_unless_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RELAYBOX_FAILPOINTS", raising=False)
    for failpoint in FAILPOINTS:
        reach(failpoint, None)


def test_failpoints_are_refused_outside_a_test(tmp_path: Path) -> None:
    ended = run("slice.copied=kill", tmp_path, environment="production")
    assert ended.returncode == 1
    assert "RELAYBOX_FAILPOINTS is set, but this is not a test." in ended.stderr
    assert not list(tmp_path.iterdir())


def test_a_kill_happens_at_the_chosen_hit_and_is_recorded(tmp_path: Path) -> None:
    ended = run("slice.copied:2=kill", tmp_path)
    assert (ended.returncode, ended.stdout) == (-signal.SIGKILL, "0\n")
    (line,) = (tmp_path / "hits.jsonl").read_text().splitlines()
    assert json.loads(line).items() >= {"failpoint": "slice.copied", "hit": 2, "action": "kill"}.items()


def test_a_pause_lasts_until_it_is_released(tmp_path: Path) -> None:
    (tmp_path / "slice.copied.go").touch()
    ended = run("slice.copied:2=pause", tmp_path)
    assert (ended.returncode, ended.stdout) == (0, "0\n1\n2\n")
    assert (tmp_path / "hits.jsonl").exists()


@pytest.mark.parametrize(
    "text", ["slice.copied", "slice.copied=burn", "slice.unknown=kill", "slice.copied:x=kill", "slice.copied=raise 4"]
)
def test_a_wrong_text_is_refused_with_what_is_known(text: str, tmp_path: Path) -> None:
    ended = run(text, tmp_path)
    assert ended.returncode == 1
    assert "is not FAILPOINT[:HIT]=ACTION" in ended.stderr
    assert "slice.committed" in ended.stderr


def test_an_error_can_not_be_raised_where_a_copy_is_running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RELAYBOX_ENVIRONMENT", "test")
    monkeypatch.setenv("RELAYBOX_FAILPOINTS", "slice.piping=raise 40001")
    monkeypatch.setenv("RELAYBOX_FAILPOINTS_DIRECTORY", str(tmp_path))
    with pytest.raises(ConfigurationError, match=r"slice\.piping can't raise"):
        reach("slice.piping", None)
