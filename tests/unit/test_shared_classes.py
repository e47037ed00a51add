"""Spark's JVMs of the tests map the classes that were loaded once, where there are some and nobody wants something else."""

from __future__ import annotations

from pathlib import Path

from tests.support.shared_classes import OPTIONS, share_classes


def test_without_the_file_nothing_is_asked_of_a_jvm(tmp_path: Path) -> None:
    environment: dict[str, str] = {}
    share_classes(environment, tmp_path / "classes.jsa")
    assert environment == {}


def test_options_that_are_set_already_stay(tmp_path: Path) -> None:
    file = tmp_path / "classes.jsa"
    file.touch()
    fresh: dict[str, str] = {}
    share_classes(fresh, file)
    assert fresh[OPTIONS].startswith(f"-XX:SharedArchiveFile={file} ")
    set_already = {OPTIONS: "-Xmx1g"}
    share_classes(set_already, file)
    assert set_already == {OPTIONS: "-Xmx1g"}
