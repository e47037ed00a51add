"""JSON Schemas as functions of Postgres: a database checks payloads as `TopicSchemas.require` does, for programs in any language.

Each version of a topic is a function in PL/pgSQL, which returns what is wrong with a payload. What can't be said in SQL is refused, with
the keyword and its place. docs/contracts.md lists what can.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from relaybox.contracts.sql_compiler import MOST_CHARACTERS, compile_schema, literal
from relaybox.contracts.sql_patterns import UntranslatablePattern, translate_pattern
from relaybox.errors import ConfigurationError

if TYPE_CHECKING:
    from relaybox.contracts.schema_documents import Schema
    from relaybox.contracts.topic_schemas import TopicSchemas

SQL_SCHEMA = "topic_schemas"
"""Of the database: where the functions are made."""


def write_sql_check(schemas: TopicSchemas) -> str:
    """Returns the script of psql that makes the functions of all topics, or makes them anew. Connects to nothing.

    Raises:
        ConfigurationError: a keyword can't be checked; the message names topic, version and place.
    """
    functions = [
        write_function(_function_name(topic, version), topic, version, document, made_by="relaybox schemas --sql")
        for topic, version, document in schemas.list_all()
    ]
    return "\n".join([_HEAD, *functions, _write_require(schemas)])


def check_function(topic: str, version: int, document: Schema) -> str:
    """Returns the name of the function that the script makes of one version.

    Raises:
        ConfigurationError: as write_sql_check().
    """
    name = _function_name(topic, version)
    write_function(name, topic, version, document, made_by="")
    return name


def list_formats(schemas: TopicSchemas) -> Iterator[str]:
    """The places of `format`, which no check looks at: neither this one nor `TopicSchemas.require`."""
    for topic, version, document in schemas.list_all():
        yield from (f"topic {topic}, version {version}: {place}/format" for place in _find_formats(document, ""))


def list_patterns(document: Schema) -> Iterator[tuple[str, str]]:
    """The place of each `pattern` of a schema that write_function() takes, and the regular expression that Postgres gets."""
    for place, pattern in _find_texts(document, "pattern", ""):
        try:
            yield f"{place}/pattern", translate_pattern(pattern)
        except UntranslatablePattern:  # in a part that nothing refers to: write_function() has refused each other one
            continue


def _find_formats(schema: Any, place: str) -> Iterator[str]:
    yield from (found for found, _ in _find_texts(schema, "format", place))


def _find_texts(schema: Any, keyword: str, place: str) -> Iterator[tuple[str, str]]:
    """The places of schemas that have a keyword with a text, and the texts."""
    if isinstance(schema, Mapping):
        if isinstance(schema.get(keyword), str):
            yield place, schema[keyword]
        for name, value in schema.items():
            if name not in ("enum", "const", "default", "examples"):
                yield from _find_texts(value, keyword, f"{place}/{name}")
    elif isinstance(schema, list):
        for number, value in enumerate(schema):
            yield from _find_texts(value, keyword, f"{place}/{number}")


_HEAD = f"""-- Checks of payloads by the JSON Schemas of relaybox.yaml. Written by: relaybox schemas --sql
-- Run it in the database of the producers, again after each change of a schema:
--     psql -X -v ON_ERROR_STOP=1 -1 -f FILE
create schema if not exists {SQL_SCHEMA};
grant usage on schema {SQL_SCHEMA} to public;
"""

_FUNCTION = """create or replace function {name}(payload text) returns text
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $relaybox_check$
declare
    value_0 jsonb;
    at_0 text := '';
    problem_0 text;
begin
    if payload is null then
        return null;
    end if;
    begin
        value_0 := payload::jsonb;
    exception when data_exception or program_limit_exceeded then
        return 'the payload: it is no JSON that Postgres reads: ' || sqlerrm;
    end;
{body}
    return problem_0;
end
$relaybox_check$;
comment on function {name}(text) is {comment};
"""

_REQUIRE = """create or replace function {schema}.require(topic text, payload text, schema_version integer default null)
returns boolean
language plpgsql immutable parallel safe
set search_path = pg_catalog, pg_temp
as $relaybox_check$
declare
    newest constant integer := case topic{newest} end;
    version constant integer := coalesce(schema_version, newest);
    problem text;
begin
    if newest is null or payload is null then
        return true;
    end if;
    problem := case{cases}
        else 'there is no schema of this version' end;
    if problem is null then
        return true;
    end if;
    raise exception using errcode = 'check_violation', constraint = 'payload_is_of_its_schema',
        message = format('topic %s, schema version %s: %s', topic, version, problem),
        hint = 'Correct the payload, or name the version that it is of. Versions are 1 to ' || newest || '.';
end
$relaybox_check$;
comment on function {schema}.require(text, text, integer) is {comment};
"""


def _write_require(schemas: TopicSchemas) -> str:
    cases = "".join(
        f"\n        when topic = {literal(topic)} and version = {version} then {_function_name(topic, version)}(payload)"
        for topic, version, _ in schemas.list_all()
    )
    comment = (
        "Checks a payload by the schema of its topic. schema_version: null is the newest. Returns true; a topic without schemas takes each "
        "payload.\nErrors: 23514, constraint payload_is_of_its_schema. Made by: relaybox schemas --sql"
    )
    return _REQUIRE.format(
        schema=SQL_SCHEMA,
        newest=write_newest(schemas),
        cases=cases or "\n        when false then null::text",
        comment=literal(comment),
    )


def write_newest(schemas: TopicSchemas) -> str:
    """The branches of a `case topic` that returns the newest version of a topic, or null if it has none."""
    branches = "".join(f" when {literal(topic)} then {version}" for topic, version in schemas.newest.items())
    return branches or " when null then null::integer"


def _function_name(topic: str, version: int) -> str:
    return f'{SQL_SCHEMA}."{topic}.v{version}"'


def write_function(name: str, topic: str, version: int, document: Schema, *, made_by: str) -> str:
    """Returns the statements that make the function `name(payload text)` of one version, or make it anew.

    Args:
        name: as SQL writes it, with its schema.
        topic: of the schema, for the errors and the comment.
        version: as topic.
        document: the schema.
        made_by: the command that runs the statements, for the comment.

    Raises:
        ConfigurationError: as write_sql_check().
    """
    text = _FUNCTION.format(
        name=name,
        body=compile_schema(topic, version, document),
        comment=literal(
            f"Returns what is wrong with a payload of topic {topic} by schema version {version}, or null. Made by: {made_by}"
        ),
    )
    if len(text) > MOST_CHARACTERS:
        raise ConfigurationError(
            f"topic {topic}, schema version {version}: its function has more than {MOST_CHARACTERS:,} characters."
        )
    return text
