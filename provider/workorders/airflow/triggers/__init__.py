"""Deferrable sensors that are independent of the type of a trigger, and their Airflow triggers."""
