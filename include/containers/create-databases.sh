#!/usr/bin/env bash
# Run once, by the Postgres image, when the volume is empty: the databases of Airflow and of the work orders, and a role
# for each purpose. No other container knows the superuser's password.
set -euo pipefail
# The passwords come from the environment: arguments are visible to every process.
psql --username "${POSTGRES_USER:-postgres}" --dbname postgres --set ON_ERROR_STOP=1 <<'SQL'
\getenv airflow AIRFLOW_DATABASE_PASSWORD
\getenv owner WORKORDERS_OWNER_PASSWORD
\getenv writer WORKORDERS_WRITER_PASSWORD
\getenv reader WORKORDERS_READER_PASSWORD
CREATE ROLE airflow LOGIN PASSWORD :'airflow';
CREATE ROLE workorders_owner LOGIN PASSWORD :'owner';
CREATE ROLE workorders_writer LOGIN PASSWORD :'writer';
CREATE ROLE workorders_reader LOGIN PASSWORD :'reader';
CREATE DATABASE airflow OWNER airflow;
CREATE DATABASE workorders OWNER workorders_owner;
REVOKE ALL ON DATABASE airflow, workorders FROM PUBLIC;
GRANT CONNECT ON DATABASE workorders TO workorders_writer, workorders_reader;
SQL
