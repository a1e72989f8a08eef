"""Schedules: one time of a schedule, one work order."""
