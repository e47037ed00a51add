"""`relaybox operators`: bind database roles to streams, as operators of all their subscriptions."""

from __future__ import annotations

from typing import Annotated

import typer

from relaybox.cli.exits import ListsByDefault
from relaybox.cli.options import AsJson, answer
from relaybox.cli.subscription_options import list_each
from relaybox.cli.usage import CommandList

commands = CommandList(
    name="operators",
    cls=ListsByDefault,
    help="List the database roles that are operators of a stream, bind and unbind them.",
    epilog="Examples: relaybox operators; relaybox operators analytics --json; relaybox operators bind analytics flights team_flights",
)

OnlyStore = Annotated[str | None, typer.Argument(metavar="[STORE]", help="Only this store.", show_default=False)]
StoreName = Annotated[str, typer.Argument(metavar="STORE", help="The store of the stream's subscriptions.")]
StreamName = Annotated[
    str, typer.Argument(metavar="STREAM", help="The stream: `stream` of a route, by default the route's name.")
]
RoleName = Annotated[str, typer.Argument(metavar="ROLE", help="The database role, or a group that roles inherit.")]


@commands.command("list")
def list_(context: typer.Context, store: OnlyStore = None, as_json: AsJson = False) -> None:
    """List the operators of streams, and bindings to roles or streams that do not exist.

    \b
    Examples:
      relaybox operators
      relaybox operators list analytics --json
    """
    from relaybox.cli.terminal.consumers import show_operators
    from relaybox.documents.operators import StreamOperatorsDocument
    from relaybox.subscriptions.operators import list_operators

    list_each(context.obj, store, list_operators, show_operators, StreamOperatorsDocument.of, as_json=as_json)


@commands.command()
def bind(context: typer.Context, store: StoreName, stream: StreamName, role: RoleName, as_json: AsJson = False) -> None:
    """Allow a database role to replay, redrive, drop, cancel, end and see all subscriptions of a stream, also later ones.

    It fetches and acknowledges nothing. Enforced in stores with `bind_subscriptions: true` in relaybox.yaml.

    \b
    Examples:
      relaybox operators bind analytics flights team_flights
    """
    from relaybox.cli.terminal.consumers import grant_operator
    from relaybox.documents.operators import OperatorBoundDocument
    from relaybox.subscriptions.operators import bind_operator

    done = bind_operator(context.obj.load_routes().store(store), stream, role)
    text = f"role {role} is {'an operator' if done.changed else 'an operator already'} of stream {stream} of {store}"
    if not done.stream_exists:
        text += f". {store} has no stream {stream} yet"
    if not done.is_enforced:
        text += f". The binding has no effect yet: set stores.{store}.bind_subscriptions to true and run relaybox init"
    if not done.role_is_operator:
        text += ". The role does not inherit relaybox_operator: the binding has an effect only for members that do so. "
        text += f"Run: {grant_operator(role)}"
    document = OperatorBoundDocument(
        store=store,
        stream=stream,
        role=role,
        changed=done.changed,
        role_is_operator=done.role_is_operator,
        stream_exists=done.stream_exists,
        is_enforced=done.is_enforced,
    )
    answer(text, document, as_json=as_json)


@commands.command()
def unbind(context: typer.Context, store: StoreName, stream: StreamName, role: RoleName, as_json: AsJson = False) -> None:
    """Remove a database role from the operators of a stream. It takes effect with the next call.

    \b
    Examples:
      relaybox operators unbind analytics flights team_flights
    """
    from relaybox.documents.operators import OperatorUnboundDocument
    from relaybox.subscriptions.operators import unbind_operator

    changed = unbind_operator(context.obj.load_routes().store(store), stream, role)
    text = f"role {role} {'is no longer' if changed else 'was not'} an operator of stream {stream} of {store}"
    document = OperatorUnboundDocument(store=store, stream=stream, role=role, changed=changed)
    answer(text, document, as_json=as_json)
