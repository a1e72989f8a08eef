"""What a Kafka trigger's file may contain. Opens no connection."""
