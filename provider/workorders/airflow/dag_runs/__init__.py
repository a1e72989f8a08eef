"""Workflows that run a Dag instead of a function."""
