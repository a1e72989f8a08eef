"""Mutations of batches on a Spark Connect server."""

from mutations.mutation import Change, Mutation

CONNECT = "integration/kafka/spark/test_connect.py"
SERVER = "unit/kafka/spark/test_connect_server.py"

RUNNING_SPARK = (
    Mutation(
        "ranges-tried-again-while-the-lost-query-may-run",
        5,
        (Change("kafka/spark/driver.py", "if is_server_lost(error):", "if False:"),),
        (f"{CONNECT}::test_a_server_that_dies_after_a_commit_loses_nothing_and_repeats_nothing",),
    ),
    Mutation(
        "workers-with-another-package-accepted",
        2,
        (Change("kafka/spark/partition_ingest.py", "if self.package != installed_package():", "if False:"),),
        (f"{CONNECT}::test_workers_with_another_package_touch_nothing",),
    ),
    Mutation(
        "passwords-cross-the-network-in-plain-text",
        0,
        (
            Change(
                "kafka/spark/connect.py", "if not self.is_loopback and not (self.use_ssl and self.token):", "if False:"
            ),
        ),
        (f"{CONNECT}::test_another_machine_needs_tls_and_a_token",),
    ),
    Mutation(
        "server-open-to-everyone",
        0,
        (Change("kafka/spark/connect_server.py", "if host != LOOPBACK and not token:", "if False:"),),
        (f"{SERVER}::test_a_server_that_others_reach_needs_a_token",),
    ),
)
