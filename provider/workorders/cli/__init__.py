"""The `workorders` command."""
