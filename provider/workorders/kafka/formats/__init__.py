"""Formats of keys and values: from bytes on a topic to JSON, by the schemas of a registry."""
