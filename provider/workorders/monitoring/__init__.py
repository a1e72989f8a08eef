"""Figures for machines: metrics and health, for Prometheus, for Airflow's stats, and for the command line."""
