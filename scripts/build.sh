#!/bin/sh
# Builds everything that is installed:
#
#   build/package/                  rag.so, the control file and the SQL, below PostgreSQL's own folders
#   target/release/rag-engine
#   build/model/                    ONNX Runtime and the embedding model, as fetched and as converted to ONNX
#
# One target folder and one profile for all of it. Does nothing that is done already.
set -eu
. "$(dirname "$0")/common.sh"

read_pg_config
pg_has_headers || fail "PostgreSQL $pg_major has no headers here: run 'make deps'"
[ "$(cargo pgrx --version 2>/dev/null | cut -d ' ' -f 2)" = "$PGRX_VERSION" ] || fail "cargo-pgrx $PGRX_VERSION is missing: run 'make deps'"

# A package of another PostgreSQL or of an older version must not be taken for this one.
rm -rf "$build/package"
mkdir -p "$build"
say "the extension for PostgreSQL $pg_major"
cargo pgrx package --pg-config "$PG_CONFIG" --no-default-features --features "pg$pg_major" --out-dir "$build/package" \
    >"$build/package.log" || { cat "$build/package.log" >&2; fail "the extension could not be built"; }

say "rag-engine and rag-model"
cargo build --release -p rag-engine -p rag-model

say "the model $MODEL"
models/fetch.sh "$build/model"
converter=$target/release/rag-model
dir=$build/model/$MODEL
if [ ! "$dir/model.onnx" -nt "$converter" ] || [ ! "$dir/model_int8.onnx" -nt "$converter" ]; then
    "$converter" convert --precision fp32 --precision int8 "$dir" "$dir" >/dev/null
fi
