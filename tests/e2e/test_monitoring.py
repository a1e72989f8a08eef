"""Prometheus reads the metrics of Airflow's own API server."""

import httpx
from prometheus_client.parser import text_string_to_metric_families

from local_stack.stack import LocalStack
from support.observed_trigger import Place
from support.prometheus import check


def test_prometheus_reads_the_metrics_of_the_api_server(
    airflow_stack: LocalStack, metrics_token: str, ordered: list[Place]
) -> None:
    address = f"{airflow_stack.airflow_url}/workorders/metrics"
    assert httpx.get(address, trust_env=False).status_code == 401
    answer = httpx.get(address, headers={"Authorization": f"Bearer {metrics_token}"}, timeout=60, trust_env=False)
    assert answer.status_code == 200, answer.text
    assert check("check", "metrics", text=answer.content) == ""
    families = {family.name: family for family in text_string_to_metric_families(answer.text)}
    ingested = [
        sample.value
        for sample in families["workorders_ingest_messages"].samples
        if sample.labels["trigger"] == "orders" and sample.labels["outcome"] in {"created", "rejected"}
    ]
    assert sum(ingested) >= len(ordered)
