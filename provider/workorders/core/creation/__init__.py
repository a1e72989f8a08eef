"""The only way a work order is made: by a batch, by one event, or by a person."""
