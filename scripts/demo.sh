#!/bin/sh
# Runs demo.sql in a throwaway cluster, with the documents in tests/data/handbook.
set -eu
. "$(dirname "$0")/common.sh"
. scripts/server.sh

make_scratch demo
cp -R tests/data/handbook "$scratch/handbook"
chmod -R a+rX "$scratch/handbook"
say "a throwaway PostgreSQL $pg_major in $scratch"
start_server "shared_preload_libraries = 'rag'"
as_server psql --no-psqlrc --quiet --echo-queries --set=ON_ERROR_STOP=1 \
    --set=handbook="$scratch/handbook" <scripts/demo.sql 2>&1 || {
    tail -n 30 "$scratch/server.log" >&2
    fail "the demo failed; the end of the server's log is above"
}
stop_server
say "done; the cluster is removed, the extension stays installed"
say "next: CREATE EXTENSION rag in your own database, and docs/guide/quick-start.md"
