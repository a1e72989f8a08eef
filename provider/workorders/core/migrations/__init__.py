"""Alembic environment of the whole package; every room keeps its own versions."""
