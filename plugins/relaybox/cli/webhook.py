"""`relaybox webhook`: send the messages of a stream to a URL, and see how it goes."""

from __future__ import annotations

from typing import Annotated

import typer

from relaybox.cli.exits import ListsByDefault, Settings
from relaybox.cli.options import AsJson
from relaybox.cli.sinks import BeginAnew, UntilEmpty, list_sinks, retry_sink, run_sink
from relaybox.cli.usage import CommandList

commands = CommandList(
    name="webhook",
    cls=ListsByDefault,
    help="Send the messages of a stream to a URL, and list the webhooks of relaybox.yaml.",
    epilog="Examples: relaybox webhook; relaybox webhook run billing; relaybox webhook retry billing",
)

Name = Annotated[str, typer.Argument(metavar="WEBHOOK", help="Its name in relaybox.yaml.")]


@commands.command("list")
def list_(context: typer.Context, as_json: AsJson = False) -> None:
    """List the webhooks: how many messages wait, and since when an endpoint fails, why, and until when its webhook pauses.

    \b
    Examples:
      relaybox webhook
      relaybox webhook list --json
    """
    settings: Settings = context.obj
    list_sinks(settings, list(settings.load_routes().webhooks.values()), as_json=as_json)


@commands.command()
def run(
    context: typer.Context,
    name: Name,
    until_empty: UntilEmpty = False,
    begin_anew: BeginAnew = False,
    as_json: AsJson = False,
) -> None:
    """Deliver until Ctrl-C or SIGTERM, at least once. A message is acknowledged when the endpoint has answered 2xx.

    The first run subscribes. Can be killed and repeated at any time, and run twice at once:
    lanes are shared. While the endpoint fails, messages wait and none is refused.

    Exit codes with --until-empty: 3 a lane has more messages, which were not due, or which another
    run has; 4 the endpoint fails and its circuit breaker is open.

    \b
    Examples:
      relaybox webhook run billing
      relaybox webhook run billing --until-empty --json
      relaybox --airflow webhook run billing
    """
    settings: Settings = context.obj
    sink = settings.load_routes().webhook(name)
    run_sink(settings, sink, until_empty=until_empty, begin_anew=begin_anew, as_json=as_json)


@commands.command()
def retry(context: typer.Context, name: Name, as_json: AsJson = False) -> None:
    """End the pause of an endpoint that failed and is repaired: the next run tries at once, a run that waits within 5 s.

    \b
    Examples:
      relaybox webhook retry billing
      relaybox webhook retry billing --json
    """
    settings: Settings = context.obj
    retry_sink(settings.load_routes().webhook(name), as_json=as_json)
