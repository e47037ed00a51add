"""The rules of a route's section `spark`: which settings of Spark may stand there, and which routes have to agree."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from relaybox.routes.problems import Problem, show_name
from relaybox.routes.raw_values import member
from relaybox.routes.retention_rules import detaching_stores

SPARK_CONN_ID = "spark_default"
DEPLOY_MODES = ("client", "cluster")

_SETTING = re.compile(r"spark\.[A-Za-z0-9_./-]{1,200}")
_SECRET_NAME = re.compile(r"secret|password|token|access[.]?key|credential(?!s\.provider)", re.IGNORECASE)
"""As spark.redaction.regex, with credentials."""

_REFERENCE = re.compile(r"\.secretKeyRef\.|\.secrets\.|\.?file$", re.IGNORECASE)
"""Names whose value says where a secret is: a file, or a secret of Kubernetes."""

_SECRET_VALUE = re.compile(r"://[^/\s@]+@|(password|passwd|secret|token)\s*=", re.IGNORECASE)
_VALUE = re.compile(r"[^\x00-\x1f\x7f]{0,4000}")

_KEYS = {
    "spark.app.name": "no name of the application: Relaybox names it by route and task",
    "spark.master": "the key conn_id: the connection leads to the master",
    "spark.python.daemon.module": "no other module: Relaybox sets its own",
    "spark.remote": "the key conn_id, with a connection of type spark_connect",
    "spark.submit.deployMode": "the key deploy_mode",
    "spark.yarn.queue": "the key queue",
}
"""Settings that have a key of their own, or that Relaybox sets."""

_SECRETS_BELONG = "no secret in this file: set it in spark-defaults.conf where Spark starts, or on the Spark Connect server"


def broken_setting_name(name: object) -> str | None:
    """The rule that the name of a Spark setting breaks; None: none."""
    if not isinstance(name, str) or not _SETTING.fullmatch(name):
        return "the name of a Spark setting, such as spark.executor.memory"
    if name in _KEYS:
        return _KEYS[name]
    if _SECRET_NAME.search(name) and not _REFERENCE.search(name):
        return _SECRETS_BELONG
    return None


def broken_setting_value(value: object) -> str | None:
    """The rule that the value of a Spark setting breaks; None: none."""
    if not isinstance(value, str) or not _VALUE.fullmatch(value):
        return 'a text of at most 4000 characters in one line, in quotes, such as "4" or "true"'
    return _SECRETS_BELONG if _SECRET_VALUE.search(value) else None


def spark_contradictions(stores: Mapping[str, object], routes: Mapping[str, object]) -> Iterator[Problem]:
    """One task detaches all logs of a store, so the routes that let it detach there have one section spark."""
    first: dict[str, str] = {}
    for name, route in routes.items():
        for store in detaching_stores(route, stores):
            other = first.setdefault(store, name)
            if _section(route) != _section(routes[other]):
                text = (
                    f"differs from that of route {show_name(other)}; expected the same: "
                    f"one task detaches the logs of both in store {show_name(store)}"
                )
                yield Problem(("routes", name, "spark"), text)
                break


def _section(route: object) -> dict[Any, Any]:
    section = member(route, "spark")
    return {key: value for key, value in section.items() if value is not None} if isinstance(section, dict) else {}
