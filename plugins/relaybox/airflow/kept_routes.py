"""The last good relaybox.yaml, kept in a Variable of Airflow: every component can read it, on every machine.

`relaybox_watch` writes it, if the file changed and is good. It holds no secret: relaybox.yaml has none.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from airflow.sdk import Variable
from airflow.sdk.exceptions import AirflowException

from relaybox.errors import ConfigurationError
from relaybox.log_events import emit
from relaybox.routes import Routes, parse_routes

VARIABLE = "relaybox_last_good_routes"


@dataclass(frozen=True)
class KeptRoutes:
    """`kept_at`: when the file was good for the first time with this text, in UTC."""

    routes: Routes
    kept_at: str


def keep_routes(routes: Routes) -> bool:
    """Keeps the text of these routes; returns whether it differs from what was kept. Called in a task."""
    kept = Variable.get(VARIABLE, default=None, deserialize_json=True)
    if isinstance(kept, dict) and kept.get("text") == routes.text:
        return False
    now = datetime.now(UTC).isoformat(timespec="seconds")
    value = {"text": routes.text, "path": str(routes.path), "kept_at": now}
    description = "The last good relaybox.yaml: DAGs are built from it while the file is wrong or not there."
    Variable.set(VARIABLE, value, description=description, serialize_json=True)
    emit("routes_kept", path=routes.path)
    return True


def read_kept_routes(path: Path, problem: ConfigurationError) -> KeptRoutes:
    """The routes that were kept, when the file at `path` has this problem.

    Raises:
        ConfigurationError: `problem`, with why there are none.
    """
    try:
        kept = Variable.get(VARIABLE, default=None)
        if kept is None:
            raise problem
        return _parse(kept, path)
    except (AirflowException, ConfigurationError) as error:
        if error is problem:
            raise
        raise ConfigurationError(f"{problem}\nThe last good file can't be used either: {error}") from problem


def _parse(kept: str, path: Path) -> KeptRoutes:
    try:
        value = json.loads(kept)
    except ValueError:
        value = None
    if not isinstance(value, dict) or not isinstance(value.get("text"), str):
        raise ConfigurationError(f"Variable {VARIABLE} is not what relaybox_watch writes.", next_step="Delete it.")
    routes = parse_routes(value["text"], Path(f"Variable {VARIABLE}"))  # which its problems name
    return KeptRoutes(replace(routes, path=path), str(value.get("kept_at")))
