"""The functions that `relaybox schemas --sql` writes: they take and refuse what the package jsonschema does, in Postgres."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

import psycopg2
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field, TypeAdapter

from relaybox.contracts.sql_check import list_formats, write_sql_check
from relaybox.contracts.sql_compiler import _KEYWORDS
from relaybox.contracts.sql_patterns import UntranslatablePattern, translate_pattern
from relaybox.contracts.topic_schemas import SchemaViolation, TopicSchemas
from relaybox.errors import ConfigurationError
from tests.support.cli import invoke
from tests.support.world import World

STORE = "airline"
DOCS = Path(__file__).parents[2] / "docs"

names = st.sampled_from(["a", "b", "c/d", "e~f", "it's", "$relaybox_check$"])
numbers = st.integers(-3, 3) | st.sampled_from([0.5, -0.5, 1.0, 2.0, 10**20, 1e20])
texts = st.text("ab1_ '\\$ü\U0001f600", max_size=4)
values = st.recursive(
    st.none() | st.booleans() | numbers | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(names, inner, max_size=4),
    max_leaves=8,
)
counts = st.integers(0, 4)
patterns = st.sampled_from(["^a", "b$", "^[ab]{1,2}$", "a|1", "(a|b)+1?", r"\d", r"[^\d_]", "^a.b$", r"\$", "ü", "^(?:a_)*$"])
plain_schemas = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(["null", "boolean", "integer", "number", "string", "array", "object"])
        | st.lists(st.sampled_from(["null", "integer", "string", "object", "array"]), min_size=1, max_size=3, unique=True),
        "enum": st.lists(values, min_size=1, max_size=4),
        "const": values,
        "minimum": numbers,
        "maximum": numbers,
        "exclusiveMinimum": numbers,
        "exclusiveMaximum": numbers,
        "minLength": counts,
        "maxLength": counts,
        "minItems": counts,
        "maxItems": counts,
        "minProperties": counts,
        "maxProperties": counts,
        "uniqueItems": st.booleans(),
        "pattern": patterns,
        "required": st.lists(names, max_size=2, unique=True),
    },
)


def _around(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    lists = st.lists(inner, min_size=1, max_size=3)
    return st.fixed_dictionaries(
        {},
        optional={
            "type": st.sampled_from(["object", "array", ["object", "array", "string"]]),
            "properties": st.dictionaries(names, inner, max_size=3),
            "additionalProperties": inner,
            "items": inner,
            "allOf": lists,
            "anyOf": lists,
            "oneOf": lists,
            "not": inner,
            "$ref": st.just("#/$defs/other"),
            "minProperties": counts,
            "required": st.lists(names, max_size=2, unique=True),
        },
    )


schemas = st.recursive(st.booleans() | plain_schemas, _around, max_leaves=6)


@pytest.fixture
def database(world: World) -> Iterator[psycopg2.extensions.cursor]:
    """A database in which the functions may be made; what a test makes is rolled back."""
    with world.session(STORE) as connection, connection.cursor() as cursor:
        yield cursor
        connection.rollback()


def problem(database: psycopg2.extensions.cursor, payload: str, version: int = 1) -> str | None:
    database.execute(f'select topic_schemas."flights.v{version}"(%s)', (payload,))
    ((found,),) = database.fetchall()
    return found if found is None else str(found)


def compile_(database: psycopg2.extensions.cursor, *documents: Any) -> TopicSchemas:
    read = TopicSchemas({"flights": dict(enumerate(documents, 1))})
    database.execute(write_sql_check(read))
    return read


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(schema=schemas, other=plain_schemas, payloads=st.lists(values, min_size=15, max_size=15))
def test_the_database_takes_what_the_package_takes(
    database: psycopg2.extensions.cursor, schema: Any, other: Any, payloads: list[Any]
) -> None:
    """For generated schemas of every keyword, in each other, and generated payloads."""
    document = {"$defs": {"other": other}, **schema} if isinstance(schema, dict) else schema
    compare(database, document, payloads)


simple = st.sampled_from([True, False, {"type": "integer"}, {"minimum": 1}, {"maxLength": 1}, {"const": 1}])
objects = st.dictionaries(names, st.integers(-2, 2) | texts, max_size=4)
lists = st.lists(st.integers(-2, 2) | st.sampled_from([1.0, 0.5, True, False, [1], [True], "a", "ab"]), max_size=4)
scalars = st.none() | st.booleans() | numbers | texts
members = st.dictionaries(names, simple, max_size=3)
some = st.lists(simple, min_size=1, max_size=3)
OF_KEYWORDS: dict[str, tuple[st.SearchStrategy[Any], st.SearchStrategy[Any], dict[str, Any]]] = {
    "type": (st.sampled_from(["integer", "number", ["null", "string"], ["integer", "object"]]), values, {}),
    "enum": (st.lists(scalars, min_size=1, max_size=4), scalars, {}),
    "const": (
        st.sampled_from([1, True, 0.5, "a", [1], {"a": 1}, None]),
        st.sampled_from([1, True, 0.5, "a", [1], {"a": 1}, 1.0]),
        {},
    ),
    **{word: (numbers, numbers, {}) for word in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")},
    **{word: (counts, texts, {}) for word in ("minLength", "maxLength")},
    **{word: (counts, lists, {}) for word in ("minItems", "maxItems")},
    **{word: (counts, objects, {}) for word in ("minProperties", "maxProperties")},
    "uniqueItems": (st.just(True), lists, {}),
    "pattern": (patterns, st.text("ab1_$", max_size=3), {}),
    "required": (st.lists(names, min_size=1, max_size=2, unique=True), objects, {}),
    "properties": (members, objects, {}),
    "additionalProperties": (simple, objects, {"properties": members}),
    "items": (simple, lists, {}),
    "allOf": (some, scalars, {}),
    "anyOf": (some, scalars, {}),
    "oneOf": (some, scalars, {}),
    "not": (simple, scalars, {}),
    "$ref": (st.just("#/$defs/other"), scalars, {"$defs": st.fixed_dictionaries({"other": simple})}),
}


def test_each_keyword_has_its_comparison() -> None:
    assert OF_KEYWORDS.keys() == _KEYWORDS.keys()


@pytest.mark.parametrize("keyword", OF_KEYWORDS)
def test_a_keyword_takes_what_the_package_takes(database: psycopg2.extensions.cursor, keyword: str) -> None:
    """With values of its kind: each keyword takes some and refuses some."""
    arguments, payloads, beside = OF_KEYWORDS[keyword]
    outcomes: list[bool] = []

    @settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.fixed_dictionaries({keyword: arguments, **beside}), st.lists(payloads, min_size=15, max_size=15))
    def run(schema: Any, chosen: list[Any]) -> None:
        outcomes.extend(compare(database, schema, chosen))

    run()
    assert min(outcomes.count(True), outcomes.count(False)) >= 20


KINDS = ("cat", "dog", "it's")
models = st.fixed_dictionaries(
    {
        "properties": st.fixed_dictionaries(
            {
                "kind": st.sampled_from(KINDS).map(lambda kind: {"const": kind}) | st.just({"enum": ["cat", "dog"]}),
                "age": simple,
            }
        ),
        "required": st.sampled_from([["kind"], ["kind", "age"], []]),
    }
)
mappings = st.dictionaries(
    st.sampled_from(KINDS), st.sampled_from(["#/$defs/0", "#/$defs/1", "#/$defs/9", "elsewhere"]), max_size=3
)
pets = st.fixed_dictionaries({}, optional={"kind": st.sampled_from([*KINDS, "cow", None]), "age": st.integers(0, 2) | texts})


def test_a_discriminator_says_nothing_and_one_of_decides(database: psycopg2.extensions.cursor) -> None:
    """JSON Schema has no such keyword, so it is a note: also one that names another model, a wrong property, or none of the models."""
    outcomes: list[bool] = []

    @settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
    @given(
        st.lists(models, min_size=1, max_size=3),
        st.fixed_dictionaries({"propertyName": st.sampled_from(["kind", "age", "none"])}, optional={"mapping": mappings}),
        st.sampled_from([None, "http://json-schema.org/draft-07/schema#"]),
        st.lists(pets, min_size=15, max_size=15),
    )
    def run(chosen: list[Any], discriminator: Any, draft: str | None, payloads: list[Any]) -> None:
        parts = {str(number): {**one, "discriminator": discriminator} for number, one in enumerate(chosen)}
        union = {"discriminator": discriminator, "oneOf": [{"$ref": f"#/$defs/{name}"} for name in parts]}
        whole = {"$defs": parts, "properties": {"pet": union}}
        document = whole if draft is None else {"$schema": draft, **whole}
        outcomes.extend(compare(database, document, [{"pet": payload} for payload in payloads]))

    run()
    assert min(outcomes.count(True), outcomes.count(False)) >= 100


def test_a_union_of_pydantic_is_checked(database: psycopg2.extensions.cursor) -> None:
    class Cat(BaseModel):
        kind: Literal["cat"]
        lives: int

    class Dog(BaseModel):
        kind: Literal["dog", "wolf"]

    union: TypeAdapter[Any] = TypeAdapter(Annotated[Cat | Dog, Field(discriminator="kind")])
    document = union.json_schema()
    assert document["discriminator"]["propertyName"] == "kind"
    payloads = [{"kind": "cat", "lives": 9}, {"kind": "wolf"}, {"kind": "cat"}, {"kind": "cow"}, {"lives": 9}, 1]
    assert compare(database, document, payloads) == [True, True, False, False, False, False]


def compare(database: psycopg2.extensions.cursor, document: Any, payloads: list[Any]) -> list[bool]:
    """Asks the database and the package about each payload; returns what both say."""
    read = compile_(database, document)
    outcomes = []
    for payload in payloads:
        try:
            read.require("flights", json.dumps(payload), version=1)
        except SchemaViolation:
            expected = False
        else:
            expected = True
        found = problem(database, json.dumps(payload))
        assert (found is None) is expected, (payload, found)
        outcomes.append(expected)
    return outcomes


@pytest.mark.parametrize(
    ("schema", "payload", "told"),
    [
        ({"type": "integer"}, "1.5", "the payload: its type is not integer"),
        ({"type": ["null", "string"]}, "1", "the payload: its type is not null or string"),
        ({"properties": {"seats": {"minimum": 0}}}, '{"seats": -1}', "/seats: it is less than the minimum of 0"),
        ({"properties": {"p": {"items": {"required": ["n"]}}}}, '{"p": [{"n": 1}, {}]}', "/p/1/n: it is required"),
        ({"additionalProperties": False}, '{"a": 1}', "/a: nothing is allowed here"),
        ({"enum": ["A", 1]}, '"B"', 'the payload: it is none of "A", 1'),
        ({"pattern": "^A"}, '"B"', "the payload: it does not match ^A"),
        ({"items": {"$ref": "#/$defs/g"}, "$defs": {"g": {"maxLength": 1}}}, '["ab"]', "/0: it has more characters than 1"),
        ({"oneOf": [{}, True]}, "1", "the payload: not exactly one of the schemas of oneOf takes it"),
        (True, "{", "the payload: it is no JSON that Postgres reads: invalid input syntax for type json"),
        (True, '"\\u0000"', "the payload: it is no JSON that Postgres reads: unsupported Unicode escape sequence"),
    ],
)
def test_what_is_wrong_is_told_with_the_place(database: psycopg2.extensions.cursor, schema: Any, payload: str, told: str) -> None:
    compile_(database, schema)
    assert problem(database, payload) == told


def test_an_insert_is_refused_with_topic_version_and_place(world: World) -> None:
    """In a check constraint of an application's own table."""
    with world.session(STORE) as connection, connection.cursor() as cursor:
        compile_(cursor, {"type": "object"}, {"type": "object", "properties": {"seats": {"type": "integer"}}})
        cursor.execute(
            "create table boarding (payload text, version integer, check (topic_schemas.require('flights', payload, version)))"
        )
        connection.commit()
        cursor.execute('insert into boarding values (\'{"seats": "3"}\', 1), (\'{"seats": 3}\', null), (null, 2)')
        connection.commit()
        with pytest.raises(psycopg2.errors.CheckViolation) as refused:
            cursor.execute('insert into boarding values (\'{"seats": "3"}\', null)')
        connection.rollback()
        assert refused.value.diag.message_primary == "topic flights, schema version 2: /seats: its type is not integer"
        assert refused.value.diag.constraint_name == "payload_is_of_its_schema"
        assert refused.value.diag.message_hint == "Correct the payload, or name the version that it is of. Versions are 1 to 2."
        with pytest.raises(psycopg2.errors.CheckViolation, match="schema version 3: there is no schema of this version"):
            cursor.execute("insert into boarding values ('{}', 3)")
        connection.rollback()
        cursor.execute("select topic_schemas.require('invoices', '{')")
        assert cursor.fetchall() == [(True,)]


