"""The alarms and the dashboard are made of metrics that exist; every alarm leads to a runbook that exists."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import yaml

from relaybox.monitoring.metrics import METRICS

DOCS = Path(__file__).parents[2] / "docs"
WATERMARKS = {"sent", "received", "settled", "delivered", "sender", "acknowledged"}


def alarms() -> list[dict[str, Any]]:
    document = yaml.safe_load((DOCS / "alerts.yml").read_text(encoding="utf-8"))
    return [rule for group in document["groups"] for rule in group["rules"]]


def named(expression: str) -> set[str]:
    return set(re.findall(r"relaybox_[a-z_]+", expression))


def test_every_metric_of_an_alert_exists() -> None:
    for alarm in alarms():
        assert named(alarm["expr"]), alarm["alert"]
        assert named(alarm["expr"]) <= set(METRICS), alarm["alert"]


def test_every_alert_names_its_runbook() -> None:
    """A file of docs/runbooks, which names the alarm in turn."""
    for alarm in alarms():
        runbook = DOCS.parent / alarm["annotations"]["runbook"]
        assert runbook.parent == DOCS / "runbooks"
        text = runbook.read_text(encoding="utf-8")
        assert f"`{alarm['alert']}`" in text
        assert alarm["labels"]["severity"] in {"page", "ticket"}


def test_every_watermark_has_an_age_alert() -> None:
    """A silent stall is worse than a crash."""
    alarmed = {watermark for alarm in alarms() for watermark in re.findall(r'watermark="([a-z]+)"', alarm["expr"])}
    sources = [
        *(DOCS.parent / "sql/functions/monitoring").glob("*_metrics.sql"),
        DOCS.parent / "plugins/relaybox/monitoring/metrics.py",
    ]
    given = "".join(path.read_text() for path in sources)
    assert alarmed == WATERMARKS
    assert set(re.findall(r"[\"']([a-z]+)[\"']", given)) >= WATERMARKS


def test_every_metric_is_on_the_dashboard_and_none_that_does_not_exist() -> None:
    dashboard = json.loads((DOCS / "grafana-dashboard.json").read_text(encoding="utf-8"))
    shown = {name for panel in dashboard["panels"] for target in panel["targets"] for name in named(target["expr"])}
    numbers_to_compute_with = {
        "relaybox_hop_reliability",
        "relaybox_hop_uniqueness",
        "relaybox_hop_progress_timestamp_seconds",
    }
    assert shown == set(METRICS) - numbers_to_compute_with


def test_the_documentation_lists_every_metric() -> None:
    text = (DOCS / "monitoring.md").read_text(encoding="utf-8").split("## Metrics")[1].split("\n## ")[0]
    assert set(re.findall(r"^\| `(relaybox_[a-z_]+)`", text, flags=re.MULTILINE)) == set(METRICS)
