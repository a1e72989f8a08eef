"""Figures for machines, for Prometheus, for Airflow's stats, and for the command line."""
