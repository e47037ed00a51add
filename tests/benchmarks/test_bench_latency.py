"""The latency benchmark measures what it says; all tests but one leave its Airflow out, as the real scheduler has tests of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from relaybox import errors
from relaybox.hops.runners import ThreadRunner
from relaybox.hops.transfer import transfer_hop
from relaybox.local.bench.latency import LINGER_SECONDS, measure_first, measure_lingering, run_bench_latency
from relaybox.local.bench.latency_report import HopCountFigures, LatencyReport, percentiles
from relaybox.local.bench.stores import DESTINATION, SOURCE, BenchStores
from relaybox.local.processes import tree_cpu_seconds
from relaybox.routes import Hop
from tests.support.world import wait_until

pytestmark = pytest.mark.thorough

DELAY_SECONDS = 1.0


@pytest.fixture
def stores(databases: object, tmp_path: Path) -> BenchStores:
    """Two empty databases under the names that the benchmark gives its own."""
    services = tmp_path / "services.conf"
    text = services.read_text()
    services.write_text(text.replace("[airline]", f"[{SOURCE}]").replace("[hub]", f"[{DESTINATION}]"))
    return BenchStores(tmp_path, {}, {"linger_seconds": LINGER_SECONDS})


def transfer(hop: Hop, linger_seconds: float = 0.0) -> None:
    transfer_hop(hop, ThreadRunner(), recorded_by="test", linger_seconds=linger_seconds)


def test_the_first_message_is_timed_from_its_commit_to_its_arrival(stores: BenchStores) -> None:
    """A hop that is run a second after the commit takes a second, and little more."""
    hop = stores.new_route()

    def run_late() -> None:
        wait_until(
            lambda: stores.query(SOURCE, "select relaybox_internal.hop_has_work(%s)", hop.name) == [(True,)],
            "the message is there",
        )
        stores.query(SOURCE, "select pg_sleep(%s)", DELAY_SECONDS)
        transfer(hop)

    with ThreadPoolExecutor(1) as pool:
        late = pool.submit(run_late)
        seconds = measure_first(stores, hop)
        late.result()
    assert DELAY_SECONDS <= seconds < DELAY_SECONDS + 5


def test_messages_to_a_lingering_hop_are_timed_one_by_one(stores: BenchStores) -> None:
    """As many values as messages, each shorter than the pause after which the hop ends."""
    hop = stores.new_route()
    with ThreadPoolExecutor(1) as pool:

        def run() -> None:
            wait_until(
                lambda: stores.query(SOURCE, "select relaybox_internal.hop_has_work(%s)", hop.name) == [(True,)], "a message"
            )
            transfer(hop, linger_seconds=2.0)

        driver = pool.submit(run)
        seconds = list(measure_lingering(stores, hop, 10))
        driver.result()
    assert len(seconds) == 10
    assert 0 < min(seconds) <= max(seconds) < LINGER_SECONDS
    assert stores.query(DESTINATION, "select published_position from relaybox_internal.hop_in where hop = %s", hop.name) == [
        (11,)
    ]


@pytest.mark.timeout(600)
def test_the_command_measures_under_airflow(tmp_path: Path) -> None:
    """With its own clusters and its own Airflow, as the README has it; only shorter."""
    written = tmp_path / "latency.json"
    short = ["--hops", "1", "--samples", "1", "--lingering-samples", "3", "--idle-seconds", "1", "--json", str(written)]
    command = subprocess.run(
        [str(Path(sys.executable).with_name("relaybox")), "bench", "latency", *short], capture_output=True, text=True, check=False
    )
    assert command.returncode == 0, command.stdout + command.stderr
    report = json.loads(written.read_text())
    assert report["first"]["1"]["p50"] > 0
    assert 0 < report["lingering"]["p50"] < LINGER_SECONDS


def test_cpu_time_counts_children_that_have_ended() -> None:
    """Tasks come and go: what they used must not vanish with them."""
    burn = "import time\nwhile time.process_time() < 0.5: pass\n"
    script = (
        f"import subprocess, sys; subprocess.run([sys.executable, '-c', {burn!r}]); print('done', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert 0.5 <= tree_cpu_seconds(process.pid) < 2.0


def test_percentiles_are_values_that_were_measured() -> None:
    assert percentiles([float(n) for n in range(100, 0, -1)]) == {"p50": 50.0, "p90": 90.0, "p99": 99.0, "max": 100.0}
    assert percentiles([7.0]) == {"p50": 7.0, "p90": 7.0, "p99": 7.0, "max": 7.0}


def test_a_missed_target_is_told() -> None:
    """The worst of the hop counts decides."""
    figures = tuple(HopCountFigures(hops, (seconds,), {"Airflow": 0.1}) for hops, seconds in ((1, 3.0), (10, 21.0)))
    report = LatencyReport("auto", 60.0, 5, {}, (1.0, 1.0), figures, (0.03, 0.04, 3.5))
    assert list(report.targets().values()) == [False, True, False]
    assert report.as_json()["first"]["10"]["p50"] == 21.0


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"hop_counts": [10, 1]}, r"hops is \[10, 1\]"),
        ({"hop_counts": []}, "hops is"),
        ({"samples": 0}, "samples is 0"),
        ({"lingering_samples": 0}, "lingering-samples is 0"),
        ({"idle_seconds": 0.5}, "idle-seconds is 0.5"),
        ({"runner": "sparks"}, "runner is sparks"),
    ],
    ids=str,
)
def test_a_wrong_argument_is_refused_before_anything_is_made(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(errors.ConfigurationError, match=said):
        run_bench_latency(**{"hop_counts": [1], "samples": 1, "lingering_samples": 1, "idle_seconds": 1.0, **wrong})
