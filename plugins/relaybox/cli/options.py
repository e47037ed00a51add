"""Options that many commands share, and the output of a command with one result."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from relaybox.cli.printable import print_text

if TYPE_CHECKING:
    from relaybox.documents.document import Document

AS_JSON = "relaybox.as_json"
"""Key in a command's context: the user asked for JSON, so errors are written as JSON too."""


def _remember(context: typer.Context, as_json: bool) -> bool:  # typer passes it by position
    context.meta[AS_JSON] = as_json
    return as_json


AsJson = Annotated[bool, typer.Option("--json", help="Write one JSON document to stdout.", callback=_remember)]


def answer(text: str, document: Document, *, as_json: bool) -> None:
    """Prints the result: as text, or with --json as a document."""
    if not as_json:
        print_text(text)
        return
    from relaybox.documents.document import write

    write(document)
