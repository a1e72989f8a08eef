"""How we talk to Postgres: connections and their limits, named SQL, binary COPY, arrays. Knows no work order."""
