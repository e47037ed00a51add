"""`relaybox trials`: a next version of a derivation is tried, compared, and promoted or dropped, without Airflow."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from relaybox import errors
from relaybox.cli.exits import CommandGroup, Settings
from relaybox.cli.options import AsJson, answer
from relaybox.cli.usage import CommandList

if TYPE_CHECKING:
    from relaybox.spark.derivations.trials import TrialComparison

RouteName = Annotated[str, typer.Argument(metavar="ROUTE", help="A route with a key derive.next.")]
Reason = Annotated[str, typer.Option("--reason", help="Why; it is recorded.", show_default=False)]
Samples = Annotated[int, typer.Option("--samples", min=0, max=1000, help="Messages to show of each difference.")]

commands = CommandList(
    name="trials",
    cls=CommandGroup,
    help="Try the next version of a derivation on messages of the past, compare it, promote it or drop it.",
    no_args_is_help=True,
)


@commands.command()
def run(
    context: typer.Context,
    route: RouteName,
    start: Annotated[
        str | None,
        typer.Option(
            "--from",
            help="earliest, a stream position or a time. Default: the first message that the present version has derived from.",
            show_default=False,
        ),
    ] = None,
    through: Annotated[
        str | None,
        typer.Option(
            "--through",
            help="A stream position (included) or a time (excluded). Default: the last one that the present version has derived from.",
            show_default=False,
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Derive from messages of the past with the next version, and send nothing. The present version goes on.

    Can be interrupted, repeated, and run twice at once: a second run goes on with the open trial.

    \b
    Examples:
      relaybox trials run delays --from 2026-07-01
      relaybox trials run delays
    """
    from relaybox.cli.spark import spark_derivation
    from relaybox.cli.terminal.derivations import derivation_line
    from relaybox.cli.terminal.trials import show_trial
    from relaybox.documents.derivations import TrialDocument
    from relaybox.documents.document import write

    settings: Settings = context.obj
    tried = settings.load_routes().route(route)
    tried.require_next()
    with spark_derivation(f"relaybox trials run {route}") as session:
        from relaybox.spark.derivations.trying import try_next

        attempt = partial(try_next, tried, session, start=start, through=through, recorded_by=settings.recorded_by)
        if as_json:
            trial, _ = attempt()
            write(TrialDocument.model_validate(trial))
            return
        with derivation_line(route) as progress:
            trial, done = attempt(progress=progress)
    show_trial(route, trial, done)


@commands.command()
def compare(context: typer.Context, route: RouteName, samples: Samples = 10, as_json: AsJson = False) -> None:
    """Show how the messages of the open trial differ from those that the present version sent for the same range.

    \b
    Examples:
      relaybox trials compare delays
      relaybox trials compare delays --samples 100 --json
    """
    from relaybox.cli.terminal.trials import show_comparison
    from relaybox.documents.derivations import TrialComparisonDocument
    from relaybox.documents.document import write
    from relaybox.spark.derivations.trials import open_trials

    with open_trials(context.obj.load_routes().route(route)) as trials:
        found = trials.compare(sample_count=samples)
    if as_json:
        write(TrialComparisonDocument.model_validate(found))
    else:
        show_comparison(found)


@commands.command()
def promote(
    context: typer.Context,
    route: RouteName,
    reason: Reason,
    republish: Annotated[
        bool, typer.Option("--republish", help="Begin at the first message of the trial: what was derived since is sent again.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    as_json: AsJson = False,
) -> None:
    """End the present version, and let the one that was tried derive from now on.

    Shows the comparison and asks, unless --yes says not to. Move the keys of derive.next up into derive when convenient.

    \b
    Examples:
      relaybox trials promote delays --reason "delays of 15 minutes count too"
      relaybox trials promote delays --reason "wrong airline" --republish --yes
    """
    from relaybox.cli.terminal.trials import show_comparison
    from relaybox.documents.derivations import TrialEndDocument
    from relaybox.spark.derivations.source import load_source
    from relaybox.spark.derivations.trials import open_trials

    if as_json and not yes:
        raise errors.ConfigurationError("--json needs --yes: the question is for a terminal.", next_step="Add --yes.")
    settings: Settings = context.obj
    tried = settings.load_routes().route(route)
    source = load_source(tried.require_next(), route=route)
    with open_trials(tried) as trials:
        if yes:
            trial_id = trials.newest_trial()
        else:
            found = trials.compare(sample_count=3)
            show_comparison(found)
            _confirm(found)
            trial_id = found.trial.trial_id
        first = trials.promote(trial_id, source, republish=republish, promoted_by=settings.recorded_by, reason=reason)
    version = tried.require_next().version
    answer(
        f"{route}: version {version} derives from stream position {first} on",
        TrialEndDocument(route=route, trial_id=trial_id, version=version, state="promoted", first_stream_position=first),
        as_json=as_json,
    )


def _confirm(found: TrialComparison) -> None:
    """Asks on the terminal; without an answer nothing is done."""
    trial = found.trial
    typer.confirm(f"End version {trial.old_version} and promote version {trial.version}?", abort=True)


@commands.command()
def drop(context: typer.Context, route: RouteName, reason: Reason, as_json: AsJson = False) -> None:
    """End the open trial and delete its messages. The present version goes on.

    \b
    Examples:
      relaybox trials drop delays --reason "a mistake in the filter"
    """
    from relaybox.documents.derivations import TrialEndDocument
    from relaybox.spark.derivations.trials import open_trials

    settings: Settings = context.obj
    with open_trials(settings.load_routes().route(route)) as trials:
        trial = trials.drop(dropped_by=settings.recorded_by, reason=reason)
    answer(
        f"{route}: trial {trial.trial_id} of version {trial.version} is dropped",
        TrialEndDocument(
            route=route, trial_id=trial.trial_id, version=trial.version, state="dropped", first_stream_position=None
        ),
        as_json=as_json,
    )
