"""The DAG that relays the outbox, as the file WORKORDERS_OUTBOX says, or else include/outbox.yaml."""

import os
from pathlib import Path

from workorders.kafka.airflow.outbox_relay import outbox_dags

_default = Path(__file__).parent.parent / "include" / "outbox.yaml"
globals().update(outbox_dags(Path(os.environ.get("WORKORDERS_OUTBOX", _default))))
