"""The files for Prometheus and Grafana: they name metrics and pages that exist."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from local_stack.stack import CHECKOUT
from support.prometheus import check
from workorders.monitoring.prometheus import prometheus_name
from workorders.monitoring.snapshot import metrics

RULES_FILE = CHECKOUT / "ops" / "prometheus" / "workorders.rules.yaml"
RULES: list[dict[str, Any]] = [
    rule for group in yaml.safe_load(RULES_FILE.read_text(encoding="utf-8"))["groups"] for rule in group["rules"]
]
DASHBOARD: dict[str, Any] = json.loads((CHECKOUT / "ops" / "grafana" / "workorders.json").read_text(encoding="utf-8"))
NAMES = {prometheus_name(metric) for metric in metrics()}


def expressions() -> Iterator[str]:
    """Give the expressions of the dashboard."""
    for panel in DASHBOARD["panels"]:
        yield from (target["expr"] for target in panel.get("targets", ()))


def series(expression: str) -> set[str]:
    """Return the series of this project that an expression reads."""
    return set(re.findall(r"\bworkorders_\w+", re.sub(r'"[^"]*"', "", expression)))


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_an_alert_reads_metrics_that_exist_and_has_a_page_that_names_it(rule: dict[str, Any]) -> None:
    assert series(rule["expr"]) <= NAMES
    page = CHECKOUT / rule["annotations"]["runbook"]
    assert f"`{rule['alert']}`" in page.read_text(encoding="utf-8")
    assert rule["annotations"]["summary"]


def test_the_dashboard_reads_metrics_that_exist_and_each_panel_has_a_place() -> None:
    read = {name for expression in expressions() for name in series(expression)}
    assert read
    assert read <= NAMES
    places = [tuple(panel["gridPos"].values()) for panel in DASHBOARD["panels"]]
    assert len(set(places)) == len(places)
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(set(ids)) == len(ids)


@pytest.mark.long
def test_prometheus_takes_the_rules_and_every_expression_of_the_dashboard(tmp_path: Any) -> None:
    assert f"SUCCESS: {len(RULES)} rules found" in check("check", "rules", RULES_FILE)
    # Grafana replaces its variables before it asks.
    asked = [
        re.sub(r"\$__rate_interval", "1m", re.sub(r"\$(?:trigger|workflow)\b", ".*", one)) for one in expressions()
    ]
    rules = [{"record": f"panel:{number}", "expr": one} for number, one in enumerate(asked)]
    file = tmp_path / "dashboard.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]}))
    assert f"SUCCESS: {len(rules)} rules found" in check("check", "rules", file)


FIRES: dict[str, tuple[str, str, dict[str, str]]] = {
    "WorkOrdersListenerNotPolling": ('workorders_ingest_poll_age_seconds{trigger="a"}', "301+60x20", {"trigger": "a"}),
    "WorkOrdersPartitionStalled": (
        'workorders_ingest_stall_age_seconds{trigger="a",topic="t",partition="0"}',
        "901+60x20",
        {"trigger": "a", "topic": "t", "partition": "0"},
    ),
    "WorkOrdersIngestStuck": (
        'workorders_ingest_no_progress_age_seconds{trigger="a",topic="t",partition="0"}',
        "901+60x20",
        {"trigger": "a", "topic": "t", "partition": "0"},
    ),
    "WorkOrdersRunsWait": ('workorders_runs_oldest_wait_seconds{workflow="w"}', "3601+60x20", {"workflow": "w"}),
    "WorkOrdersOutboxHeld": ('workorders_outbox_holds{topic="t",kind="key"}', "1x20", {"topic": "t"}),
}
"""A series that makes an alert fire within 20 minutes, its values by the minute, and the labels of the alert."""


@pytest.mark.long
@pytest.mark.parametrize("alert", FIRES)
def test_an_alert_fires_for_what_it_is_named_after(alert: str, tmp_path: Any) -> None:
    name, values, labels = FIRES[alert]
    (rule,) = (rule for rule in RULES if rule["alert"] == alert)
    test = {
        "interval": "1m",
        "input_series": [{"series": name, "values": values}],
        "promql_expr_test": [
            {
                "expr": f'ALERTS{{alertname="{alert}", alertstate="firing"}}',
                "eval_time": "20m",
                "exp_samples": [{"value": 1, "labels": _labels(alert, labels | rule["labels"])}],
            },
        ],
    }
    file = tmp_path / "test.yaml"
    file.write_text(yaml.safe_dump({"rule_files": [str(RULES_FILE)], "tests": [test]}))
    assert "SUCCESS" in check("test", "rules", file)


def _labels(alert: str, labels: dict[str, str]) -> str:
    found = {"__name__": "ALERTS", "alertname": alert, "alertstate": "firing", **labels}
    return "{" + ", ".join(f'{name}="{value}"' for name, value in found.items()) + "}"
