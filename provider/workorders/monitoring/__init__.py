"""Figures for machines, for Prometheus, and for the command line."""
