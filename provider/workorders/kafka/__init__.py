"""The one room that knows Kafka: its cluster, the offset ledger, planning, ingest and the commit to the group."""
