"""Runs a trial: the next version of a derivation derives a range again, attempt by attempt, and sends nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from relaybox.log_events import emit
from relaybox.spark.derivations.deriving import Derived, Run
from relaybox.spark.derivations.source import load_source
from relaybox.spark.derivations.trials import open_trials
from relaybox.spark.frames import register

if TYPE_CHECKING:
    from relaybox.routes import Route
    from relaybox.spark.derivations.trials import Trial
    from relaybox.spark.tasks import TaskSession


def try_next(
    route: Route,
    session: TaskSession,
    *,
    start: str | None = None,
    through: str | None = None,
    recorded_by: str,
    once: bool = False,
    progress: Callable[[Derived], None] = lambda _: None,
) -> tuple[Trial, Derived]:
    """Derives from the messages of a range with the next version, into the table of trials.

    Args:
        route: whose next version is tried.
        session: where Spark works.
        start: of the range, as TrialLedger.begin() takes it.
        through: its end, likewise.
        recorded_by: who runs it, for the ledger.
        once: as TrialLedger.begin() takes it.
        progress: told after each attempt.

    Returns:
        The trial, which has derived from its whole range, and what this run did.

    Raises:
        DerivationFailed: the function failed, or returned what makes no message.
        LaneLost: another run of the trial has taken over.
        RequestRefused: the trial has ended.
        SparkFailed, and what TrialLedger.begin() raises.
    """
    candidate = route.require_next()
    source = load_source(candidate, route=route.name)
    register(session.dataframes)
    with open_trials(route) as ledger:
        trial = ledger.begin(source, start=start, through=through, begun_by=recorded_by, once=once)
        done = Derived(route.name, candidate.version)
        for more in Run(route, candidate, session, source, ledger, recorded_by, is_trial=True).attempts():
            done = done.with_more(more)
            progress(done)
    emit(
        "trial_done",
        route=route.name,
        version=candidate.version,
        trial=trial.trial_id,
        messages=done.messages,
        derived=done.derived,
    )
    return replace(trial, done_stream_position=trial.last_stream_position), done
