"""One module for each tool: how it is installed, configured, started, and asked."""

from typing import Final

from compare.peer import Peer
from compare.peers.airflow import AIRFLOW
from compare.peers.dbos import DBOS_STEP, DBOS_TRANSACTION
from compare.peers.debezium import DEBEZIUM
from compare.peers.ours import OURS_CONNECT, OURS_SUBMITTED
from compare.peers.streaming import STREAMING_ONCE, STREAMING_UPSERT

PEERS: Final[dict[str, Peer]] = {
    peer.slug: peer
    for peer in (
        OURS_CONNECT,
        OURS_SUBMITTED,
        DBOS_TRANSACTION,
        DBOS_STEP,
        DEBEZIUM,
        STREAMING_ONCE,
        STREAMING_UPSERT,
        AIRFLOW,
    )
}
