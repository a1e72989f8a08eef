"""Spark Connect servers whose executors are on a cluster, and have no package: Spark's own server, and ours."""

import pytest

from local_stack.stack import LocalStack
from support.cluster_attempts import Command, ours, server_on_cluster, sparks_own
from support.in_process_trigger import InProcessTrigger, kept
from support.topics import Topics
from workorders.core.postgres.connection import Connection
from workorders.kafka.client.secrets import JobSecrets

pytestmark = [pytest.mark.integration, pytest.mark.long, pytest.mark.timeout(900)]


@pytest.mark.parametrize("command", [sparks_own, ours])
def test_each_session_brings_the_package_to_the_executors(
    stack: LocalStack, topics: Topics, connection: Connection, name: str, *, command: Command
) -> None:
    with server_on_cluster(stack, name, command) as server:
        topics.create(name, partitions=2)
        for turn in range(3):
            if turn == 2 and command is ours:  # executors that come later have seen no session before
                server.replace_executors(stack)
            for partition in range(2):
                topics.produce(name, [b"{}"] * 10, partition=partition)
            batch_id = InProcessTrigger(stack, name).batch()
            outcomes = server.attempt(JobSecrets(stack.database_url, stack.kafka_settings), batch_id)
            assert [outcome.error for outcome in outcomes] == [None, None], turn
        assert list(kept(connection, name).values()) == [list(range(30)), list(range(30))]
        assert server.has_run_no_batch()
