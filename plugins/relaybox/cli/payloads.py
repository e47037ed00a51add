"""`relaybox payloads`: the files of large payloads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from relaybox.cli.exits import CommandGroup, ExitCode, Failures, Settings, tell
from relaybox.cli.options import AsJson, answer
from relaybox.cli.usage import CommandList

if TYPE_CHECKING:
    from relaybox.payloads.checking import PlaceChecked, PlaceStatus
    from relaybox.payloads.collecting import PlaceCollected
    from relaybox.payloads.gathering import Progress
    from relaybox.routes import PayloadPlace, Store

_Done = TypeVar("_Done")

commands = CommandList(
    name="payloads",
    cls=CommandGroup,
    help="List, check, collect and restore the files of large payloads.",
    no_args_is_help=True,
)

PlaceName = Annotated[str | None, typer.Argument(metavar="[PLACE]", help="Only this place of relaybox.yaml.", show_default=False)]
OnePlace = Annotated[str, typer.Argument(metavar="PLACE", help="The place, as in relaybox.yaml.")]


@commands.command("list")
def list_(
    context: typer.Context,
    place: PlaceName = None,
    files: Annotated[bool, typer.Option("--files", help="Show each file, the oldest first.")] = False,
    as_json: AsJson = False,
) -> None:
    """List places of large payloads: files, sizes, ages, and whether messages refer to them. Changes nothing.

    \b
    Examples:
      relaybox payloads list
      relaybox payloads list pictures --files --json
    """
    from relaybox.cli.terminal.payloads import show_status
    from relaybox.documents.document import write
    from relaybox.documents.payloads import PayloadsDocument, PlaceStatusDocument
    from relaybox.payloads.checking import read_status

    settings: Settings = context.obj
    stores, places = _choose(settings, place)
    failures = Failures()
    done = _each(
        places,
        lambda one, progress: read_status(one, stores, details=files, progress=progress),
        None if as_json else show_status,
        failures,
    )
    if as_json:
        write(PayloadsDocument(places=[PlaceStatusDocument.of(one) for one in done], errors=failures.document()))
    _add_errors(failures, done)
    failures.end(debug=settings.debug)


@commands.command()
def check(
    context: typer.Context,
    place: PlaceName = None,
    read: Annotated[bool, typer.Option("--read", help="Read every file, and compare its content.")] = False,
    as_json: AsJson = False,
) -> None:
    """Compare the files with the messages that refer to them: each must be there with its length. Changes nothing.

    Exit codes: 0 each message has its file; 1 a file is missing or differs; 4 or 5 a store or a place did not answer.

    \b
    Examples:
      relaybox payloads check
      relaybox payloads check pictures --read --json
    """
    from relaybox.cli.terminal.payloads import show_checked
    from relaybox.documents.document import write
    from relaybox.documents.payloads import PayloadsCheckedDocument, PlaceCheckedDocument
    from relaybox.payloads.checking import check_place

    settings: Settings = context.obj
    stores, places = _choose(settings, place)
    failures = Failures()
    done = _each(
        places,
        lambda one, progress: check_place(one, stores, read=read, progress=progress),
        None if as_json else show_checked,
        failures,
    )
    if as_json:
        write(PayloadsCheckedDocument(places=[PlaceCheckedDocument.of(one) for one in done], errors=failures.document()))
    _add_errors(failures, done)
    if any(checked.missing for checked in done):
        for error in failures.by_store.values():
            tell(error, debug=settings.debug)
        raise typer.Exit(ExitCode.DEFECT_FOUND)
    failures.end(debug=settings.debug)


@commands.command()
def collect(
    context: typer.Context,
    place: PlaceName = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only tell what would be removed.")] = False,
    as_json: AsJson = False,
) -> None:
    """Move files to which no message of any store refers into the trash, and remove for good what was there for trash_seconds.

    Each store of relaybox.yaml is asked; without the answer of one nothing is removed. A file stays while a message in an outbox, a log,
    a detached segment or an adopted table refers to it, and while a transaction is open that may still refer to it. `relaybox retention`
    does this too. Can be interrupted, repeated, and run twice at once.

    \b
    Examples:
      relaybox payloads collect --dry-run
      relaybox payloads collect pictures
      relaybox payloads collect --json
    """
    from relaybox.documents.document import write
    from relaybox.documents.payloads import CollectionDocument

    settings: Settings = context.obj
    stores, places = _choose(settings, place)
    failures = Failures()
    done = collect_places(settings, stores, places, failures, dry_run=dry_run, as_json=as_json)
    if as_json:
        write(CollectionDocument.of(done, failures.document()))
    failures.end(debug=settings.debug)


def collect_places(
    settings: Settings,
    stores: Sequence[Store],
    places: Sequence[PayloadPlace],
    failures: Failures,
    *,
    dry_run: bool,
    as_json: bool,
) -> list[PlaceCollected]:
    """Collects place after place. One that fails stops none of the others."""
    from relaybox.cli.terminal.payloads import show_collected
    from relaybox.payloads.collecting import collect_place

    return _each(
        places,
        lambda one, progress: collect_place(one, stores, recorded_by=settings.recorded_by, dry_run=dry_run, progress=progress),
        None if as_json else show_collected,
        failures,
    )


@commands.command()
def restore(
    context: typer.Context,
    place: OnePlace,
    everything: Annotated[
        bool, typer.Option("--all", help="Bring back every file of the trash, without asking the stores.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Bring files back from the trash: those to which messages refer, after a store was restored or a collection was wrong.

    Can be interrupted, repeated, and run twice at once.

    \b
    Examples:
      relaybox payloads restore pictures
      relaybox payloads restore pictures --all --json
    """
    from relaybox.cli.terminal.payloads import describe_restored, payload_bar
    from relaybox.documents.payloads import PlaceRestoredDocument
    from relaybox.payloads.trash import restore_files

    routes = context.obj.load_routes()
    with payload_bar(place) as progress:
        done = restore_files(routes.payload_place(place), list(routes.stores.values()), everything=everything, progress=progress)
    answer(describe_restored(done), PlaceRestoredDocument.model_validate(done), as_json=as_json)


