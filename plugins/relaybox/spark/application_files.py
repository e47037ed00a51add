"""Where the files are that spark-submit runs."""

from __future__ import annotations

from pathlib import Path

from relaybox.packaged_folders import packaged_folder


def application_file(name: str) -> Path:
    """`transfer.py`, `verify.py`, `detach.py`, `derive.py` or `export.py`."""
    return packaged_folder("spark_apps", in_checkout="spark_apps") / name
