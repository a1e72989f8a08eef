"""The Kafka room's migrations."""
