"""Questions to a Kafka cluster, and readers without a consumer group."""
