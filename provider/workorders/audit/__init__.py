"""Compares what a live installation has stored with itself and with Kafka; changes nothing."""
