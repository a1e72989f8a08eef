"""The migrations of webhooks."""
