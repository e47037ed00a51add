"""Text that a store, a log and a page can take: requests with any other are refused at the door."""

from __future__ import annotations

from fastapi import HTTPException, Request, status

NOT_PLAIN = "A NUL character, or half of a surrogate pair, is no text."


def is_plain(value: str) -> bool:
    return "\0" not in value and not any("\ud800" <= character <= "\udfff" for character in value)


async def refuse_odd_text(request: Request) -> None:
    """The third dependency of every route: what its path and its query hold is text."""
    values = (*map(str, request.path_params.values()), *(text for pair in request.query_params.multi_items() for text in pair))
    if not all(map(is_plain, values)):
        raise HTTPException(status.HTTP_422_UNPROCESSABLE_CONTENT, NOT_PLAIN)


def printable(value: str) -> str:
    """The text with a question mark for what is none."""
    return value.encode("utf-8", "replace").decode("utf-8").replace("\0", "?")
