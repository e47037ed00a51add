"""Relaybox's plugin for an Airflow that has this folder mounted as its plugins folder.

An installed package brings the plugin itself: then this file adds nothing, so that it may stay mounted.
"""

from importlib.metadata import entry_points
from pathlib import Path

import relaybox

_MOUNTED = Path(__file__).with_name("relaybox")
_USED = Path(relaybox.__file__).parent

if entry_points(group="airflow.plugins", name="relaybox"):
    if _MOUNTED.is_dir() and not _MOUNTED.samefile(_USED):
        raise ImportError(
            f"Relaybox {relaybox.__version__} is installed in {_USED}, and mounted in {_MOUNTED}, which nothing uses. "
            "Mount the plugins folder without its folder relaybox, or uninstall the package."
        )
else:
    from relaybox.airflow.plugin import RelayboxPlugin

    __all__ = ["RelayboxPlugin"]
