"""Creates all work orders: from a batch, from one event, or for a person."""
