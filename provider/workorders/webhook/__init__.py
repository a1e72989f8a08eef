"""Webhooks: one POST, one work order."""
