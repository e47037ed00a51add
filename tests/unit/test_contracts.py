"""Schemas of topics: what is read, what is refused, and the AsyncAPI document."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import yaml
from jsonschema import Draft7Validator

from relaybox.contracts.asyncapi import build_asyncapi
from relaybox.contracts.topic_schemas import SchemaViolation, TopicSchemas
from relaybox.errors import ConfigurationError
from relaybox.routes import Routes, load_routes
from tests.support.cli import invoke
from tests.support.postgres_versions import HERE

DOCS = Path(__file__).parents[2] / "docs"
FLIGHT = {"type": "object", "properties": {"seats": {"type": "integer"}}, "required": ["seats"]}


@pytest.fixture
def routes() -> Routes:
    return load_routes(DOCS / "examples" / "relaybox.yaml")


@pytest.fixture
def schemas(routes: Routes) -> TopicSchemas:
    return TopicSchemas.read(routes.schemas, routes.path.parent)


def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: dict[str, str], schemas: object) -> None:
    """A relaybox.yaml in the working directory, with these files beside it."""
    monkeypatch.chdir(tmp_path)
    document = {
        "stores": {"airline": {}, "hub": {}},
        "routes": {"flights": {"topics": ["flights"], "path": ["airline", "hub"]}},
        "schemas": schemas,
    }
    (tmp_path / "relaybox.yaml").write_text(yaml.safe_dump(document))
    for name, text in files.items():
        (tmp_path / name).write_text(text)


@pytest.mark.parametrize("payload", [{"number": "UA 1"}, '{"number": "UA 1"}', b'{"number": "UA 1"}'])
def test_a_message_that_its_schema_takes_gets_the_version_in_its_headers(schemas: TopicSchemas, payload: object) -> None:
    assert schemas.require("flights", payload) == {"schema_version": 2}
    assert schemas.require("flights", payload, version=1, headers={"trace": "7"}) == {"trace": "7", "schema_version": 1}
    assert schemas.require("invoices", payload, headers={"trace": "7"}) == {"trace": "7"}


@pytest.mark.parametrize(
    ("payload", "told"),
    [
        ({"seats": 3}, "topic flights, schema version 2: the payload: 'number' is a required property"),
        ({"number": "UA 1", "seats": -1}, "topic flights, schema version 2: /seats: -1 is less than the minimum of 0"),
        ("{", "topic flights, schema version 2: the payload: it is no JSON: "),
        (b"\xff", "topic flights, schema version 2: the payload: it is no JSON: "),
    ],
)
def test_a_message_that_its_schema_refuses_is_told_with_the_place(schemas: TopicSchemas, payload: object, told: str) -> None:
    with pytest.raises(SchemaViolation) as refused:
        schemas.require("flights", payload)
    assert str(refused.value).startswith(told)


def test_a_version_that_there_is_not_is_refused(schemas: TopicSchemas) -> None:
    with pytest.raises(ConfigurationError, match=r"topic flights has no schema version 3; expected one of: 1, 2\."):
        schemas.require("flights", {}, version=3)


@pytest.mark.parametrize(
    ("files", "told"),
    [
        ({}, "schema version 1 of topic flights: .*flights.json can't be read: No such file"),
        ({"flights.json": "{"}, "schema version 1 of topic flights: .* is no JSON"),
        ({"flights.json": '{"type": "flight"}'}, "schema version 1 of topic flights: /type: 'flight' is not valid"),
        ({"flights.json": f'"{"x" * 2**20}"'}, "is larger than 1 MiB"),
    ],
    ids=["missing", "no JSON", "no schema", "too large"],
)
def test_a_wrong_file_is_told_by_the_commands_that_read_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: dict[str, str], told: str
) -> None:
    """And stops no other command: the file is not read when relaybox.yaml is."""
    write(tmp_path, monkeypatch, files, {"flights": ["flights.json"]})
    assert load_routes().schemas == {"flights": ("flights.json",)}
    for command in ("schemas", "asyncapi"):
        run = invoke(command)
        assert run.exit_code == 2
        with pytest.raises(AssertionError, match=told):
            raise AssertionError(" ".join(run.stderr.split()))


@pytest.mark.parametrize(
    ("schemas", "told"),
    [
        (
            {"fligths": ["a.json"]},
            "schemas.fligths: no route has topic fligths; expected a topic of a route. Did you mean flights?",
        ),
        ({"flights": ["a.json", "a.json"]}, 'got "a.json", which is version 1 too; expected a file of its own for each version'),
        ({"flights": []}, "schemas.flights: got a list of 0; expected a list of one or more files"),
        ({"flights": "a.json"}, "schemas.flights: "),
        ({"flights": ["a b.json"]}, "schemas.flights[0]: "),
        (["flights"], "expected a section with one entry per topic"),
    ],
)
def test_a_wrong_section_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, schemas: object, told: str) -> None:
    write(tmp_path, monkeypatch, {}, schemas)
    with pytest.raises(ConfigurationError) as refused:
        load_routes()
    assert told in str(refused.value)


def test_a_version_that_breaks_a_replay_is_an_error_of_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {"1.json": json.dumps({**FLIGHT, "required": []}), "2.json": json.dumps(FLIGHT)}
    write(tmp_path, monkeypatch, files, {"flights": ["1.json", "2.json"]})
    run = invoke("schemas")
    assert run.exit_code == 1
    assert run.stdout.splitlines() == ["topic flights, version 1: 1.json", "topic flights, version 2: 2.json"]
    assert run.stderr.startswith(
        "error: topic flights, version 2 after 1: /seats: it is required now, and earlier messages may be without it. "
    )
    found = json.loads(invoke("schemas", "--json").stdout)
    assert found["breaks"] == [
        {
            "topic": "flights",
            "before": 1,
            "after": 2,
            "at": "/seats",
            "reason": "it is required now, and earlier messages may be without it",
        }
    ]
    write(tmp_path, monkeypatch, files, {"flights": ["2.json", "1.json"]})
    assert invoke("schemas").exit_code == 0


def test_without_the_package_the_commands_say_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, monkeypatch, {"flights.json": "{}"}, {"flights": ["flights.json"]})
    monkeypatch.setitem(sys.modules, "jsonschema.exceptions", None)
    run = invoke("schemas")
    assert run.exit_code == 2
    assert "pip install 'relaybox[schemas]'" in run.stderr


def test_the_asyncapi_document_names_topics_stores_and_versions(routes: Routes, schemas: TopicSchemas) -> None:
    document = build_asyncapi(routes, schemas, title="Flights", version="2.0.0")
    assert set(document["channels"]) == {topic for route in routes.routes.values() for topic in route.topics}
    flights = document["channels"]["flights"]
    assert set(flights["messages"]) == {"flights.v1", "flights.v2"}
    assert document["servers"]["airline"]["host"] == routes.store("airline").service
    sent, *received = [name for name in document["operations"] if ".flights." in name]
    assert (sent, received) == ("send.flights.airline", ["receive.flights.flights.hub", "receive.flights.flights.analytics"])
    assert document["components"]["messages"]["flights.v2"]["payload"]["schema"] == schemas.documents["flights"][2]


def test_names_of_messages_do_not_meet(tmp_path: Path) -> None:
    """A topic may be called like a version of another one, or end like a topic without schemas."""
    topics = ["a", "a.v1", "a.v1.v2", "a.any", "a.any.any", "b", "b.any"]
    path = tmp_path / "relaybox.yaml"
    routes = {"flights": {"topics": topics, "path": ["airline", "hub"]}}
    path.write_text(yaml.safe_dump({"stores": {"airline": {}, "hub": {}}, "routes": routes}))
    read = TopicSchemas({"a": {1: FLIGHT, 2: FLIGHT}, "a.v1.v2": {3: FLIGHT}})
    document = build_asyncapi(load_routes(path), read, title="Flights", version="1")
    components, channels = document["components"]["messages"], document["channels"]
    assert len(components) == 3 + 5
    assert [name for topic in sorted(topics) for name in channels[topic]["messages"]] == list(components)
    assert [components[name]["name"] for name in components] == list(components)
    for topic in topics:
        have_schemas = ["payload" in components[name] for name in channels[topic]["messages"]]
        assert have_schemas == ([True for _ in read.documents.get(topic, {})] or [False])


def test_the_asyncapi_document_says_where_a_payload_is_checked(routes: Routes) -> None:
    read = TopicSchemas({"flights": {1: FLIGHT, 2: {"if": {}}}})
    messages = build_asyncapi(routes, read, title="Flights", version="2.0.0")["components"]["messages"]
    assert messages["flights.v1"]["description"] == (
        'In stores where the script of `relaybox schemas --sql` was run, topic_schemas."flights.v1"(payload) says what is wrong '
        "with a payload."
    )
    assert messages["flights.v2"]["description"].startswith(
        "Producers check it. Postgres can't: topic flights, schema version 2: /if: this keyword can't be checked in SQL."
    )


def test_the_command_writes_yaml_and_json_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RELAYBOX_CONFIG", str(DOCS / "examples" / "relaybox.yaml"))
    as_yaml, as_json = invoke("asyncapi"), invoke("asyncapi", "--format", "json")
    assert yaml.safe_load(as_yaml.stdout) == json.loads(as_json.stdout)
    assert "*id" not in as_yaml.stdout, "no alias: people read it, and copy parts of it"


@pytest.mark.thorough
def test_the_document_is_valid_by_the_schema_of_asyncapi(routes: Routes, schemas: TopicSchemas) -> None:
    """Of the npm package @asyncapi/specs; make postgres-versions installs it."""
    specification = json.loads((HERE / "node_modules" / "@asyncapi" / "specs" / "schemas" / "3.0.0-without-$id.json").read_text())
    document = build_asyncapi(routes, schemas, title="Flights", version="2.0.0")
    for known in (schemas, TopicSchemas({})):
        document = build_asyncapi(routes, known, title="Flights", version="2.0.0")
        assert [str(error) for error in Draft7Validator(specification).iter_errors(document)] == []
    broken = {**document, "operations": {"x": {"action": "shout"}}}
    assert list(Draft7Validator(specification).iter_errors(broken))
