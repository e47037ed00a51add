"""Hypothesis decides what happens next: RELAYBOX_TEST_EXAMPLES lives of two hops, of 30 steps each."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from relaybox.local.clusters import Cluster, write_service_file
from tests.administration import administer_all, copy_database
from tests.disposal import discard
from tests.faults.hop_machine import HopMachine
from tests.world import World, routes_file

EXAMPLES = int(os.environ.get("RELAYBOX_TEST_EXAMPLES", "25"))
STEPS = 30

lives = settings(
    max_examples=EXAMPLES,
    stateful_step_count=STEPS,
    derandomize=EXAMPLES <= 25,  # the default run is the same every time; longer ones look further and print how to repeat
    print_blob=True,
    deadline=None,
    report_multiple_bugs=False,
    suppress_health_check=list(HealthCheck),
)
_numbers = itertools.count(1)


@pytest.mark.timeout(60 + 20 * EXAMPLES)
def test_whatever_happens_in_whatever_order(
    clusters: Mapping[str, Cluster], template: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Logs stay dense, ordered and unchanged, confirmations true, plans fixed; at the end everything committed has arrived."""

    services = tmp_path / "services.conf"
    monkeypatch.setenv("PGSERVICEFILE", str(services))

    @contextmanager
    def make_world() -> Iterator[World]:
        name = f"life_{next(_numbers)}"
        administer_all(clusters, copy_database(name, template))
        try:
            write_service_file(services, {store: cluster.parameters(name) for store, cluster in clusters.items()})
            yield World(routes_file(tmp_path))
        finally:
            discard((cluster, name) for cluster in clusters.values())

    class Machine(HopMachine):
        pass

    Machine.make_world = staticmethod(make_world)
    run_state_machine_as_test(Machine, settings=lives)
