"""Deliberate breaks of the source, and the tests that must notice them."""
