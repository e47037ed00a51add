"""Which Java Spark gets."""

from __future__ import annotations

from pathlib import Path

import pytest

from relaybox.local.java import find_java_home, java_version


def fake_java(home: Path, version: str) -> Path:
    """A Java home whose `java -version` prints a version."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    program.chmod(0o755)
    return home


@pytest.mark.parametrize(("version", "major"), [("17.0.15", 17), ("21", 21), ("1.8.0_292", 8), ("25-ea", 25)])
def test_the_major_version_is_read_in_both_spellings(tmp_path: Path, version: str, major: int) -> None:
    """Java 8 calls itself 1.8."""
    assert java_version(fake_java(tmp_path / "java", version)) == major


def test_java_home_comes_before_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """JAVA_HOME is taken when it is new enough; an older one is passed over for the java on PATH."""
    on_path = fake_java(tmp_path / "path", "17.0.1")
    monkeypatch.setenv("PATH", str(on_path / "bin"), prepend=":")
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "home", "21.0.1")))
    assert find_java_home() == tmp_path / "home"
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "old", "11.0.1")))
    assert find_java_home() == on_path
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    assert find_java_home() == on_path


def test_without_a_java_the_wheel_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without Java gets one that runs with the arguments that Spark gives."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "/usr/bin/nowhere")
    home = find_java_home()
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    assert (java_version(home) or 0) >= 17
