import pytest
from airflow.sdk.definitions.timetables.simple import NullTimetable
from airflow.sdk.exceptions import ParamValidationError
from airflow.serialization.serialized_objects import DagSerialization

from workorders.manual.airflow import make_dags
from workorders.manual.definition import ManualTriggerDefinition

DEFINITION = ManualTriggerDefinition(name="refunds", workflow="refund", example={"order": 17})


def test_the_form_begins_with_the_example_and_runs_on_request_only() -> None:
    (dag,) = make_dags(DEFINITION)
    assert (dag.dag_id, dag.is_paused_upon_creation) == ("refunds_manual", False)
    assert isinstance(dag.timetable, NullTimetable)
    assert dag.params.dump() == {"body": {"order": 17}, "reason": "", "actor": None, "key": None}
    DagSerialization.to_dict(dag)


def test_an_input_that_is_no_object_is_refused_by_the_form() -> None:
    (dag,) = make_dags(DEFINITION)
    dag.params["body"] = {}
    dag.params["key"] = "k"
    dag.params.validate()
    with pytest.raises(ParamValidationError):
        dag.params["body"] = [1]
