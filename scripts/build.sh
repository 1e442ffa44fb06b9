#!/bin/sh
# Builds everything that is installed:
#
#   build/package/               rag.so, the control file and the SQL, in PostgreSQL's folder layout
#   target/release/rag-engine
#   target/release/rag-gateway
#   build/model/                 ONNX Runtime, PDFium and the embedding model, fetched and converted
#   build/model/openvino/        OpenVINO, if WITH_OPENVINO is 1
#
# Uses one target folder and one profile for everything. Skips what is already up to date.
set -eu
. "$(dirname "$0")/common.sh"

read_pg_config
grep -q "^pg$pg_major = " Cargo.toml ||
    fail "PostgreSQL $pg_major is not supported, but 15 to 18: set PG_CONFIG to another pg_config"
pg_has_headers || fail "the headers of PostgreSQL $pg_major are missing: run 'make deps'"
[ "$(cargo pgrx --version 2>/dev/null | cut -d ' ' -f 2)" = "$PGRX_VERSION" ] ||
    fail "cargo-pgrx $PGRX_VERSION is missing: run 'make deps'"

# A package built for another PostgreSQL, or an older one, must not be installed.
rm -rf "$build/package"
mkdir -p "$build"
say "the extension for PostgreSQL $pg_major, rag-engine, rag-gateway and rag-model"
# One call keeps all processors busy. The next one finds its work done, and adds the SQL.
cargo build --release -p rag -p rag-engine -p rag-gateway -p rag-model --no-default-features \
    --features "rag/pg$pg_major"
cargo pgrx package --pg-config "$PG_CONFIG" --no-default-features --features "pg$pg_major" \
    --out-dir "$build/package" >"$build/package.log" ||
    { cat "$build/package.log" >&2; fail "could not build the extension"; }

say "the model $MODEL"
models/fetch.sh "$build/model"
if [ "${WITH_OPENVINO:-}" = 1 ]; then
    say "OpenVINO"
    models/fetch.sh "$build/model" openvino
fi
converter=$target/release/rag-model
dir=$build/model/$MODEL
if [ ! "$dir/model.onnx" -nt "$converter" ] || [ ! "$dir/model_int8.onnx" -nt "$converter" ]; then
    "$converter" convert --precision fp32 --precision int8 "$dir" "$dir" >/dev/null
fi
