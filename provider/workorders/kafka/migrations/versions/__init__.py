"""The migrations of the Kafka package."""
