"""The Kafka trigger: cluster, offset ledger, planning, ingest and commit to the consumer group."""
