#!/usr/bin/env bash
# Run once, by the Postgres image, when the volume is empty: a role and a database for the work orders.
set -euo pipefail
psql --username "$POSTGRES_USER" --dbname postgres --set ON_ERROR_STOP=1 --set password="$WORKORDERS_PASSWORD" <<'SQL'
CREATE ROLE workorders LOGIN PASSWORD :'password';
CREATE DATABASE workorders OWNER workorders;
SQL
