"""An operator's decision about a stalled partition: what fits, and applying it."""
