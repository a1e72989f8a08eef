"""The files for Prometheus and Grafana: they name metrics and pages that exist."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from local_stack.stack import CHECKOUT
from support.prometheus import check
from workorders.core.metrics import readings
from workorders.monitoring.api import prometheus_name

RULES_FILE = CHECKOUT / "ops" / "prometheus" / "workorders.rules.yaml"
RULES: list[dict[str, Any]] = [
    rule for group in yaml.safe_load(RULES_FILE.read_text(encoding="utf-8"))["groups"] for rule in group["rules"]
]
DASHBOARD: dict[str, Any] = json.loads((CHECKOUT / "ops" / "grafana" / "workorders.json").read_text(encoding="utf-8"))
NAMES = {prometheus_name(metric) for reading in readings() for metric in reading.metrics}


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
    page = CHECKOUT / rule["annotations"]["runbook"].partition("#")[0]
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


A_PARTITION = 'trigger="a", topic="t", partition="0"'
FIRES: dict[str, tuple[dict[str, str], dict[str, str]]] = {
    "WorkOrdersMetricsMissing": (
        {'up{job="workorders", instance="i"}': "0x90"},
        {"job": "workorders", "instance": "i"},
    ),
    "WorkOrdersListenerNotPolling": ({'workorders_ingest_poll_age_seconds{trigger="a"}': "301x90"}, {"trigger": "a"}),
    "WorkOrdersPartitionStalled": (
        {f"workorders_ingest_stall_age_seconds{{{A_PARTITION}}}": "901x90"},
        {"trigger": "a", "topic": "t", "partition": "0"},
    ),
    "WorkOrdersIngestStuck": (
        {f"workorders_ingest_no_progress_age_seconds{{{A_PARTITION}}}": "901x90"},
        {"trigger": "a", "topic": "t", "partition": "0"},
    ),
    "WorkOrdersIngestLate": (
        {f"workorders_ingest_oldest_age_seconds{{{A_PARTITION}}}": "1801x90"},
        {"trigger": "a"},
    ),
    "WorkOrdersMessagesRejected": (
        {
            'workorders_ingest_messages_total{trigger="a", topic="t", outcome="rejected"}': "0+6x90",
            'workorders_ingest_messages_total{trigger="a", topic="t", outcome="created"}': "0+94x90",
        },
        {"trigger": "a"},
    ),
    "WorkOrdersRunsWait": ({'workorders_runs_oldest_wait_seconds{workflow="w"}': "3601x90"}, {"workflow": "w"}),
    "WorkOrdersRunsFail": (
        {
            'workorders_runs_recent{workflow="w", state="crashed"}': "11x90",
            'workorders_runs_recent{workflow="w", state="success"}': "89x90",
        },
        {"workflow": "w"},
    ),
    "WorkOrdersSequenceWaits": ({'workorders_sequences_parked{trigger="a"}': "1x90"}, {"trigger": "a"}),
    "WorkOrdersOutboxLate": ({'workorders_outbox_delay_seconds{topic="t"}': "901x90"}, {"topic": "t"}),
    "WorkOrdersOutboxHeld": ({'workorders_outbox_holds{topic="t", kind="key"}': "1x90"}, {"topic": "t"}),
    "WorkOrdersOutboxRelayFailed": ({'workorders_outbox_shard_failed{shard="0"}': "1x90"}, {"shard": "0"}),
    "WorkOrdersRetentionLate": ({"workorders_retention_run_age_seconds": "259201x90"}, {}),
    "WorkOrdersCountsLate": ({"workorders_work_orders_count_age_seconds": "3601x90"}, {}),
}
"""Series by which an alert fires within 90 minutes, their values by the minute, and the labels of the alert."""
JUST_BELOW: dict[str, str] = {
    "0x90": "1x90",
    "301x90": "300x90",
    "901x90": "900x90",
    "1801x90": "1800x90",
    "3601x90": "3600x90",
    "259201x90": "259200x90",
    "0+6x90": "0+5x90",
    "0+94x90": "0+95x90",
    "11x90": "10x90",
    "89x90": "90x90",
    "1x90": "0x90",
}
"""By the values that make an alert fire, those that do not."""


def test_each_alert_is_tried() -> None:
    assert list(FIRES) == [rule["alert"] for rule in RULES]


@pytest.mark.parametrize("alert", FIRES)
def test_an_alert_fires_for_what_it_is_named_after_and_not_before(alert: str, tmp_path: Any) -> None:
    given, labels = FIRES[alert]
    (rule,) = (rule for rule in RULES if rule["alert"] == alert)
    firing = [{"value": 1, "labels": _labels(alert, labels | rule["labels"])}]
    quiet = {name: JUST_BELOW[values] for name, values in given.items()}
    file = tmp_path / "test.yaml"
    tests = [_rule_test(alert, given, firing), _rule_test(alert, quiet, [])]
    file.write_text(yaml.safe_dump({"rule_files": [str(RULES_FILE)], "tests": tests}))
    assert "SUCCESS" in check("test", "rules", file)


def _rule_test(alert: str, given: dict[str, str], expected: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in given.items()],
        "promql_expr_test": [
            {
                "expr": f'ALERTS{{alertname="{alert}", alertstate="firing"}}',
                "eval_time": "90m",
                "exp_samples": expected,
            }
        ],
    }


def _labels(alert: str, labels: dict[str, str]) -> str:
    found = {"__name__": "ALERTS", "alertname": alert, "alertstate": "firing", **labels}
    return "{" + ", ".join(f'{name}="{value}"' for name, value in found.items()) + "}"
