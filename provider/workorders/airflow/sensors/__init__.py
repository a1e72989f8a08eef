"""Deferrable sensors."""
