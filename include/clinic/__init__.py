"""What the example's workflows do with health events."""
