"""Carries messages from the outbox to Kafka: one transaction of Kafka a batch, and a marker that says it is there."""
