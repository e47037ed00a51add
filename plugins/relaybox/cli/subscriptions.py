"""`relaybox subscriptions`: list subscriptions, and bind them to database roles."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from relaybox.cli.exits import ListsByDefault, Settings
from relaybox.cli.options import AsJson, answer
from relaybox.cli.subscription_options import SubscriptionName, list_each
from relaybox.cli.usage import CommandList

if TYPE_CHECKING:
    from relaybox.routes import Store
    from relaybox.stores.readers.reader_problems import ReaderProblem
    from relaybox.subscriptions.subscriptions import SubscriptionStatus

commands = CommandList(
    name="subscriptions",
    cls=ListsByDefault,
    help="List subscriptions, and bind them to database roles.",
    epilog="Examples: relaybox subscriptions; relaybox subscriptions analytics --json; "
    "relaybox subscriptions bind analytics billing app_billing",
)

OnlyStore = Annotated[str | None, typer.Argument(metavar="[STORE]", help="Only this store.", show_default=False)]
StoreName = Annotated[str, typer.Argument(metavar="STORE", help="The store of the subscription.")]
RoleName = Annotated[str, typer.Argument(metavar="ROLE", help="The database role, or a group that roles inherit.")]


@commands.command("list")
def list_(context: typer.Context, store: OnlyStore = None, as_json: AsJson = False) -> None:
    """List the subscriptions of every store: cursor, lag, leased lanes and dead letters.

    leased is the number of lanes that a worker has. done is the stream position through which every lane has acknowledged, last
    the newest one, behind the stream positions that are not acknowledged. Below the table are subscriptions that get nothing, or
    less than they should, and readers of relaybox.yaml that have not subscribed.

    \b
    Examples:
      relaybox subscriptions
      relaybox subscriptions list analytics --json
    """
    from relaybox.cli.terminal.consumers import show_subscriptions
    from relaybox.documents.consumers import SubscriptionsDocument
    from relaybox.subscriptions.subscriptions import list_subscriptions, read_reader_problems

    settings: Settings = context.obj
    routes = settings.load_routes()
    problems: list[ReaderProblem] = []

    def read(at: Store) -> list[SubscriptionStatus]:
        found = list_subscriptions(at)
        problems.extend(read_reader_problems(at, routes))
        return found

    list_each(
        settings,
        store,
        read,
        lambda found: show_subscriptions(found, problems),
        lambda found, unread: SubscriptionsDocument.of(found, problems, unread),
        as_json=as_json,
    )


@commands.command()
def bindings(context: typer.Context, store: OnlyStore = None, as_json: AsJson = False) -> None:
    """List the database roles that subscriptions are bound to, and bindings to roles that do not exist.

    \b
    Examples:
      relaybox subscriptions bindings
      relaybox subscriptions bindings analytics --json
    """
    from relaybox.cli.terminal.consumers import show_bindings
    from relaybox.documents.bindings import SubscriptionBindingsDocument
    from relaybox.subscriptions.bindings import list_bindings

    list_each(context.obj, store, list_bindings, show_bindings, SubscriptionBindingsDocument.of, as_json=as_json)


@commands.command()
def bind(
    context: typer.Context, store: StoreName, subscription: SubscriptionName, role: RoleName, as_json: AsJson = False
) -> None:
    """Allow a database role to use a subscription, which need not exist yet, and its replays.

    Enforced in stores with `bind_subscriptions: true` in relaybox.yaml.

    \b
    Examples:
      relaybox subscriptions bind analytics billing app_billing
    """
    from relaybox.documents.bindings import SubscriptionBoundDocument
    from relaybox.subscriptions.bindings import bind_subscription

    changed, is_enforced = bind_subscription(context.obj.load_routes().store(store), subscription, role)
    text = f"role {role} may use subscription {subscription} of {store}{'' if changed else ' already'}"
    if not is_enforced:
        text += f". The binding has no effect yet: set stores.{store}.bind_subscriptions to true and run relaybox init"
    document = SubscriptionBoundDocument(
        store=store, subscription=subscription, role=role, changed=changed, is_enforced=is_enforced
    )
    answer(text, document, as_json=as_json)


@commands.command()
def unbind(
    context: typer.Context, store: StoreName, subscription: SubscriptionName, role: RoleName, as_json: AsJson = False
) -> None:
    """Remove the binding of a database role to a subscription. It takes effect with the next call.

    Messages that the role has fetched and not acknowledged come again to another role when their lease ends.

    \b
    Examples:
      relaybox subscriptions unbind analytics billing app_billing
    """
    from relaybox.documents.bindings import SubscriptionUnboundDocument
    from relaybox.subscriptions.bindings import unbind_subscription

    changed = unbind_subscription(context.obj.load_routes().store(store), subscription, role)
    text = f"role {role} {'may no longer use' if changed else 'was not bound to'} subscription {subscription} of {store}"
    document = SubscriptionUnboundDocument(store=store, subscription=subscription, role=role, changed=changed)
    answer(text, document, as_json=as_json)
