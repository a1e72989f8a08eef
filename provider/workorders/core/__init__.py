"""Work orders, dataclips, rejections and runs of every source, in Postgres only."""
