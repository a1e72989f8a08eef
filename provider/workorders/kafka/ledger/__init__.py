"""Positions, batches, stalls, and attempt locks in Postgres: the truth about progress."""
