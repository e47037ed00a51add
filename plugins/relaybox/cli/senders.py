"""`relaybox senders`: list, declare and bind senders."""

from __future__ import annotations

from typing import Annotated

import typer

from relaybox.cli.exits import ListsByDefault
from relaybox.cli.options import AsJson, answer
from relaybox.cli.subscription_options import list_each
from relaybox.cli.usage import CommandList

commands = CommandList(
    name="senders",
    cls=ListsByDefault,
    help="List and declare senders that number their messages, begin epochs, bind senders to database roles.",
    epilog="Examples: relaybox senders; relaybox senders airline --json; relaybox senders declare airline pump-7 gapless",
)

StoreName = Annotated[str, typer.Argument(metavar="STORE", help="The store where the sender sends.")]
SenderName = Annotated[str, typer.Argument(metavar="SENDER", help="The sender, as in the outbox.")]
RoleName = Annotated[str, typer.Argument(metavar="ROLE", help="The database role, or a group that roles inherit.")]


@commands.command("list")
def list_(
    context: typer.Context,
    store: Annotated[str | None, typer.Argument(metavar="[STORE]", help="Only this store.", show_default=False)] = None,
    as_json: AsJson = False,
) -> None:
    """List the senders of every store, or of one: kind, epoch, counter and bound roles. Undeclared senders are not listed.

    \b
    Examples:
      relaybox senders
      relaybox senders list airline --json
    """
    from relaybox.cli.terminal.senders import show_senders
    from relaybox.documents.senders import SendersDocument
    from relaybox.streams.senders import list_senders

    list_each(context.obj, store, list_senders, show_senders, SendersDocument.of, as_json=as_json)


@commands.command()
def declare(
    context: typer.Context,
    store: StoreName,
    sender: SenderName,
    kind: Annotated[str, typer.Argument(metavar="KIND", help="gapless: 1, 2, 3 ... each once; sparse: any order, repeats.")],
    as_json: AsJson = False,
) -> None:
    """Declare that a sender numbers its messages itself. Idempotent. Another kind needs a new epoch.

    \b
    Examples:
      relaybox senders declare airline pump-7 gapless
      relaybox senders declare airline probe sparse --json
    """
    from relaybox.documents.senders import DeclaredDocument
    from relaybox.streams.senders import declare_sender

    epoch = declare_sender(context.obj.load_routes().store(store), sender, kind)
    document = DeclaredDocument(store=store, sender=sender, kind=kind, epoch=epoch)
    answer(f"{sender} of {store} is {kind} in epoch {epoch}", document, as_json=as_json)


@commands.command("new-epoch")
def new_epoch(
    context: typer.Context,
    store: StoreName,
    sender: SenderName,
    kind: Annotated[str | None, typer.Option("--kind", help="gapless or sparse. Default: as before.", show_default=False)] = None,
    as_json: AsJson = False,
) -> None:
    """Begin a new epoch of a sender that lost its counter or changes its kind. Lower epochs are refused afterwards.

    \b
    Examples:
      relaybox senders new-epoch airline pump-7
      relaybox senders new-epoch airline pump-7 --kind sparse
    """
    from relaybox.documents.senders import NewEpochDocument
    from relaybox.streams.senders import begin_epoch

    epoch = begin_epoch(context.obj.load_routes().store(store), sender, kind)
    document = NewEpochDocument(store=store, sender=sender, epoch=epoch)
    answer(f"{sender} of {store} begins epoch {epoch} with index 1", document, as_json=as_json)


@commands.command()
def bind(context: typer.Context, store: StoreName, sender: SenderName, role: RoleName, as_json: AsJson = False) -> None:
    """Allow a database role to send as a sender. Enforced in stores with `bind_senders: true` in relaybox.yaml.

    \b
    Examples:
      relaybox senders bind airline UA app_ua
    """
    from relaybox.documents.senders import BoundDocument
    from relaybox.streams.senders import bind_sender

    bound = bind_sender(context.obj.load_routes().store(store), sender, role)
    text = f"role {role} may send as {sender} of {store}{'' if bound.is_new else ' already'}"
    if not bound.is_enforced:
        text += f". The binding has no effect yet: set stores.{store}.bind_senders to true and run relaybox init"
    document = BoundDocument(store=store, sender=sender, role=role, changed=bound.is_new, is_enforced=bound.is_enforced)
    answer(text, document, as_json=as_json)


@commands.command()
def unbind(context: typer.Context, store: StoreName, sender: SenderName, role: RoleName, as_json: AsJson = False) -> None:
    """Remove the binding of a database role to a sender. It takes effect with the next insert.

    \b
    Examples:
      relaybox senders unbind airline UA app_ua
    """
    from relaybox.documents.senders import UnboundDocument
    from relaybox.streams.senders import unbind_sender

    changed = unbind_sender(context.obj.load_routes().store(store), sender, role)
    text = f"role {role} {'may no longer' if changed else 'was not bound to'} {'send as ' if changed else ''}{sender} of {store}"
    document = UnboundDocument(store=store, sender=sender, role=role, changed=changed)
    answer(text, document, as_json=as_json)
