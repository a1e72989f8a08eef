"""Airflow triggers, which run in the triggerer."""
