"""Where the files of `sql/` are."""

from __future__ import annotations

from importlib import resources
from pathlib import Path


def sql_directory() -> Path:
    """`sql/` of the checkout, or the copy inside the installed wheel."""
    packaged = Path(str(resources.files("relaybox"))) / "sql"
    return packaged if packaged.is_dir() else Path(__file__).resolve().parents[3] / "sql"


def read_init_file(name: str) -> str:
    """A block of `sql/init`: a step of an init that the server does by itself."""
    return (sql_directory() / "init" / f"{name}.sql").read_text()
