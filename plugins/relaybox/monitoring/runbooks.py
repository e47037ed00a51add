"""The runbooks of docs/runbooks, also shipped in the wheel: what to do, with commands that a test has run."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from relaybox.packaged_folders import packaged_folder


@dataclass(frozen=True)
class Runbook:
    """One page: `name` is the file's without its ending, `text` is Markdown."""

    name: str
    title: str
    text: str


def runbooks_directory() -> Path:
    """`docs/runbooks` of the checkout, or the copy inside the installed wheel."""
    return packaged_folder("runbook_pages", in_checkout="docs/runbooks")


@cache
def read_runbooks() -> dict[str, Runbook]:
    """All of them, by name."""
    pages = {path.stem: path.read_text(encoding="utf-8") for path in sorted(runbooks_directory().glob("*.md"))}
    return {name: Runbook(name, text.splitlines()[0].lstrip("# "), text) for name, text in pages.items()}
