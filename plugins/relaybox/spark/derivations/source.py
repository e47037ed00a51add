"""What makes the messages: a function of a module, or a query of Spark SQL."""

from __future__ import annotations

import hashlib
import importlib
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from relaybox.errors import ConfigurationError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from relaybox.routes import Derivation


@dataclass(frozen=True)
class Source:
    """A function of DataFrames, with the name and the digest that the store keeps of it."""

    name: str
    digest: str
    derive: Callable[[DataFrame], DataFrame]


def load_source(derivation: Derivation, *, route: str) -> Source:
    """Imports the function, or takes the query. Digests the text of the module, or of the query.

    Raises:
        ConfigurationError: there is no such module or function, or its import fails.
    """
    if derivation.sql is not None:
        return Source("sql", _digest(derivation.sql.encode()), _query(derivation.stream, derivation.sql))
    where = f"relaybox.yaml: routes.{route}.{derivation.key}.with: {derivation.function}"
    module_name, _, name = (derivation.function or "").partition(":")
    try:
        module = importlib.import_module(module_name)
    except Exception as error:  # whatever the module does when it is imported
        raise ConfigurationError(
            f"{where}: the import of {module_name} failed: {type(error).__name__}: {str(error).rstrip('.')}.",
            next_step="Install its package where Spark's driver and executors run, or put its folder into PYTHONPATH of both.",
        ) from error
    function = getattr(module, name, None)
    if not callable(function):
        raise ConfigurationError(f"{where}: {module_name} has no function {name}.", next_step="Correct the name.")
    # the named module too: it has the arguments of functools.partial, or the function that a decorator got
    modules = dict.fromkeys((module, sys.modules.get(getattr(function, "__module__", module_name), module)))
    files = [file for one in modules if (file := getattr(one, "__file__", None)) is not None]
    if not files:
        raise ConfigurationError(f"{where}: the module has no file.", next_step="Put the function into a file.")
    return Source(str(derivation.function), _digest(b"".join(Path(file).read_bytes() for file in files)), function)


def _query(stream: str, sql: str) -> Callable[[DataFrame], DataFrame]:
    def derive(messages: DataFrame) -> DataFrame:
        messages.createOrReplaceTempView(f"`{stream}`")
        return messages.sparkSession.sql(sql)

    return derive


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
