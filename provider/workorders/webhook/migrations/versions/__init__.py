"""The outbox's migrations."""
