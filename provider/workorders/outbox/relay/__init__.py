"""Sends messages from the outbox to Kafka: each batch in one Kafka transaction, with a checkpoint that proves it."""
