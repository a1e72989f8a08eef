"""`make up SPARK=cluster`: an Airflow whose batches run on a master and two workers."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from local_stack.stack import LocalStack
from support.airflow_api import AirflowApi
from support.dag_table import readme_trigger
from support.flow import Flow
from support.observed_trigger import INVALID, ObservedTrigger, some_events

pytestmark = pytest.mark.long

HERE = Path(__file__).parent


@pytest.fixture
def cluster_stack(tmp_path: Path) -> Iterator[LocalStack]:
    (tmp_path / "orders.yaml").write_text(readme_trigger(), encoding="utf-8")
    with LocalStack(
        airflow=True,
        spark_cluster=True,
        triggers_folder=tmp_path,
        workflows_folder=HERE / "workflows",
        name="spark-cluster",
    ) as stack:
        yield stack


def test_every_message_of_a_topic_becomes_a_work_order_on_the_cluster(cluster_stack: LocalStack) -> None:
    trigger = ObservedTrigger.on_stack(cluster_stack, "orders", "orders")
    trigger.create_topic(3)
    flow = Flow(AirflowApi(cluster_stack.airflow_url), trigger)
    places = trigger.produce(some_events(300, 3))
    trigger.produce_and_abort(some_events(30, 3))
    places += trigger.produce((0, value) for value in INVALID.values())
    flow.until_ingested(places)
    assert len(cluster_stack.spark_cluster.applications()) == len(flow.ingest_runs())
