"""`relaybox topics`: grant topics to database roles."""

from __future__ import annotations

from typing import Annotated

import typer

from relaybox.cli.exits import ListsByDefault
from relaybox.cli.options import AsJson, answer
from relaybox.cli.subscription_options import list_each
from relaybox.cli.usage import CommandList

commands = CommandList(
    name="topics",
    cls=ListsByDefault,
    help="List the topics that database roles may read, grant and revoke them.",
    epilog="Examples: relaybox topics; relaybox topics analytics --json; relaybox topics grant analytics flights crew app_billing",
)

OnlyStore = Annotated[str | None, typer.Argument(metavar="[STORE]", help="Only this store.", show_default=False)]
StoreName = Annotated[str, typer.Argument(metavar="STORE", help="The store of the subscriptions.")]
RoleName = Annotated[str, typer.Argument(metavar="ROLE", help="The database role, or a group that roles inherit.")]
TopicNames = Annotated[list[str], typer.Argument(metavar="TOPIC...", help="The topics; '*': every topic, also later ones.")]


@commands.command("list")
def list_(context: typer.Context, store: OnlyStore = None, as_json: AsJson = False) -> None:
    """List the topics that are granted to database roles, and grants to roles that do not exist.

    \b
    Examples:
      relaybox topics
      relaybox topics list analytics --json
    """
    from relaybox.cli.terminal.consumers import show_grants
    from relaybox.documents.topics import TopicGrantsDocument
    from relaybox.subscriptions.topic_grants import list_grants

    list_each(context.obj, store, list_grants, show_grants, TopicGrantsDocument.of, as_json=as_json)


@commands.command()
def grant(context: typer.Context, store: StoreName, topics: TopicNames, role: RoleName, as_json: AsJson = False) -> None:
    """Allow a database role to read messages of topics, which need not exist yet.

    Enforced in stores with `bind_topics: true` in relaybox.yaml.

    \b
    Examples:
      relaybox topics grant analytics flights crew app_billing
      relaybox topics grant analytics '*' app_audit
    """
    from relaybox.documents.topics import TopicsGrantedDocument
    from relaybox.subscriptions.topic_grants import grant_topics

    done = grant_topics(context.obj.load_routes().store(store), role, topics)
    text = f"role {role} may read {_names(topics)} of {store}{'' if done.changed else ' already'}"
    if done.unknown:
        text += f". No stream of {store} has carried {', '.join(done.unknown)} yet"
    if not done.is_enforced:
        text += f". The grant has no effect yet: set stores.{store}.bind_topics to true and run relaybox init"
    document = TopicsGrantedDocument(
        store=store,
        role=role,
        topics=topics,
        changed=list(done.changed),
        unknown=list(done.unknown),
        is_enforced=done.is_enforced,
    )
    answer(text, document, as_json=as_json)


@commands.command()
def revoke(context: typer.Context, store: StoreName, topics: TopicNames, role: RoleName, as_json: AsJson = False) -> None:
    """Remove grants of topics. It takes effect with the next call, and says what the role still reads.

    A role may still acknowledge messages that it has fetched before. Its next fetch is refused.

    \b
    Examples:
      relaybox topics revoke analytics crew app_billing
    """
    from relaybox.documents.topics import TopicsRevokedDocument
    from relaybox.subscriptions.topic_grants import revoke_topics

    done = revoke_topics(context.obj.load_routes().store(store), role, topics)
    text = f"{_names(topics)} of {store} {'revoked from' if done.changed else 'had not been granted to'} role {role}"
    if done.readable and done.is_enforced:
        text += (
            f". The role still reads {', '.join(done.readable)}: by a grant of '*', by a role that it inherits, or as a reader or driver. "
            f"Grants: relaybox topics {store}"
        )
    document = TopicsRevokedDocument(
        store=store,
        role=role,
        topics=topics,
        changed=list(done.changed),
        readable=list(done.readable),
        is_enforced=done.is_enforced,
    )
    answer(text, document, as_json=as_json)


def _names(topics: list[str]) -> str:
    return "every topic" if "*" in topics else f"topic{'s' if len(topics) > 1 else ''} {', '.join(topics)}"
