"""Where the files of `sql/` are."""

from __future__ import annotations

from pathlib import Path

from relaybox.packaged_folders import packaged_folder


def sql_directory() -> Path:
    """`sql/` of the checkout, or the copy inside the installed wheel."""
    return packaged_folder("sql", in_checkout="sql")


def read_init_file(name: str) -> str:
    """A block of `sql/init`: a step of an init that the server does by itself."""
    return (sql_directory() / "init" / f"{name}.sql").read_text()
