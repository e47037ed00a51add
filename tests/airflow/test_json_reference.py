"""docs/json.md is what the models of the answers say."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from relaybox.documents.answers import ANSWERS
from relaybox.documents.consumers import MessageDocument
from relaybox.documents.errors import ErrorDocument
from relaybox.documents.reference import definitions_of, describe_documents, describe_requests, link_to

REFERENCE = Path(__file__).parents[2] / "docs/json.md"

COMMANDS = """# JSON answers

`make json-reference` writes this page from the models in `relaybox.documents`; a test compares them.

Times are ISO 8601 in UTC. Every member of an answer is always there; what is unknown, or has not happened, is `null`.

## Commands

With `--json` a command writes one document to stdout. A command that fails writes [ErrorDocument](#errordocument) instead.
`relaybox consume` writes one [MessageDocument](#messagedocument) a line.

| command | document |
|---|---|"""

API = """
## The API of the page in Airflow

Below `/relaybox` of Airflow's API server, with Airflow's login and rights. `/relaybox/openapi.json` is its OpenAPI document, and
`/relaybox/docs` shows it. A request that is refused gets a [RefusalDocument](#refusaldocument).
"""


def _reference(openapi: Any) -> str:
    models = [model for answers in ANSWERS.values() for model in answers]
    commands = [f"| `relaybox {name}` | {' or '.join(link_to(one.__name__) for one in ANSWERS[name])} |" for name in ANSWERS]
    definitions = {**definitions_of([*models, MessageDocument, ErrorDocument]), **openapi["components"]["schemas"]}
    documents = describe_documents(definitions)
    return "\n".join([COMMANDS, *commands, API, *describe_requests(openapi), "\n## Documents", *documents]) + "\n"


def test_the_reference_of_the_json_answers_is_current() -> None:
    """A change of an answer reads as its diff. UPDATE_JSON_REFERENCE=1 writes it."""
    from relaybox.airflow.page.app import build_app  # imports Airflow

    reference = _reference(build_app().openapi())
    if os.environ.get("UPDATE_JSON_REFERENCE") == "1":
        REFERENCE.write_text(reference, encoding="utf-8")
    assert REFERENCE.read_text(encoding="utf-8") == reference, "run: make json-reference"