SEND = """
insert into relaybox.outbox (topic, sender, payload, headers)
select 'flights', 'UA', p.payload, '{"schema_version": 1}' from (values (%s)) p (payload) where topic_schemas.require('flights', p.payload, 1)
"""


def test_a_producer_checks_beside_its_insert_into_the_outbox(world: World) -> None:
    """With the rights of a producer, and whatever its search_path finds first; a refused payload sends nothing."""
    with world.session(STORE) as connection, connection.cursor() as cursor:
        compile_(cursor, {"type": "object", "properties": {"seats": {"type": "integer"}}})
        cursor.execute("create schema other; create function other.jsonb_typeof(jsonb) returns text language sql return 'object'")
        cursor.execute("grant usage on schema other to public")
        connection.commit()
        cursor.execute("set role relaybox_producer")
        cursor.execute("set search_path = other, pg_catalog")
        cursor.execute(SEND, ('{"seats": 3}',))
        connection.commit()
        with pytest.raises(psycopg2.errors.CheckViolation, match="flights, schema version 1: /seats: its type is not integer"):
            cursor.execute(SEND, ('{"seats": "many"}',))
    assert world.query(STORE, "select payload, headers::text from relaybox.outbox") == [('{"seats": 3}', '{"schema_version": 1}')]


def test_an_adopted_table_takes_what_its_constraint_takes(world: World) -> None:
    """The trigger sends the row that was taken, and nothing of a statement that was refused."""
    with world.session(STORE) as connection, connection.cursor() as cursor:
        compile_(cursor, {"type": "object"})
        cursor.execute(
            "create table public.events (id uuid primary key, aggregatetype text, aggregateid text, type text, payload jsonb)"
        )
        cursor.execute("alter table public.events add check (topic_schemas.require('flights', payload::text))")
        connection.commit()
        adopted = invoke("adopt", STORE, "public.events")
        assert adopted.exit_code == 0, adopted.stderr
        insert = "insert into public.events values (gen_random_uuid(), 'flights', 'k', 't', %s)"
        cursor.execute(insert, ("{}",))
        connection.commit()
        with pytest.raises(psycopg2.errors.CheckViolation, match="schema version 1: the payload: its type is not object"):
            cursor.execute(insert, ("1",))
    assert world.query(STORE, "select payload from relaybox.outbox") == [("{}",)]


