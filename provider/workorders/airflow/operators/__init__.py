"""Operators that are independent of the type of a trigger."""

from typing import TYPE_CHECKING

from workorders.lazy import lazy_names

if TYPE_CHECKING:
    from workorders.airflow.operators.execute_runs import ExecuteRunsOperator as ExecuteRunsOperator
    from workorders.airflow.operators.execute_runs import RunDagsOperator as RunDagsOperator
    from workorders.airflow.operators.maintenance import RecoverLostRunsOperator as RecoverLostRunsOperator
    from workorders.airflow.operators.maintenance import RefreshHistoryOperator as RefreshHistoryOperator
    from workorders.airflow.operators.maintenance import ResumeBulkJobsOperator as ResumeBulkJobsOperator
    from workorders.airflow.operators.maintenance import RetentionOperator as RetentionOperator
    from workorders.airflow.operators.sequence_gaps import AlertSequenceGapsOperator as AlertSequenceGapsOperator
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "AlertSequenceGapsOperator": "sequence_gaps",
            "ExecuteRunsOperator": "execute_runs",
            "RecoverLostRunsOperator": "maintenance",
            "RefreshHistoryOperator": "maintenance",
            "ResumeBulkJobsOperator": "maintenance",
            "RetentionOperator": "maintenance",
            "RunDagsOperator": "execute_runs",
        },
    )
    __all__ = list(__dir__())
