"""Factories: the Dags of trigger files, workflow files, and history."""
