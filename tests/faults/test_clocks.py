"""No decision of a hop uses a clock, so a clock that steps can change none. Who else reads one is named here, with the reason."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from relaybox.stores.schema.migrations import sql_directory
from tests.faults.library import CORE, name_of

SHOWN = {
    "list_message_id_defects.sql": "no clock: the text of the function that makes ids",
    "set_durability.sql": "when the durability of a store was said",
    "monitoring/doctor/clocks.py": "how far the clocks of stores and of this machine differ",
    "sending_states.sql": "the age of the oldest waiting message, for the status",
    "monitoring/status.py": "when the status was measured",
    "verification/route_verification.py": "when the stores were compared",
    "place_payload_trigger.sql": "how long an init waits for open producers: a step of the clock has it wait longer, or try only once",
    "renew_payload_checks.sql": "when a function that checks messages was made",
}
"""Where a clock is read only to be shown, and what is shown."""

SHOWN |= {
    "begin_derivation.sql": "when an attempt of the version before ended",
    "begin_derivation_attempt.sql": "when the attempt before ended",
    "begin_derivation_trial_attempt.sql": "when the attempt before ended",
    "end_derivation_trial.sql": "when a trial ended",
    "fail_derivation_attempt.sql": "when an attempt failed",
    "fail_derivation_trial_attempt.sql": "when an attempt failed",
    "finish_derivation_trial_attempt.sql": "when an attempt was done",
    "take_over_dead_letters.sql": "when a dead letter was dropped",
    "publish_derivation_attempt.sql": "when an attempt was published",
    "append_run.sql": "when a run of stream positions grew last",
    "begin_detach.sql": "when the detaching of a segment began",
    "drop_dead_letter.sql": "when a dead letter was dropped",
    "record_segment_removed.sql": "when a segment was detached, or let go",
    "estimate_range.sql": "how long a sample took to read, for a dry run",
    "monitoring/hop_history.py": "the end of the chart",
    "move_cursor.sql": "when a cursor moved",
    "release_detached.sql": "when files were let go",
    "begin_pass.sql": "when a replay began",
    "delivery_time.sql": "when a message was delivered, never before an earlier stream position",
    "require_quota.sql": "when a login's quota was asked for last",
    "retire_hop.sql": "when a hop was retired",
    "record_hops_of_file.sql": "since which init relaybox.yaml has a hop, or lacks it",
    "set_aside.sql": "when a message was set aside",
    "move_senders_in_order.sql": "when a sender moved last",
    "move_classified_senders.sql": "when a sender moved last",
    "age_seconds.sql": "ages, for the metrics",
    "detachable_through.sql": "what retention should have detached, for the metrics",
    "subscription_delays.sql": "how long messages have waited, for the metrics",
    "subscription_metrics.sql": "since when messages have waited",
    "subscriptions.sql": "how long a lane has stood",
    "record_endpoint_failure.sql": "when an endpoint failed",
    "endpoint_failure.sql": "how much of a pause is left: a step of the clock ends it early, or never makes it longer than it was given for",
    "sinks/webhooks.py": "the header webhook-timestamp, and a Retry-After that is a date",
    "unsubscribe.sql": "when a subscription ended",
    "new_token.sql": "a token, which a clock and a random number keep from coming twice",
}

TIMES_OF_CONSUMERS = dict.fromkeys(
    (
        "apply_ack.sql",
        "has_time_left.sql",
        "lease_lane.sql",
        "fetch.sql",
        "nack.sql",
        "choose_next.sql",
        "extend_lease.sql",
        "rest_seconds.sql",
    ),
    "a lease or a rate is a span of time; a step of the clock ends it early or late, and the lane's version fences who lost it",
)

TIMES_OF_CONSUMERS |= {"begin_range.sql": "when a range was read; its rate is a span of time"}
TIMES_OF_CONSUMERS |= {
    "set_aside_expired.sql": "a step of the clock sets a message aside early or late; the dead letter keeps it, and can be redriven"
}
TIMES_OF_CONSUMERS |= dict.fromkeys(
    ("rest_until_due.sql", "lag.sql", "trace_delay.sql", "pass_delayed.sql"),
    "whether a delayed message is due is asked of the clock by each fetch: a step gives it early or late, and what was given stays given",
)
TIMES_OF_CONSUMERS |= {
    "find_new_messages.sql": "how long one fetch sets expired messages aside: a step of the clock has it end early or late, and the next goes on",
    "restore_delayed.sql": "a passed message without a time is due at once",
}
TIMES_OF_CONSUMERS |= {"start_at_time.sql": "a start in the future is refused; an earlier one is found by what was recorded"}
TIMES_OF_CONSUMERS |= {
    "finish_attach.sql": "a step of the clock has what came back detached again early or late: nothing is lost"
}
REPLAY_WINDOWS = dict.fromkeys(
    ("list_subscription_holders.sql", "outbox_holders.sql", "replay_window_from.sql"),
    "the replay window is a span of time: a step of the clock keeps longer, or less long, what every hop and consumer is done with",
)

OF_APPLICATIONS = {
    "django/models.py": "a message id begins with the time, as the store makes it: no order is read from it",
    "payloads/store.py": "the name of a payload's file tells the time of its write; its random part makes it unique",
    "payloads/place_stores.py": "when a collection asked a store",
    "payloads/preparing.py": "when a place recorded a store: the earliest of its clock and those of the stores",
} | dict.fromkeys(
    ("payloads/checking.py", "payloads/collecting.py"),
    "a file is old by the earliest of the clocks of the stores and of this machine, less the grace; a step forward moves files into the trash",
)
OF_APPLICATIONS |= {
    "testing/clusters.py": "which clusters that earlier runs of tests left are old",
}

KNOWN = SHOWN | TIMES_OF_CONSUMERS | REPLAY_WINDOWS | OF_APPLICATIONS

SQL_CLOCK = re.compile(
    r"\b(now\(\)|(clock|statement|transaction)_timestamp\(\)|timeofday\(\)|current_(date|time|timestamp)|localtime)",
    re.IGNORECASE,
)
PYTHON_CLOCKS = {("time", "time"), ("time", "time_ns"), ("datetime", "now"), ("datetime", "utcnow"), ("datetime", "today")}
"""time.monotonic() is no wall clock: deadlines and durations only."""


def without_comments(path: Path) -> str:
    return re.sub(r"--.*", "", path.read_text())


def reads_wall_clock(path: Path) -> bool:
    return any(
        isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and (node.value.id, node.attr) in PYTHON_CLOCKS
        for node in ast.walk(ast.parse(path.read_text()))
    )


@pytest.mark.parametrize(
    "path", sorted([*sql_directory().glob("functions/*/*.sql"), *sql_directory().glob("views/*.sql")]), ids=lambda path: path.name
)
def test_no_function_of_the_protocol_reads_a_clock(path: Path) -> None:
    """Times are column defaults: written once, never compared."""
    assert bool(SQL_CLOCK.search(without_comments(path))) == (path.name in KNOWN)


@pytest.mark.parametrize("path", CORE, ids=name_of)
def test_no_module_of_the_core_reads_a_wall_clock(path: Path) -> None:
    assert reads_wall_clock(path) == (name_of(path) in KNOWN)
