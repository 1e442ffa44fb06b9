#!/bin/sh
# Runs a fuzz target for some seconds:  scripts/fuzz.sh [TARGET [SECONDS]]
#
# With the instrumentation that cargo-fuzz would ask for, but without a sanitizer, so that the
# stable compiler will do.
set -eu
. "$(dirname "$0")/common.sh"

target=${1:-hnsw_pages}
seconds=${2:-60}
host=$(rustc -vV | sed -n 's/^host: //p')
corpus=$build/fuzz/$target
mkdir -p "$corpus"
RUSTFLAGS="--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
-Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1" \
    cargo run --quiet --release --manifest-path fuzz/Cargo.toml --target-dir "$build/fuzz/target" --target "$host" --bin "$target" -- \
    "$corpus" -max_total_time="$seconds" -timeout=20 -artifact_prefix="$corpus-"
