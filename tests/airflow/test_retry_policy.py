"""Which failed attempts are worth another."""

from __future__ import annotations

import pytest
from airflow.sdk import RetryAction
from airflow.sdk.exceptions import AirflowException

from relaybox.airflow.retry_policy import TERMINAL_EXIT_CODES, DriverExitPolicy
from relaybox.spark.application import EXIT_CONFIGURATION, EXIT_TERMINAL, EXIT_TRANSIENT


def decide(code: int) -> RetryAction:
    """What the policy says of the error that the Spark hook raises for an exit code."""
    error = AirflowException(
        f"Cannot execute: spark-submit --hop flights/1. Error code is: {code}.\nLast spark-submit output:\nx"
    )
    return DriverExitPolicy().evaluate(error, 1, 5).action


@pytest.mark.parametrize("code", [EXIT_TERMINAL, EXIT_CONFIGURATION])
def test_a_terminal_error_of_the_driver_is_not_retried(code: int) -> None:
    """65 and 78 fail on the first attempt."""
    assert decide(code) is RetryAction.FAIL


@pytest.mark.parametrize("code", [EXIT_TRANSIENT, 1, 137, -9])
def test_all_else_is_retried_with_the_tasks_delays(code: int) -> None:
    """A transient error, a crash, and a killed driver or JVM."""
    assert decide(code) is RetryAction.DEFAULT


def test_an_error_before_the_driver_started_is_retried() -> None:
    """An error without an exit code is classified by its class alone, elsewhere."""
    assert DriverExitPolicy().evaluate(OSError("no spark-submit"), 1, 5).action is RetryAction.DEFAULT


def test_the_policy_knows_the_drivers_terminal_codes() -> None:
    """The two sides cannot import each other; this keeps them equal."""
    assert set(TERMINAL_EXIT_CODES) == {EXIT_TERMINAL, EXIT_CONFIGURATION}


def test_the_policy_survives_serialization() -> None:
    """The DAG loads only if its retry policy can be written down."""
    data = DriverExitPolicy().serialize()
    assert data == {"__type": "relaybox.airflow.retry_policy.DriverExitPolicy"}
    assert isinstance(DriverExitPolicy.deserialize(data), DriverExitPolicy)