def test_json_that_is_too_deep_is_refused_and_ends_nothing(database: psycopg2.extensions.cursor) -> None:
    compile_(database, True)
    assert str(problem(database, "[" * 100_000 + "]" * 100_000)).endswith("stack depth limit exceeded")


def test_a_changed_script_is_run_again(database: psycopg2.extensions.cursor) -> None:
    """Functions are replaced, under constraints that call them too; the version that was there goes on."""
    compile_(database, {"type": "object"})
    database.execute("create table boarding (payload text, check (topic_schemas.require('flights', payload)))")
    compile_(database, {"type": "object"}, {"type": ["object", "null"]})
    database.execute("insert into boarding values ('null')")
    assert (problem(database, "null"), problem(database, "null", 2)) == ("the payload: its type is not object", None)


@pytest.mark.parametrize(
    ("schema", "told"),
    [
        ({"if": {}}, "/if: this keyword can't be checked in SQL"),
        ({"properties": {"a": {"patternProperties": {}}}}, "/properties/a/patternProperties: this keyword"),
        ({"allOf": [{"multipleOf": 2}]}, "/allOf/0/multipleOf: this keyword"),
        ({"$schema": "http://json-schema.org/draft-07/schema#", "items": [{}]}, "/items: a list of schemas"),
        (
            {"$ref": "#/$defs/a", "$defs": {"a": {"items": {"$ref": "#/$defs/a"}}}},
            "/$defs/a/items/$ref: #/$defs/a leads to itself",
        ),
        ({"$ref": "#/$defs/a"}, "/$ref: #/$defs/a leads to nothing"),
        ({"$ref": "other.json"}, "/$ref: other.json does not lead to a part of the document"),
        ({"pattern": "a(?=b)"}, "/pattern: '(?=b)' at character 2 can't be translated"),
        (
            {"$schema": "http://json-schema.org/draft-04/schema#"},
            "/$schema: got http://json-schema.org/draft-04/schema#; expected",
        ),
        (
            {
                "$schema": "http://json-schema.org/draft-07/schema#",
                "$ref": "#/definitions/a",
                "type": "null",
                "definitions": {"a": {}},
            },
            "/type: it stands beside $ref, where draft-07 ignores it",
        ),
        ({"items": {"$id": "other.json"}}, "/items/$id: this keyword"),
    ],
)
def test_what_sql_cannot_check_is_refused_with_the_place(schema: Any, told: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(f"topic flights, schema version 1: {told}")):
        write_sql_check(TopicSchemas({"flights": {1: schema}}))


