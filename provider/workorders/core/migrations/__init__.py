"""Alembic environment of the whole package; core, the outbox and each trigger type have their own versions."""
