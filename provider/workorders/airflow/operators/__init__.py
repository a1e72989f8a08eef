"""Operators that are independent of the type of a trigger."""
