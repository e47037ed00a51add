"""What makes the messages: a function of a module, or a query of Spark SQL."""

from __future__ import annotations

import hashlib
import importlib
import socket
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING

from relaybox.errors import ConfigurationError, DerivationChanged

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from relaybox.routes import Derivation


@dataclass(frozen=True)
class SourceText:
    """What the store keeps of a source, and where its text is read again.

    Attributes:
        name: package.module:function, or sql.
        digest: of the text of its modules, or of the query.
        modules: whose text it is; none: a query, which can't change.
    """

    name: str
    digest: str
    modules: tuple[str, ...] = ()

    def require_unchanged(self, route: str) -> None:
        """Refuses a text that is another one here and now. A machine without these modules has nothing to compare.

        Raises:
            DerivationChanged: with the machine.
        """
        try:
            found = _digest_of_modules(self.modules)
        except OSError as error:
            raise DerivationChanged(
                f"route {route}: the text of {' and '.join(self.modules)} at {socket.gethostname()} can't be read any more: {error}. "
                "Nothing of this attempt was sent.",
                next_step="Put it back on each machine, and run it again.",
            ) from error
        if found is not None and found != self.digest:
            raise DerivationChanged(
                f"route {route}: the text of {' and '.join(self.modules)} at {socket.gethostname()} has digest {found[:12]}, and this run "
                f"began with {self.digest[:12]}: it was changed meanwhile. Nothing of this attempt was sent.",
                next_step="Put the same text on each machine, give it a higher version if its messages change, and run it again.",
            )


@dataclass(frozen=True)
class Source:
    """A function of DataFrames, and its text."""

    text: SourceText
    derive: Callable[[DataFrame], DataFrame]

    @property
    def name(self) -> str:
        return self.text.name

    @property
    def digest(self) -> str:
        return self.text.digest


WHERE_IT_HAS_TO_BE = (
    "Spark's driver, its executors, and who promotes a trial import it. Install its package there, put its folder into PYTHONPATH, or "
    "name its file in spark.submit.pyFiles, for the driver and the executors: docs/deriving.md, Where the module has to be."
)

_imported: dict[str, str] = {}
"""Digest of the text of a module when this process first took a function of it. Python does not read it again."""


def load_source(derivation: Derivation, *, route: str) -> Source:
    """Imports the function, or takes the query. Digests the text of the module, or of the query.

    Raises:
        ConfigurationError: there is no such module or function, or its import fails.
        DerivationChanged: this process has imported an earlier text of the module.
    """
    if derivation.sql is not None:
        return Source(SourceText("sql", _digest(derivation.sql.encode())), _query(derivation.stream, derivation.sql))
    where = f"relaybox.yaml: routes.{route}.{derivation.key}.with: {derivation.function}"
    module_name, _, name = (derivation.function or "").partition(":")
    try:
        module = importlib.import_module(module_name)
    except Exception as error:  # whatever the module does when it is imported
        raise ConfigurationError(
            f"{where}: the import of {module_name} failed: {type(error).__name__}: {str(error).rstrip('.')}.",
            next_step=WHERE_IT_HAS_TO_BE,
        ) from error
    function = getattr(module, name, None)
    if not callable(function):
        raise ConfigurationError(f"{where}: {module_name} has no function {name}.", next_step="Correct the name.")
    # the named module too: it has the arguments of functools.partial, or the function that a decorator got
    modules = tuple(dict.fromkeys((module_name, str(getattr(function, "__module__", None) or module_name))))
    digest = _digest_of_modules(modules)
    if digest is None:
        raise ConfigurationError(f"{where}: the module has no file.", next_step="Put the function into a file.")
    if (known := _imported.setdefault(" ".join(modules), digest)) != digest:
        raise DerivationChanged(
            f"{where}: its text has digest {digest[:12]}, and this process has imported the text with digest {known[:12]}, which Python "
            "does not read again.",
            next_step="Restart the process: the notebook, the shell, or the server that runs it.",
        )
    return Source(SourceText(str(derivation.function), digest, modules), function)


def _query(stream: str, sql: str) -> Callable[[DataFrame], DataFrame]:
    def derive(messages: DataFrame) -> DataFrame:
        messages.createOrReplaceTempView(f"`{stream}`")
        return messages.sparkSession.sql(sql)

    return derive


def _digest_of_modules(modules: Iterable[str]) -> str | None:
    """Of their texts; None: there are none here."""
    texts = [text for name in modules if (text := _text(name)) is not None]
    return _digest(b"".join(texts)) if texts else None


def _text(module: str) -> bytes | None:
    """Of its file, which may be within an archive; None: it has none here."""
    try:
        spec = sys.modules[module].__spec__ if module in sys.modules else find_spec(module)
    except (ImportError, ValueError):
        return None
    read = getattr(getattr(spec, "loader", None), "get_data", None)
    if spec is None or read is None or not spec.origin:
        return None
    text: bytes = read(spec.origin)
    return text


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
