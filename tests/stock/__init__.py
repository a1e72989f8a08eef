"""Airflow with its own settings."""
