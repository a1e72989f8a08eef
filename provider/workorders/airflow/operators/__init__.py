"""Operators that every trigger type and workflow shares."""
