"""A login with some of Relaybox's roles, in place of the superuser of the tests."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.world import STORES, World


@contextmanager
def logged_in_as(world: World, *roles: str) -> Iterator[None]:
    """Meanwhile the sections of all stores have a login with these roles."""
    login, path = f"login_{os.getpid()}", Path(os.environ["PGSERVICEFILE"])
    text = path.read_text(encoding="utf-8")
    for store in STORES:
        world.query(store, f"create role {login} login password 'x' in role {', '.join(roles)}")
    try:
        path.write_text(re.sub(r"(?m)^user=.*$", f"user={login}\npassword=x", text), encoding="utf-8")
        yield
    finally:
        path.write_text(text, encoding="utf-8")
        for store in STORES:
            world.query(store, f"drop owned by {login}")
            world.query(store, f"drop role {login}")
