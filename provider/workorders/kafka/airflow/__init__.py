"""Kafka triggers in Airflow: the sensor, its trigger, the operators and the DAGs."""
