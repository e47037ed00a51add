"""`relaybox dead-letters`: messages that were set aside."""

from __future__ import annotations

from typing import Annotated

import typer

from relaybox.amounts import amount
from relaybox.cli.exits import ListsByDefault
from relaybox.cli.options import AsJson, answer
from relaybox.cli.printable import print_text
from relaybox.cli.subscription_options import AtStore, SubscriptionName, list_each, store_of
from relaybox.cli.usage import CommandList

Reason = Annotated[str, typer.Option("--reason", help="Why; it is recorded.", show_default=False)]

LISTED_CHARACTERS = 300
"""Length of each payload in the JSON of `list`; `show` has the whole payload."""

commands = CommandList(
    name="dead-letters",
    cls=ListsByDefault,
    help="List, show, redrive and drop messages that were set aside.",
    epilog="Examples: relaybox dead-letters; relaybox dead-letters analytics --json; relaybox dead-letters show analytics 17",
)


@commands.command("list")
def list_(
    context: typer.Context,
    store: Annotated[str | None, typer.Argument(metavar="[STORE]", help="Only this store.", show_default=False)] = None,
    subscription: Annotated[
        str | None, typer.Option("--subscription", help="Only of this subscription.", show_default=False)
    ] = None,
    settled: Annotated[
        bool, typer.Option("--all", help="Include redriven and dropped dead letters, and delayed messages.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """List dead letters of consumers and of streams.

    With --json a payload is cut after 300 characters; `show` has the whole payload.

    \b
    Examples:
      relaybox dead-letters
      relaybox dead-letters list analytics --subscription billing --all --json
    """
    from relaybox.cli.terminal.dead_letters import show_dead_letters
    from relaybox.documents.dead_letters import DeadLettersDocument
    from relaybox.subscriptions.dead_letters import DELAYED, OPEN_STATES, list_dead_letters

    states = (*OPEN_STATES, "redriven", "dropped", DELAYED) if settled else OPEN_STATES
    list_each(
        context.obj,
        store,
        lambda at: list_dead_letters(at, subscription=subscription, states=states, payload_characters=LISTED_CHARACTERS),
        show_dead_letters,
        DeadLettersDocument.of,
        as_json=as_json,
    )


@commands.command()
def show(
    context: typer.Context,
    store: Annotated[str, typer.Argument(metavar="STORE", help="The store of the dead letter.")],
    dead_letter_id: Annotated[int, typer.Argument(metavar="DEAD_LETTER_ID", help="The number of the dead letter, as in `list`.")],
    as_json: AsJson = False,
) -> None:
    """Show one dead letter with its message.

    \b
    Examples:
      relaybox dead-letters show analytics 17
    """
    from dataclasses import fields

    from relaybox import errors
    from relaybox.documents.dead_letters import DeadLetterDocument
    from relaybox.documents.document import write
    from relaybox.exact_json import write_json
    from relaybox.subscriptions.dead_letters import list_dead_letters

    found = list_dead_letters(context.obj.load_routes().store(store), dead_letter_id=dead_letter_id)
    if not found:
        raise errors.DeadLetterNotOpen(
            f"store {store} has no dead letter {dead_letter_id}.", next_step="See: relaybox dead-letters list"
        )
    if as_json:
        write(DeadLetterDocument.model_validate(found[0]))
        return
    for field in fields(found[0]):
        value = getattr(found[0], field.name)
        text = "" if value is None else write_json(value) if field.name == "headers" else str(value)
        print_text(f"{field.name:15} {text.replace(chr(10), chr(10) + ' ' * 16)}")


@commands.command()
def redrive(
    context: typer.Context,
    subscription: SubscriptionName,
    reason: Reason,
    dead_letter_id: Annotated[
        int | None, typer.Option("--dead-letter-id", help="Only this dead letter.", show_default=False)
    ] = None,
    store: AtStore = None,
    as_json: AsJson = False,
) -> None:
    """Give dead letters to the consumers of a subscription again, in the order of their stream positions.

    \b
    Examples:
      relaybox dead-letters redrive billing --reason "customer made"
      relaybox dead-letters redrive billing --dead-letter-id 17 --reason "fixed in 1.4"
    """
    from relaybox.documents.dead_letters import RedrivenDocument
    from relaybox.subscriptions import dead_letters

    count = dead_letters.redrive(
        store_of(context.obj.load_routes(), subscription, store), subscription, reason=reason, dead_letter_id=dead_letter_id
    )
    answer(
        f"{subscription}: {amount(count, 'dead letter')} redriven",
        RedrivenDocument(subscription=subscription, redriven=count),
        as_json=as_json,
    )


@commands.command()
def drop(
    context: typer.Context,
    store: Annotated[str, typer.Argument(metavar="STORE", help="The store of the dead letter.")],
    dead_letter_id: Annotated[int, typer.Argument(metavar="DEAD_LETTER_ID", help="The number of the dead letter, as in `list`.")],
    reason: Reason,
    as_json: AsJson = False,
) -> None:
    """Drop a dead letter: no consumer gets it again. Its message stays in the log.

    \b
    Examples:
      relaybox dead-letters drop analytics 17 --reason "test data"
    """
    from relaybox.documents.dead_letters import DroppedDocument
    from relaybox.subscriptions import dead_letters

    dead_letters.drop_dead_letter(context.obj.load_routes().store(store), dead_letter_id, reason=reason)
    dropped = DroppedDocument(store=store, dead_letter_id=dead_letter_id, dropped=True)
    answer(f"{store}: dead letter {dead_letter_id} dropped", dropped, as_json=as_json)
