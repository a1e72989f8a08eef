"""The Dag that Airflow starts for messages: it inserts a row for each."""

import os
from datetime import timedelta
from typing import Any

import psycopg
from airflow.sdk import Asset, AssetWatcher, dag, task

from compare.airflow_trigger import ObjectTrigger

_TOPIC = os.environ["COMPARE_TOPIC"]
_INSERT = f"INSERT INTO {os.environ['COMPARE_TABLE']} (topic, body) VALUES (%s, %s)"
_TRIGGER = ObjectTrigger(topics=[_TOPIC], dlq_topic=os.environ["COMPARE_DEAD"])
_MESSAGES = Asset("messages", watchers=[AssetWatcher(name="messages", trigger=_TRIGGER)])


# At its limit of active runs, a Dag would leave events behind until another one comes.
@dag(schedule=[_MESSAGES], max_active_runs=1000)
def register() -> None:
    """Do what the messages ask for."""

    @task(retries=5, retry_delay=timedelta(seconds=10))
    def insert(*, triggering_asset_events: Any) -> None:
        with psycopg.connect(os.environ["EFFECTS_URL"]) as connection:
            for event in triggering_asset_events[_MESSAGES]:
                connection.execute(_INSERT.encode(), (_TOPIC, event.extra["payload"]))

    insert()  # type: ignore[call-arg] # Airflow gives it the events


register()