@commands.command()
def prepare(context: typer.Context, place: OnePlace, as_json: AsJson = False) -> None:
    """Make a place of payloads, and record that messages of the stores of relaybox.yaml refer to it, and of no others. Idempotent.

    A collection refuses to work until then. Run it again when a store has moved to another cluster for good.

    \b
    Examples:
      relaybox payloads prepare pictures
    """
    from relaybox.documents.payloads import PlacePreparedDocument
    from relaybox.payloads.preparing import prepare_place

    settings: Settings = context.obj
    routes = settings.load_routes()
    done = prepare_place(routes.payload_place(place), list(routes.stores.values()), recorded_by=settings.recorded_by)
    new = f"recorded now: {', '.join(done.recorded)}" if done.recorded else "nothing was changed"
    text = f"{place}: {done.location} has id {done.place_id}; stores: {', '.join(done.stores)}; {new}"
    answer(text, PlacePreparedDocument.model_validate(done), as_json=as_json)


@commands.command()
def forget(
    context: typer.Context,
    place: OnePlace,
    store: Annotated[str, typer.Argument(metavar="STORE", help="The store that relaybox.yaml no longer has, or its id.")],
    reason: Annotated[str, typer.Option("--reason", help="Why its messages need no files; it is recorded.", show_default=False)],
    as_json: AsJson = False,
) -> None:
    """Let a place forget a store that was taken out of relaybox.yaml: files that only its messages need are collected then.

    \b
    Examples:
      relaybox payloads forget pictures archive --reason "its database was dropped, ticket 4711"
    """
    from relaybox.documents.payloads import StoreForgottenDocument
    from relaybox.payloads.preparing import forget_place_store

    settings: Settings = context.obj
    routes = settings.load_routes()
    stores = list(routes.stores.values())
    done = forget_place_store(routes.payload_place(place), stores, store, reason=reason, recorded_by=settings.recorded_by)
    document = StoreForgottenDocument(place=place, store=done.store, store_id=done.store_id, reason=reason)
    answer(f"{place}: store {done.store} ({done.store_id}) is forgotten: {reason}", document, as_json=as_json)


def _choose(settings: Settings, name: str | None) -> tuple[list[Store], list[PayloadPlace]]:
    """All stores, and one place or all; a ConfigurationError if relaybox.yaml has none."""
    from relaybox import errors

    routes = settings.load_routes()
    if name is None and not routes.payloads:
        raise errors.ConfigurationError(
            f"{routes.path}: it has no place of large payloads.",
            next_step="Write the section payloads: see docs/large-messages.md",
        )
    places = [routes.payload_place(name)] if name else list(routes.payloads.values())
    return list(routes.stores.values()), places


def _add_errors(failures: Failures, done: Sequence[PlaceStatus | PlaceChecked]) -> None:
    """Those of the stores of each place."""
    for one in done:
        failures.by_store.update({f"{one.place}: {store}": error for store, error in one.errors.items()})


def _each(
    places: Sequence[PayloadPlace],
    do: Callable[[PayloadPlace, Progress], _Done],
    show: Callable[[_Done], None] | None,
    failures: Failures,
) -> list[_Done]:
    """What was done with each place that did not fail; shown at once, place by place."""
    from relaybox.cli.terminal.payloads import payload_bar

    done = []
    for place in places:
        with failures.kept(place.name):
            with payload_bar(place.name) as progress:
                done.append(do(place, progress))
            if show is not None:
                show(done[-1])
    return done
