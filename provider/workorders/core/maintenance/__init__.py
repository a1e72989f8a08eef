"""What runs by the clock: retention, refreshing the index and the counts."""
