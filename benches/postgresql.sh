#!/bin/sh
# Installs into OUT_DIR a PostgreSQL with extensions to compare with, and with this extension. See
# scripts/postgresql.sh.
set -eu
[ $# -eq 2 ] || { echo "usage: $0 17|18 OUT_DIR" >&2; exit 2; }
out=$2
"$(dirname "$0")/../scripts/postgresql.sh" "$1" "$out"
. "$(dirname "$0")/../scripts/common.sh"

PG_CONFIG=$out/install/bin/pg_config
read_pg_config
say "the extension for PostgreSQL $pg_major"
cargo pgrx install --release --pg-config "$PG_CONFIG" --no-default-features \
    --features "pg$pg_major" >"$out/install.log" 2>&1 || {
    tail -n 30 "$out/install.log" >&2
    fail "could not build the extension for PostgreSQL $pg_major"
}
