"""Faults, injected into the real path from a topic to work orders, and an oracle that counts what became of it."""
