"""The Kafka trigger and the outbox relay: cluster, offset ledger, planning, ingest and commit to the consumer group."""
