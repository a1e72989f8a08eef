"""Figures for machines: metrics and health, for Prometheus, and for the command line."""
