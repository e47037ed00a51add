"""Which failures of a Spark driver are worth a retry; asked in the worker after each failed attempt."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from airflow.sdk import RetryDecision, RetryPolicy

if TYPE_CHECKING:
    from airflow.sdk import Context

TERMINAL_EXIT_CODES = {65: "a retry gives the same error", 78: "the configuration is wrong"}
"""Exit codes of the applications in spark_apps/ (sysexits.h: EX_DATAERR, EX_CONFIG)."""

_EXIT_CODE = re.compile(r"Error code is: (-?\d+)")


class DriverExitPolicy(RetryPolicy):
    """Fails at once when the driver's exit code says so. All else, a killed driver too, is retried with the task's delays."""

    def evaluate(
        self, exception: BaseException, try_number: int, max_tries: int, context: Context | None = None
    ) -> RetryDecision:
        found = _EXIT_CODE.search(str(exception))
        reason = TERMINAL_EXIT_CODES.get(int(found[1])) if found else None
        return RetryDecision.fail(reason=reason) if reason else RetryDecision.default()

    def serialize(self) -> dict[str, Any]:
        return {"__type": f"{type(self).__module__}.{type(self).__qualname__}"}

    @classmethod
    def deserialize(cls, data: dict[str, Any]) -> DriverExitPolicy:
        return cls()
