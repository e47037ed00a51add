"""What the entries of the section `stores` contradict: one database for each store, and a durability that has its reason."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from relaybox.routes.problems import Problem, show, show_name
from relaybox.routes.raw_values import member, repeats

DURABILITIES = ("server", "provider")


def store_contradictions(stores: Mapping[str, object]) -> Iterator[Problem]:
    """What is wrong between stores, and between the values of a store."""
    yield from _shared_databases(stores, "service", "{}")
    yield from _shared_databases(stores, "connection", "relaybox_{}")
    yield from _durability_contradictions(stores)


def _shared_databases(stores: Mapping[str, object], key: str, default: str) -> Iterator[Problem]:
    names = list(stores)
    values = [member(stores[name], key) or default.format(name) for name in names]
    for index, value, first in repeats(values):
        text = f"got {show(value)}, the {key} of store {show_name(names[first])} too; expected one {key} per database"
        yield Problem(("stores", names[index], key), text)


def _durability_contradictions(stores: Mapping[str, object]) -> Iterator[Problem]:
    """A provider's durability has its reason on record; the server's needs none."""
    for name, store in stores.items():
        durability, reason = (member(store, key) for key in ("durability", "durability_reason"))
        if durability == "provider" and reason is None:
            text = 'got "provider"; expected durability_reason beside it: how the provider keeps commits after a crash'
            yield Problem(("stores", name, "durability"), text)
        if durability in (None, "server") and reason is not None:
            text = f"got {show(reason)}; expected durability: provider beside it, or nothing"
            yield Problem(("stores", name, "durability_reason"), text)
