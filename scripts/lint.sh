#!/bin/sh
# rustfmt and clippy over the whole workspace; any warning fails.
set -eu
. "$(dirname "$0")/common.sh"

read_pg_config
say "rustfmt"
cargo fmt --all --check
say "clippy, the extension for PostgreSQL $pg_major"
cargo clippy --quiet --release -p rag --all-targets --no-default-features --features "pg$pg_major" -- -D warnings
say "clippy, the crates"
cargo clippy --quiet --release --workspace --exclude rag --all-targets -- -D warnings
