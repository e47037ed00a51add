"""The checks of messages by their schemas: whether the store does what relaybox.yaml asks for with schema_checks, and what they found."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from relaybox.contracts.store_checks import write_store_checks
from relaybox.errors import ConfigurationError
from relaybox.monitoring.doctor.check import Diagnosis, Examined, error, hidden, ok, warning
from relaybox.monitoring.doctor.record import may_read

# not to_regclass(): it refuses a login that may not use the schema
_IS_THERE = """
select exists (
    select from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where n.nspname = 'relaybox_internal' and c.relname = 'nonconforming_message'
)
"""

_STATE = """
select json_build_object(
    'topics', (select coalesce(json_object_agg(t.topic, json_build_object(
        'outbox', t.outbox, 'first_hop', t.first_hop, 'newest_version', t.newest_version
    )), '{}') from relaybox_internal.checked_topic t),
    'made', (select coalesce(json_object_agg(c.function_name, c.text_digest), '{}') from relaybox_internal.check_function c),
    'altered', (select coalesce(json_agg(c.function_name order by c.function_name), '[]') from relaybox_internal.check_function c
        where c.body_digest is distinct from relaybox_internal.check_body_digest(c.function_name)),
    'refused', coalesce(relaybox_internal.payload_trigger_topics(), '{}')
)
"""


class _Nonconforming(NamedTuple):
    """Messages of a topic that a hop brought in the last 24 hours and that do not conform; `problem` of the newest of them."""

    hop: str
    topic: str
    noted: int
    set_aside: int
    log_position: int
    problem: str


_NONCONFORMING = """
select i.hop, n.topic, count(*) filter (where not n.is_set_aside) as noted, count(*) filter (where n.is_set_aside) as set_aside,
    max(n.log_position) as log_position, (array_agg(n.problem order by n.log_position desc))[1] as problem
from relaybox_internal.nonconforming_message n
join relaybox_internal.hop_in i using (log_id)
where n.found_at > clock_timestamp() - interval '24 hours'
group by i.hop, n.topic
order by i.hop, n.topic
"""


def check_schema_checks(examined: Examined) -> Iterator[Diagnosis]:
    """The store checks what relaybox.yaml asks for, by the schemas that are in the files now, and what arrived in a day conforms."""
    if not examined.server.has_schema:
        return
    if not examined.session.value(_IS_THERE):
        yield ok("No message is checked by its schema: the store is of a version that checks none.")
        return
    if not may_read(examined.session, "checked_topic"):
        yield hidden(examined, "relaybox_internal.checked_topic")
        return
    init = f"Run: relaybox init {examined.store.name}"
    try:
        wanted = json.loads(write_store_checks(examined.routes, examined.store))
    except ConfigurationError as refused:
        yield error(
            f"The schemas of schema_checks can't be compared with the store: {Exception.__str__(refused)}", refused.next_step
        )
        return
    state = examined.session.value(_STATE)
    found = list(_compare(wanted, state))
    for one in found:
        yield error(f"{one}.", init)
    arrived = examined.session.rows(_Nonconforming, _NONCONFORMING)
    for each in arrived:
        yield warning(
            f"Messages of topic {each.topic} that hop {each.hop} brought in 24 hours do not conform to their schema: "
            f"{each.noted} were noted, {each.set_aside} set aside. The newest is at log position {each.log_position}: {each.problem}.",
            "See docs/runbooks/nonconforming-messages.md",
        )
    if not found and not arrived:
        topics = ", ".join(f"{topic} (versions 1 to {rule['newest_version']})" for topic, rule in wanted["topics"].items())
        yield ok(f"Topics whose messages are checked by their schemas here: {topics or 'none'}; relaybox.yaml says the same.")


def _compare(wanted: dict[str, Any], state: dict[str, Any]) -> Iterator[str]:
    for topic, rule in wanted["topics"].items():
        recorded = state["topics"].get(topic)
        if recorded != rule:
            yield (
                f"relaybox.yaml says schema_checks.{topic} with {_written(rule)}, and the store has "
                f"{'no check of this topic' if recorded is None else _written(recorded)}"
            )
    for topic in sorted(state["topics"].keys() - wanted["topics"].keys()):
        yield f"Messages of topic {topic} are checked, and relaybox.yaml does not ask for it"
    if not (wanted["topics"] or state["topics"]):
        return
    texts = {one["name"]: hashlib.md5(one["text"].encode()).hexdigest() for one in wanted["functions"]}  # noqa: S324 - no secret
    for name, digest in texts.items():
        if name in state["altered"]:
            yield f"Function relaybox_internal.{name} is missing, or not as init made it"
        elif state["made"].get(name) != digest and state["topics"] == wanted["topics"]:
            yield f"Function relaybox_internal.{name} was made of another schema than the files have now"
    refused = sorted(topic for topic, rule in state["topics"].items() if rule["outbox"] == "refuse")
    if sorted(state["refused"]) != refused:
        yield (
            f"The trigger refuse_payload of relaybox.outbox checks {', '.join(sorted(state['refused'])) or 'nothing'}, and not "
            f"{', '.join(refused) or 'nothing'}: messages that do not conform are accepted"
        )


def _written(rule: dict[str, Any]) -> str:
    return f"outbox: {rule['outbox']}, first_hop: {rule['first_hop']}, versions 1 to {rule['newest_version']}"
