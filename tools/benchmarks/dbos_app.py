"""`python -m benchmarks.dbos_app SERVERS TOPIC`: a workflow of DBOS for each message, in a separate environment."""

import os
import sys
import threading

from dbos import DBOS, KafkaMessage  # type: ignore[import-not-found]

from benchmarks.insert_row import insert


def main(servers: str, topic: str) -> None:
    """Consume until the process is ended."""
    DBOS(config={"name": "steady", "system_database_url": os.environ["DBOS_DATABASE_URL"], "run_admin_server": False})
    settings = {"bootstrap.servers": servers, "group.id": topic, "auto.offset.reset": "earliest"}
    insert_row = DBOS.step()(insert)

    @DBOS.kafka_consumer(settings, [topic])  # type: ignore[untyped-decorator]
    @DBOS.workflow()  # type: ignore[untyped-decorator]
    def register(message: KafkaMessage) -> None:
        insert_row(message.topic, message.offset, message.timestamp[1])

    DBOS.launch()
    threading.Event().wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
