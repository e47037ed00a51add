"""Log events: a name and fields, one line, `event key=value ...`. docs/operations.md lists them."""

from __future__ import annotations

import logging

logger = logging.getLogger("relaybox")


def emit(event: str, **fields: object) -> None:
    """Writes one event at level INFO. Fields keep their order; floats get three digits; texts with spaces are quoted."""
    logger.info("%s", " ".join([event, *(f"{name}={_show(value)}" for name, value in fields.items())]))


def _show(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.3f}"
    text = str(value)
    return f'"{text}"' if " " in text or not text else text
