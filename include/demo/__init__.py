"""The whole path from a Kafka topic to work orders, shown on real parts and checked: ``python -m demo``."""
