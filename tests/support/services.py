"""The files of a test, changed: another port or a wrong password in the service file, another route in relaybox.yaml."""

from __future__ import annotations

import configparser
import os
from pathlib import Path

import yaml


def read_service(store: str) -> dict[str, str]:
    """What the service file says of a store."""
    return dict(_read()[store])


def break_service(store: str, **changes: str) -> None:
    """Rewrites keys of a store's section."""
    services = _read()
    services[store].update(changes)
    with _path().open("w") as file:
        services.write(file, space_around_delimiters=False)


def _read() -> configparser.ConfigParser:
    services = configparser.ConfigParser(interpolation=None)
    services.read(_path())
    return services


def _path() -> Path:
    return Path(os.environ["PGSERVICEFILE"])


def add_route(file: Path, name: str, **route: object) -> None:
    """Adds a route to a relaybox.yaml."""
    document = yaml.safe_load(file.read_text())
    document["routes"][name] = route
    file.write_text(yaml.safe_dump(document))
