"""The Dags that relay the outbox, as configured by the file in WORKORDERS_OUTBOX or by include/outbox.yaml."""

import os
from pathlib import Path

from workorders.kafka.airflow import outbox_dags

_default = Path(__file__).parent.parent / "include" / "outbox.yaml"
globals().update(outbox_dags(Path(os.environ.get("WORKORDERS_OUTBOX", _default))))
