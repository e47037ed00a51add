"""Trials of derivations, on a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from relaybox.amounts import amount
from relaybox.cli.terminal.tables import new_table, open_console

if TYPE_CHECKING:
    from relaybox.spark.derivations.deriving import Derived
    from relaybox.spark.derivations.trials import Trial, TrialComparison

SHOWN_CHARACTERS = 60
"""Of a payload in a table; --json has the whole payload."""


def show_trial(route: str, trial: Trial, done: Derived) -> None:
    """What a run did, and what comes next."""
    open_console().print(
        f"{route}: trial {trial.trial_id} of version {trial.version}, stream positions {trial.first_stream_position:,} to "
        f"{trial.last_stream_position:,}: {amount(done.derived, 'message')} derived from {amount(done.messages, 'message')} in "
        f"{amount(done.attempts, 'attempt')}. Nothing was sent. Next: relaybox trials compare {route}"
    )


def show_comparison(found: TrialComparison) -> None:
    """Counts by topic, and samples."""
    console, trial = open_console(), found.trial
    done = "" if trial.is_done else f", of which it has derived up to {trial.done_stream_position:,} so far"
    console.print(
        f"trial {trial.trial_id}: version {trial.version} ({trial.source_name}) against version {trial.old_version}, stream positions "
        f"{trial.first_stream_position:,} to {trial.last_stream_position:,}{done}"
    )
    if found.compared_from > trial.first_stream_position:
        console.print(
            f"Compared from {found.compared_from:,} on: the outbox does not keep all of version {trial.old_version} before that."
        )
    if found.set_aside:
        console.print(f"The function fails for {amount(found.set_aside, 'message')}, which it left out.")
    table = new_table("topic", "equal", "changed", f"only in version {trial.old_version}", f"only in version {trial.version}")
    for topic in found.topics:
        table.add_row(topic.topic, *(f"{count:,}" for count in (topic.equal, topic.changed, topic.only_old, topic.only_new)))
    console.print(table)
    if found.changed_keys:
        console.print(f"{amount(found.changed_keys, 'key')} with differences")
    if found.samples:
        samples = new_table("difference", "topic", "key", "position", f"version {trial.old_version}", f"version {trial.version}")
        for one in found.samples:
            sides = (_cut(one.old_headers, one.old_payload), _cut(one.new_headers, one.new_payload))
            samples.add_row(one.difference, one.topic, one.key or "", str(one.stream_position or ""), *sides)
        console.print(samples)


def _cut(headers: str | None, payload: str | None) -> str:
    """A side of a sample: its payload, and its headers if it has some."""
    if payload is None:
        return ""
    told = payload if headers in (None, "{}") else f"{headers} {payload}"
    return told if len(told) <= SHOWN_CHARACTERS else f"{told[:SHOWN_CHARACTERS]}…"
