#!/usr/bin/env bash
# What the published image's entry point does for docker-compose.yaml: as root it changes to the user postgres; an empty
# volume gets a superuser with a password, and the scripts run while the server listens on its socket alone.
set -Eeo pipefail
if [ "$1" = postgres ]; then
  if [ "$(id -u)" = 0 ]; then
    install --directory --owner postgres --mode 700 "$PGDATA"
    exec setpriv --reuid postgres --regid postgres --init-groups "$BASH_SOURCE" "$@"
  fi
  if [ ! -s "$PGDATA/PG_VERSION" ]; then
    initdb --username postgres --pwfile <(printf '%s\n' "${POSTGRES_PASSWORD:?}") --encoding UTF8 >&2
    printf 'host all all all scram-sha-256\n' >> "$PGDATA/pg_hba.conf"
    printf "unix_socket_directories = '/run/postgresql'\n" >> "$PGDATA/postgresql.conf"
    export PGHOST=/run/postgresql PGPASSWORD="$POSTGRES_PASSWORD"
    pg_ctl -D "$PGDATA" -o "-c listen_addresses=''" -w start >&2
    for script in /docker-entrypoint-initdb.d/*; do
      if [ ! -e "$script" ]; then continue; elif [ -x "$script" ]; then "$script"; else . "$script"; fi
    done
    pg_ctl -D "$PGDATA" -m fast -w stop >&2
    unset PGHOST PGPASSWORD
  fi
  set -- "$@" -c listen_addresses='*'
fi
exec "$@"
