"""The trigger that reports the metrics: its arguments are in Airflow's database over upgrades."""

import json

from airflow._shared.module_loading import import_string

from workorders.airflow.triggers.metrics import ReportMetricsTrigger


def test_it_can_be_created_from_what_it_serializes_and_by_another_version() -> None:
    path, arguments = ReportMetricsTrigger(database_connection="other", duration=60.0).serialize()
    assert arguments == {"database_connection": "other", "duration": 60.0}
    again = import_string(path)(**json.loads(json.dumps(arguments)), of_a_later_version=1)
    assert again.serialize() == (path, arguments)