def test_copies_of_copies_are_refused() -> None:
    """A $ref is copied where it stands: 2 to the power of 30 copies would be made."""
    parts = {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(30)}
    with pytest.raises(ConfigurationError, match="too many copies"):
        write_sql_check(TopicSchemas({"flights": {1: {"$ref": "#/$defs/d0", "$defs": {**parts, "d30": {"type": "null"}}}}}))


@pytest.mark.parametrize(
    "pattern", ["a*?", "a{300}", r"\bword", r"(a)\1", "[[:alpha:]]", "a**", "*a", r"\p{L}", "(?i)a", r"[\w-z]"]
)
def test_a_pattern_that_postgres_reads_otherwise_is_refused(pattern: str) -> None:
    with pytest.raises(UntranslatablePattern):
        translate_pattern(pattern)


@pytest.mark.parametrize(
    ("pattern", "found", "not_found"),
    [
        ("^a.b$", "a b", "a\nb"),
        ("b$", "ab", "b\n"),
        (r"^\w+$", "aZ_9", "ü"),
        (r"\W", "ü", "a"),
        (r"^[\w.-]+$", "a.-", "ü"),
        (r"^\D$", "x", "7"),
    ],
)
def test_a_pattern_is_that_of_javascript(database: psycopg2.extensions.cursor, pattern: str, found: str, not_found: str) -> None:
    """As JSON Schema says. The package reads it as one of Python, which finds some of these."""
    compile_(database, {"pattern": pattern})
    assert problem(database, json.dumps(found)) is None
    assert problem(database, json.dumps(not_found)) == f"the payload: it does not match {pattern}"


def test_the_command_writes_the_script(database: psycopg2.extensions.cursor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RELAYBOX_CONFIG", str(DOCS / "examples" / "relaybox.yaml"))
    run = invoke("schemas", "--sql")
    assert run.exit_code == 0
    database.execute(run.stdout)
    assert problem(database, '{"seats": 3}') == "/number: it is required"
    refused = invoke("schemas", "--sql", "--json")
    assert (refused.exit_code, json.loads(refused.stdout)["error"]["message"]) == (2, "Choose one of --sql and --json.")


def test_what_nobody_checks_is_told() -> None:
    read = TopicSchemas({"flights": {1: {"properties": {"at": {"format": "date-time"}, "format": {"const": {"format": "x"}}}}}})
    assert list(list_formats(read)) == ["topic flights, version 1: /properties/at/format"]
