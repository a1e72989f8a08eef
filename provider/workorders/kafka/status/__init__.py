"""The ledger compared with Kafka, for people."""
