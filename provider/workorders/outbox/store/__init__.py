"""The relay's side of the outbox in Postgres: leases, claims, holds, recovery. Knows no Kafka."""
