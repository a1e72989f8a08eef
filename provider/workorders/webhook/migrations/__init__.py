"""The webhooks' migrations."""
