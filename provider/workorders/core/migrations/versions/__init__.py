"""The core's migrations."""
