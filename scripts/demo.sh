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
gateway="$pg_libdir/rag/rag-gateway"
say "rag-gateway puts HTTP in front of the database"
exec_as_server "$gateway" serve --listen 127.0.0.1:0 2>"$scratch/gateway.log" &
background=$!
key=$(as_server psql --no-psqlrc --tuples-only --no-align --quiet --command "
    CREATE ROLE demo_web IN ROLE rag_reader; SELECT rag_create_api_key('demo', 'demo_web')")
for _ in 1 2 3 4 5 6 7 8 9 10; do
    address=$(sed -n 's/.*listening on //p' "$scratch/gateway.log")
    [ -z "$address" ] || break
    sleep 0.5
done
[ -n "$address" ] || { cat "$scratch/gateway.log" >&2; fail "rag-gateway did not start"; }
echo "rag-gateway serve                # $gateway"
echo "curl http://$address/v1/search -H \"Authorization: Bearer $key\" \\"
echo "    --json '{\"query\": \"who carries the pager?\", \"top_k\": 1}'"
if have curl; then
    curl --silent --show-error "http://$address/v1/search" -H "Authorization: Bearer $key" \
        -H 'Content-Type: application/json' -d '{"query": "who carries the pager?", "top_k": 1}'
    echo
fi
echo "http://$address/    # the console: log in with the key; docs/guide/console.md shows it"
if [ -t 0 ]; then
    say "press Enter to end the demo"
    read -r _
fi
kill "$background"
wait "$background" 2>/dev/null || true
background=
stop_server
say "done; the cluster is removed, the extension stays installed"
say "next: CREATE EXTENSION rag in your own database, and docs/guide/quick-start.md"
