"""Arguments of the commands for subscriptions, and the store that each subscription is in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from relaybox.cli.exits import Failures, Settings, warn_unanswered
from relaybox.cli.printable import print_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from relaybox.documents.document import Document
    from relaybox.routes import Routes, Store

SubscriptionName = Annotated[str, typer.Argument(metavar="SUBSCRIPTION", help="The subscription's name.")]
AtStore = Annotated[
    str | None,
    typer.Option("--store", help="The store of the subscription. Default: relaybox searches all stores.", show_default=False),
]


def store_of(routes: Routes, subscription: str, named: str | None, *, must_exist: bool = True) -> Store:
    """The store that --store names, or the one that has the subscription."""
    from relaybox import errors
    from relaybox.subscriptions.subscriptions import find_subscription

    if named is not None:
        return routes.store(named)
    if not must_exist:
        raise errors.ConfigurationError("--subscribe needs --store.", next_step=f"Stores: {', '.join(routes.stores)}.")
    store, unanswered = find_subscription(routes.stores.values(), subscription)
    for other, error in unanswered.items():
        warn_unanswered(
            error,
            f"{other} may also have a subscription {subscription}. The command uses the one of {store.name}.",
        )
    return store


def list_each(
    settings: Settings,
    named: str | None,
    read: Callable[[Store], list[Any]],
    show_rows: Callable[[list[Any]], None],
    document: Callable[[list[Any], dict[str, str]], Document],
    *,
    as_json: bool,
) -> None:
    """Lists rows of one store or of all. A store that fails hides no other; errors come at the end, and their exit code.

    Where nothing was found, and a store could not be read, it is not said that there is nothing.
    """
    from relaybox.documents.document import write

    routes = settings.load_routes()
    found: list[Any] = []
    failures = Failures()
    stores = [routes.store(named)] if named else list(routes.stores.values())
    for one in stores:
        with failures.kept(one.name):
            found += read(one)
    answered = [one.name for one in stores if one.name not in failures.by_store]
    if as_json:
        write(document(found, failures.document()))
    elif found or not failures.by_store:
        show_rows(found)
    else:
        none = f"None in {', '.join(answered)}. " if answered else ""
        print_text(f"{none}Could not be read: {', '.join(failures.by_store)}.")
    failures.end(debug=settings.debug)
