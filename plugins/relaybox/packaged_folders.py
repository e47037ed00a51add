"""Where the files are that come with the library and are not Python modules of it."""

from __future__ import annotations

from importlib import resources
from pathlib import Path


def packaged_folder(name: str, *, in_checkout: str) -> Path:
    """The folder `name` inside the installed wheel, or where the checkout has it."""
    packaged = Path(str(resources.files("relaybox"))) / name
    return packaged if packaged.is_dir() else Path(__file__).resolve().parents[2] / in_checkout
