"""Finds everything that is wrong in a relaybox.yaml: values that break the rule of their key, and values that contradict each other.

pydantic checks each value by itself (routes.rules). The rules of each section (routes.route_rules and its neighbours) compare values with
each other. Both look at the values as they were read, so that a problem in one place hides none in another.
"""

from collections.abc import Iterator

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from relaybox.errors import ConfigurationError
from relaybox.routes.adopt_rules import adopt_contradictions
from relaybox.routes.derive_rules import derive_contradictions
from relaybox.routes.export_rules import export_contradictions
from relaybox.routes.file import SMALLEST_FILE, RouteFile
from relaybox.routes.payload_rules import payload_contradictions
from relaybox.routes.problems import Location, Problem, report, show
from relaybox.routes.raw_values import entries
from relaybox.routes.retention_rules import retention_contradictions
from relaybox.routes.route_rules import route_contradictions
from relaybox.routes.rules import (
    AdoptRules,
    DeriveRules,
    ExportRules,
    FileRules,
    KafkaRules,
    LimitsRules,
    NextRules,
    PayloadRules,
    RetentionRules,
    RetriesRules,
    RouteRules,
    Rules,
    SchemaCheckRules,
    SparkRules,
    StoreRules,
    WatchRules,
    WebhookRules,
    fields_of,
)
from relaybox.routes.schema_rules import schema_contradictions
from relaybox.routes.sink_rules import sink_contradictions
from relaybox.routes.spark_rules import spark_contradictions
from relaybox.routes.store_rules import store_contradictions
from relaybox.routes.stream_rules import stream_contradictions
from relaybox.routes.watch_rules import watch_contradictions


def check_rules(file: RouteFile) -> FileRules:
    """The values of a file that breaks no rule.

    Raises:
        ConfigurationError: names every problem of the file, those found while it was read included.
    """
    problems = [*file.problems, *_contradictions(file.document)]
    try:
        rules = FileRules.model_validate(file.document)
    except ValidationError as error:
        problems += [_problem(details) for details in error.errors(include_url=False)]
    if problems:
        raise ConfigurationError(report(file.path, problems, file.lines))
    return rules


def _contradictions(document: object) -> Iterator[Problem]:
    """What is wrong between values, each of which may be right by itself. Values of a wrong kind are pydantic's business."""
    stores, routes = entries(document, "stores"), entries(document, "routes")
    yield from store_contradictions(stores)
    yield from route_contradictions(stores, routes)
    yield from retention_contradictions(stores, routes)
    yield from stream_contradictions(routes)
    yield from watch_contradictions(stores, routes)
    yield from spark_contradictions(stores, routes)
    yield from derive_contradictions(routes)
    yield from export_contradictions(stores, routes, entries(document, "exports"))
    yield from schema_contradictions(routes, entries(document, "schemas"), entries(document, "schema_checks"))
    for section in ("webhooks", "kafka"):
        yield from sink_contradictions(stores, routes, section, entries(document, section))
    yield from payload_contradictions(entries(document, "payloads"))
    yield from adopt_contradictions(stores)


def _problem(error: ErrorDetails) -> Problem:
    """pydantic's finding in our words; the value of an unknown key is not shown, since it may be a secret."""
    location = error["loc"]
    if error["type"] == "extra_forbidden":
        known = fields_of(_rules_of(location[:-1]))
        return Problem(location, "unknown key", unknown=str(location[-1]), known=known)
    if error["type"] == "rule":
        return Problem(_without_key_mark(location), f"got {_show_found(location, error['input'])}; expected {error['msg']}")
    if not location:
        found = "empty" if error["input"] is None else f"got {show(error['input'])}"
        return Problem((), f"{found}; expected the sections stores and routes. {SMALLEST_FILE}")
    rule = fields_of(_rules_of(location[:-1]))[str(location[-1])].description
    found = "missing" if error["type"] == "missing" else f"got {_show_found(location, error['input'])}"
    return Problem(location, f"{found}; expected {rule}")


def _show_found(location: Location, value: object) -> str:
    """Nothing of a text below `secrets`: somebody wrote the secret itself there."""
    return "a text (not shown)" if "secrets" in location and isinstance(value, str) else show(value)


def _without_key_mark(location: Location) -> Location:
    """pydantic writes ("stores", "Hub", "[key]") where the key itself of a mapping is wrong."""
    return location[:-1] if location[-1:] == ("[key]",) else location


def _rules_of(section: Location) -> type[Rules]:
    if not section:
        return FileRules
    if len(section) == 2:
        return _ENTRIES[str(section[0])]
    return AdoptRules if section[2:3] == ("adopt",) else _SECTIONS[str(section[-1])]


_ENTRIES: dict[str, type[Rules]] = {
    "stores": StoreRules,
    "routes": RouteRules,
    "exports": ExportRules,
    "schema_checks": SchemaCheckRules,
    "webhooks": WebhookRules,
    "kafka": KafkaRules,
    "payloads": PayloadRules,
}

_SECTIONS: dict[str, type[Rules]] = {
    "limits": LimitsRules,
    "retries": RetriesRules,
    "retention": RetentionRules,
    "watch": WatchRules,
    "spark": SparkRules,
    "derive": DeriveRules,
    "next": NextRules,
}
