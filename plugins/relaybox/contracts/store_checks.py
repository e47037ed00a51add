"""What a store checks by itself: the functions and rules that `relaybox init` puts into it, as `schema_checks` of relaybox.yaml asks.

The functions are those of `relaybox schemas --sql`, in schema relaybox_internal. The store applies them and notes what it applied
(sql/functions/stores/renew_payload_checks.sql), so that a script of psql can do it too.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from relaybox.contracts.sql_check import list_patterns, write_function, write_newest
from relaybox.contracts.sql_compiler import literal
from relaybox.contracts.topic_schemas import TopicSchemas
from relaybox.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Collection

    from relaybox.routes import Routes, SchemaCheck, Store

_MADE_BY = "relaybox init"


def write_store_checks(routes: Routes, store: Store) -> str:
    """Returns what renew_payload_checks() of a store takes: JSON of the topics that it checks, and of the functions for it.

    Reads the files of the schemas of these topics, no other file; connects to nothing.

    Raises:
        ConfigurationError: a file is missing or no JSON Schema, a version refuses what the one before took, or a keyword can't be checked
            in SQL; the message names topic, version and place.
    """
    rules = {topic: rule for topic, check in routes.schema_checks.items() if (rule := _rule(routes, store, topic, check))}
    hops: dict[str, dict[str, str]] = {}
    for topic, rule in rules.items():
        if rule["first_hop"] != "none":
            for hop in routes.first_hops(topic):
                if hop.destination == store:
                    hops.setdefault(hop.name, {})[topic] = rule["first_hop"]
    schemas = _read(routes, rules)
    functions = [
        (_function_name(topic, version), write_function(_quoted_name(topic, version), topic, version, document, made_by=_MADE_BY))
        for topic, version, document in schemas.list_all()
    ]
    functions.append(("payload_problem", _write_problem(schemas)))
    if any(rule["outbox"] == "refuse" for rule in rules.values()):
        functions.append(("refuse_payload", _REFUSE))
    return json.dumps(
        {
            "topics": {topic: {**rule, "newest_version": schemas.newest[topic]} for topic, rule in rules.items()},
            "hops": hops,
            "functions": [{"name": name, "text": text} for name, text in functions],
            "patterns": [
                {"place": f"topic {topic}, schema version {version}: {place}", "pattern": pattern}
                for topic, version, document in schemas.list_all()
                for place, pattern in list_patterns(document)
            ],
        }
    )


def _rule(routes: Routes, store: Store, topic: str, check: SchemaCheck) -> dict[str, str] | None:
    """What of the check is this store's: the outbox of a store that sends the topic, the log of one where it arrives first."""
    hops = routes.first_hops(topic)
    outbox = check.outbox if any(hop.source == store for hop in hops) else "none"
    first_hop = check.first_hop if any(hop.destination == store for hop in hops) else "none"
    return None if outbox == first_hop == "none" else {"outbox": outbox, "first_hop": first_hop}


def _read(routes: Routes, topics: Collection[str]) -> TopicSchemas:
    if not topics:
        return TopicSchemas({})
    schemas = TopicSchemas.read({topic: routes.schemas[topic] for topic in topics}, routes.path.parent)
    if breaks := list(schemas.breaks()):
        raise ConfigurationError(
            f"{breaks[0]}. Producers of both versions are at work while a version is added.",
            next_step="Correct the file, or give the messages a new topic. All breaks are told by: relaybox schemas",
        )
    return schemas


def _function_name(topic: str, version: int) -> str:
    return f"payload.{topic}.v{version}"


def _quoted_name(topic: str, version: int) -> str:
    return f'relaybox_internal."{_function_name(topic, version)}"'


_PROBLEM = """create or replace function relaybox_internal.payload_problem(topic text, headers jsonb, payload text, payload_bytes bytea)
returns text
language plpgsql stable parallel safe
set search_path = pg_catalog, pg_temp
as $relaybox_check$
declare
    newest constant integer := case topic{newest} end;
    said constant text := headers ->> 'schema_version';
    version constant integer := case when said is null then newest when said ~ '^[0-9]{{1,9}}$' then said::integer end;
    content text := payload;
    problem text;
begin
    if newest is null then
        return null;
    end if;
    if content is null then
        begin
            content := convert_from(payload_bytes, 'UTF8');
        exception when data_exception then
            return 'the payload: its bytes are no text in UTF-8';
        end;
    end if;
    -- its payload is in a file (relaybox.payloads), and was checked by the producer or by nobody
    if jsonb_typeof(headers -> 'relaybox-payload') = 'object' then
        begin
            if content::jsonb = jsonb_build_object('relaybox-payload', headers -> 'relaybox-payload') then
                return null;
            end if;
        exception when data_exception or program_limit_exceeded then
            null; -- told below
        end;
    end if;
    begin
        problem := case{cases}
            else format('there is no schema of this version here; versions are 1 to %s', newest) end;
    exception when others then
        if sqlstate ~ '^(40|53|55|57|58|XX)' then
            raise; -- not of the payload
        end if;
        problem := format('the payload: it can''t be checked: %s (%s)', sqlerrm, sqlstate);
    end;
    return 'schema version ' || coalesce(version::text, said) || ': ' || problem; -- null if there is none
end
$relaybox_check$;
comment on function relaybox_internal.payload_problem(text, jsonb, text, bytea) is
'Returns what is wrong with a message by the schema of its topic, as a text, or null. The header schema_version names the version; else '
'it is the newest. Made by: relaybox init';
"""

_REFUSE = """create or replace function relaybox_internal.refuse_payload() returns trigger
language plpgsql security definer
set search_path = pg_catalog, pg_temp
as $relaybox_check$
declare
    problem constant text := relaybox_internal.payload_problem(new.topic, new.headers, new.payload, new.payload_bytes);
begin
    if problem is null then
        return null;
    end if;
    raise exception using errcode = 'check_violation', schema = 'relaybox', table = 'outbox', constraint = 'payload_is_of_its_schema',
        message = format('topic %s, %s', new.topic, problem),
        hint = 'Correct the payload, or name the version that it is of in the header schema_version. The schemas are files that '
            'relaybox.yaml names: docs/contracts.md';
end
$relaybox_check$;
comment on function relaybox_internal.refuse_payload() is
'The trigger of relaybox.outbox for topics with schema_checks.outbox: refuse. Raises 23514, constraint payload_is_of_its_schema. Made by: '
'relaybox init';
"""


def _write_problem(schemas: TopicSchemas) -> str:
    cases = "".join(
        f"\n            when topic = {literal(topic)} and version = {version} then {_quoted_name(topic, version)}(content)"
        for topic, version, _ in schemas.list_all()
    )
    return _PROBLEM.format(newest=write_newest(schemas), cases=cases or "\n            when false then null::text")
