"""Log events: a name and fields, one line, `event key=value ...`. docs/monitoring.md lists them."""

from __future__ import annotations

import logging
from collections.abc import Mapping

logger = logging.getLogger("relaybox")


def emit(event: str, **fields: object) -> None:
    """Writes one event at level INFO. Fields keep their order; floats get three digits; texts with spaces are quoted."""
    logger.info("%s", _line(event, fields))


def warn(event: str, **fields: object) -> None:
    """The same at level WARNING: a person has to act."""
    logger.warning("%s", _line(event, fields))


def _line(event: str, fields: Mapping[str, object]) -> str:
    return " ".join([event, *(f"{name}={_show(value)}" for name, value in fields.items())])


def _show(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.3f}"
    text = str(value)
    return f'"{text}"' if " " in text or not text else text
