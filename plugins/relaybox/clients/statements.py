"""Statements with {names}, and how each library writes their parameters."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from typing import Any, Literal

Style = Literal["pyformat", "format", "numeric_dollar", "named"]
"""Of a parameter: `%(name)s`, `%s`, `$1`, `:name`; the names are SQLAlchemy's."""

_NAME = re.compile(r"\{(\w+)\}")


@functools.cache
def render(statement: str, style: Style) -> tuple[str, tuple[str, ...] | None]:
    """The statement as a library takes it, and the names of its values in their order, or None where they are given by name."""
    if style == "pyformat":
        return _NAME.sub(r"%(\1)s", statement), None
    if style == "named":
        return _NAME.sub(r":\1", statement), None
    found = _NAME.findall(statement)
    if style == "format":
        return _NAME.sub("%s", statement), tuple(found)
    names = tuple(dict.fromkeys(found))
    return _NAME.sub(lambda match: f"${names.index(match[1]) + 1}", statement), names


def arguments(names: tuple[str, ...] | None, values: Mapping[str, object]) -> Any:
    """The values as the library takes them beside the statement of render()."""
    return dict(values) if names is None else tuple(values[name] for name in names)
