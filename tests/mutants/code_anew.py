"""A pytest plugin: code and tests are imported anew, whatever the process had imported before it was forked.

Loaded with `-p tests.mutants.code_anew`, before any test is imported.
"""

from __future__ import annotations

import sys


def _forget(name: str) -> None:
    module = sys.modules.pop(name)
    parent, _, leaf = name.rpartition(".")
    if parent in sys.modules and getattr(sys.modules[parent], leaf, None) is module:
        delattr(sys.modules[parent], leaf)  # `from parent import leaf` looks there first


for _name in sorted(sys.modules, reverse=True):
    if _name.split(".")[0] == "relaybox" or (_name.startswith("tests.") and not _name.startswith("tests.mutants")):
        _forget(_name)
