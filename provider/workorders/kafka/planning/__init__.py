"""When to plan a batch, and which offset ranges it has."""
