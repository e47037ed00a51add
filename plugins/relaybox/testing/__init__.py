"""Real stores for the tests of applications: a plugin of pytest with the fixture `relaybox_stores`.

Needs the extra `testing`. A test sends into one store, has the messages delivered, and consumes from the other: no fake, the same SQL,
the same rights as in production. docs/testing.md has an example.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from relaybox.testing.stores import TestStore, TestStores

__all__ = ["TestStore", "TestStores"]


def __getattr__(name: str) -> Any:
    """Imports the stores when a test names them: pytest loads this package in every run."""
    if name not in __all__:
        raise AttributeError(f"module {__name__} has no attribute {name}")
    from relaybox.testing import stores

    return getattr(stores, name)
