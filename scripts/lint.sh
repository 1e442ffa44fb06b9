#!/bin/sh
# rustfmt and clippy over the whole workspace, and pgspot over the install script; any warning
# fails.
set -eu
. "$(dirname "$0")/common.sh"

read_pg_config
say "rustfmt"
cargo fmt --all --check
say "clippy, the extension for PostgreSQL $pg_major"
cargo clippy --quiet --release -p rag --all-targets --no-default-features --features "pg$pg_major" -- -D warnings
say "clippy, the crates"
cargo clippy --quiet --release --workspace --exclude rag --all-targets -- -D warnings

# CREATE EXTENSION runs the script as a superuser: nothing that it names may be looked up where
# others can put things.
PGSPOT_VERSION=0.9.4
say "pgspot $PGSPOT_VERSION, the install script"
script=$(find "$build/package" -name 'rag--*.sql' 2>/dev/null | head -n 1)
[ -n "$script" ] || fail "there is no install script in $build/package; run 'make' first"
if ! [ -x "$build/pgspot/bin/pgspot" ]; then
    python3 -m venv "$build/pgspot"
    "$build/pgspot/bin/pip" install --quiet "pgspot==$PGSPOT_VERSION"
fi
# Left out are the functions between the marks in sql/drift.sql: they become part of statements
# whose path is pinned. has_condition() becomes part of others' statements, and qualifies all that
# it names; so does rag_index_all(), which commits and so may have no search_path of its own.
sed '/^-- pgspot: off/,/^-- pgspot: on/d' "$script" >"$build/pgspot/checked.sql"
found=$("$build/pgspot/bin/pgspot" --proc-without-search-path 'rag.has_condition(conditions jsonb,type text)' \
    --proc-without-search-path 'extschema.rag_index_all(status text,collection text,INOUT summary jsonb)' "$build/pgspot/checked.sql") || true
case $found in
    *"Errors: 0 Warnings: 0"*) ;;
    *) fail "$found" ;;
esac
