"""Options that many commands have, and the answer of a command that does one thing."""

from __future__ import annotations

from typing import Annotated, Any

import typer

AsJson = Annotated[bool, typer.Option("--json", help="Write one JSON document to stdout.")]


def answer(text: str, document: dict[str, Any], *, as_json: bool) -> None:
    """Prints what was done: in words, or with --json as a document."""
    if not as_json:
        print(text)
        return
    from relaybox.monitoring import documents

    documents.write(document)
