"""Operators, sensors, and Dag factories of Kafka triggers and of the outbox relay."""

from typing import TYPE_CHECKING

from workorders.lazy import lazy_names

if TYPE_CHECKING:
    from workorders.kafka.airflow.commit_offsets import CommitOffsetsOperator as CommitOffsetsOperator
    from workorders.kafka.airflow.create_work_orders import CreateWorkOrdersOperator as CreateWorkOrdersOperator
    from workorders.kafka.airflow.dags import make_dags as make_dags
    from workorders.kafka.airflow.outbox_relay import outbox_dags as outbox_dags
    from workorders.kafka.airflow.plan_batch import PlanBatchOperator as PlanBatchOperator
    from workorders.kafka.airflow.triggers import WaitForMessagesSensor as WaitForMessagesSensor
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "CommitOffsetsOperator": "commit_offsets",
            "CreateWorkOrdersOperator": "create_work_orders",
            "PlanBatchOperator": "plan_batch",
            "WaitForMessagesSensor": "triggers",
            "make_dags": "dags",
            "outbox_dags": "outbox_relay",
        },
    )
    __all__ = list(__dir__())
