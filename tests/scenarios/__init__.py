"""Whole stacks that differ from the usual one in one point."""
