"""Work orders, dataclips, rejections and runs: Postgres only, whatever the source."""
