"""A password that changes, or a token that expires, between the steps of a batch costs a retry at most, and no message."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from relaybox import errors
from relaybox.airflow.service_file import service_file
from relaybox.hops.runners import ThreadRunner
from relaybox.hops.transfer import Progress, transfer_hop
from relaybox.routes import Store
from relaybox.spark.runner import SparkRunner
from relaybox.spark.tasks import ContextSession
from relaybox.verification.route_verification import verify_route
from tests.airflow.rotating_logins import RotatingLogin, rotating_login
from tests.support.spark_session import spark_session
from tests.support.world import STORES, World

pytestmark = pytest.mark.thorough

ALL = [Store(name=store, service=store, connection=f"relaybox_{store}") for store in STORES]

MOMENTS: dict[str, Callable[[Progress], bool]] = {
    "planned": lambda progress: progress.copied == 0 and not progress.published,
    "copied": lambda progress: progress.copied == progress.row_count and not progress.published,
    "published": lambda progress: progress.published,
}


@pytest.fixture
def login(connected: World, monkeypatch: pytest.MonkeyPatch) -> Iterator[RotatingLogin]:
    with rotating_login(monkeypatch) as login:
        yield login


def expire(login: RotatingLogin) -> None:
    """As a token: the server takes it no longer, and what is open stays open."""
    login.alter("valid until 'yesterday'")


def rotate(login: RotatingLogin) -> None:
    login.change_password()
    login.tell_airflow()


def rotate_late(login: RotatingLogin) -> None:
    """The secrets backend has the new password later than the servers."""
    login.change_password()


def rotate_and_end(login: RotatingLogin) -> None:
    rotate(login)
    login.end_sessions()


def lock_out(login: RotatingLogin) -> None:
    login.alter("nologin")
    login.end_sessions()


CHANGES: dict[str, tuple[Callable[[RotatingLogin], None], Callable[[RotatingLogin], None]]] = {
    "rotated": (rotate, lambda _: None),
    "rotated_late": (rotate_late, RotatingLogin.tell_airflow),
    "rotated_and_ended": (rotate_and_end, lambda _: None),
    "expired": (expire, rotate),
    "locked_out": (lock_out, rotate),
}
"""What happens to the login in mid-batch, and what happens before the task is retried."""


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("change", CHANGES)
def test_credentials_that_change_in_mid_batch_cost_a_retry_at_most(
    connected: World, login: RotatingLogin, change: str, moment: str
) -> None:
    """Each error on the way is one that Airflow retries; then all that was sent has arrived, once, and is confirmed."""
    strike, repair = CHANGES[change]
    struck: list[Progress] = []

    def on_progress(progress: Progress) -> None:
        if not struck and MOMENTS[moment](progress):
            struck.append(progress)
            strike(login)

    hop = connected.first_hop
    connected.send("a", "b", "c")
    with service_file(ALL):
        try:
            transfer_hop(hop, ThreadRunner(2), recorded_by="test", progress=on_progress)
        except errors.Transient:
            repair(login)
        else:
            assert change not in ("rotated_and_ended", "locked_out")
            repair(login)
        transfer_hop(hop, ThreadRunner(2), recorded_by="test")
    assert len(struck) == 1
    connected.transfer_all()
    assert connected.payloads("flights/2") == ["a", "b", "c"]
    assert verify_route(connected.route).outcome == "delivered"


def test_spark_workers_log_in_with_what_was_rotated_after_the_plan(connected: World, login: RotatingLogin) -> None:
    """They are processes of their own, and have only the path of the service file: the run needs no retry."""
    hop, rotated = connected.first_hop, []

    def on_progress(progress: Progress) -> None:
        if not rotated and MOMENTS["planned"](progress):
            rotated.append(progress)
            rotate(login)

    connected.send("a", "b", "c")
    with spark_session("local[2]") as context, service_file(ALL) as path:
        context.environment["PGSERVICEFILE"] = str(path)
        done = transfer_hop(hop, SparkRunner(ContextSession(context)), recorded_by="test", progress=on_progress)
    assert (done.row_count, len(rotated)) == (3, 1)
    assert connected.payloads() == ["a", "b", "c"]
