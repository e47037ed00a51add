"""docs/json.md is what the models of the answers say."""

from __future__ import annotations

import os
from pathlib import Path

from tests.json_reference import json_reference

REFERENCE = Path(__file__).parents[2] / "docs/json.md"


def test_the_reference_of_the_json_answers_is_current() -> None:
    """A change of an answer reads as its diff. UPDATE_JSON_REFERENCE=1 writes it."""
    from relaybox.airflow.page.app import build_app  # imports Airflow

    reference = json_reference(build_app().openapi())
    if os.environ.get("UPDATE_JSON_REFERENCE") == "1":
        REFERENCE.write_text(reference, encoding="utf-8")
    assert REFERENCE.read_text(encoding="utf-8") == reference, "run: make json-reference"
